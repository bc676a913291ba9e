"""Image data sets, in memory: where they are read from, and how they are split."""

from __future__ import annotations

from pocketnas.nas.data.dataset import Dataset, Split
from pocketnas.nas.data.load import DATA_NAMES, load_data

__all__ = ["DATA_NAMES", "Dataset", "Split", "load_data"]
