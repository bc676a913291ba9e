"""From a network to a verified TFLite and ONNX file, through one small NHWC graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketnas.lazy import lazily

if TYPE_CHECKING:
    from pocketnas.export.check import Parity
    from pocketnas.export.evaluate import evaluate_file
    from pocketnas.export.exporter import Exported, export_network
    from pocketnas.export.graph import Graph
    from pocketnas.export.metadata import Metadata, read_metadata

_MODULES = {
    "Exported": "exporter",
    "Graph": "graph",
    "Metadata": "metadata",
    "Parity": "check",
    "evaluate_file": "evaluate",
    "export_network": "exporter",
    "read_metadata": "metadata",
}

__all__ = [
    "Exported",
    "Graph",
    "Metadata",
    "Parity",
    "evaluate_file",
    "export_network",
    "read_metadata",
]

__getattr__ = lazily(__name__, _MODULES)
