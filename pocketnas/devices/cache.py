"""Where downloads, builds and leases are kept on this machine, for all runs of one user."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder(*parts: str) -> Path:
    """A folder in the user's cache (`POCKETNAS_CACHE` moves it), made if it is not there.

    Raises:
        OSError: it cannot be made.
    """
    base = os.environ.get("POCKETNAS_CACHE") or platformdirs.user_cache_dir("pocketnas")
    folder = Path(base, *parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
