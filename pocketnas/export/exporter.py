"""Export a network: trace, fuse, write both files, and check them before anyone trusts them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from torch import nn

from pocketnas.errors import ExportError
from pocketnas.export.check import Parity, check_parity
from pocketnas.export.fuse import fuse
from pocketnas.export.graph import Graph
from pocketnas.export.metadata import Metadata, make_metadata
from pocketnas.export.onnx import write_onnx
from pocketnas.export.tflite import write_tflite
from pocketnas.export.trace import trace
from pocketnas.files import write_atomic
from pocketnas.threads import torch_threads

MODEL_FILES = {"litert": "model.tflite", "onnx": "model.onnx"}
"""What `Exported.write` calls the file of each runtime."""


@dataclass(frozen=True, eq=False)
class Exported:
    """A network as two files that agree with torch.

    Attributes:
        tflite: Bytes of the TFLite file: `image` (1, H, W, C) to `logits` (1, classes).
        onnx: Bytes of the ONNX file: `image` (1, C, H, W) to `logits` (1, classes).
        graph: What both were written from.
        parity: How far they are from torch.
        metadata: What both say about themselves.
    """

    tflite: bytes = field(repr=False)
    onnx: bytes = field(repr=False)
    graph: Graph = field(repr=False)
    parity: Parity
    metadata: Metadata

    @property
    def graph_sha256(self) -> str:
        """Hash of the structure (operators, shapes, attributes), whatever the weights."""
        return self.graph.sha256

    def write(self, folder: str | Path) -> tuple[Path, Path]:
        """Write `model.tflite` and `model.onnx`, each of them whole or not at all.

        Returns:
            The paths of the TFLite and of the ONNX file.

        Raises:
            OSError: The folder cannot be written.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tflite, onnx = folder / MODEL_FILES["litert"], folder / MODEL_FILES["onnx"]
        write_atomic(tflite, self.tflite)
        write_atomic(onnx, self.onnx)
        return tflite, onnx


def export_network(
    network: nn.Module,
    input_shape: tuple[int, int, int],
    *,
    labels: Sequence[str] | None = None,
    normalization: tuple[Sequence[float], Sequence[float]] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Exported:
    """Export a network as it is at inference; the network itself is left as it was.

    The same network gives the same bytes, always.

    Args:
        network: Takes normalized images (N, C, H, W) and returns logits (N, classes); built of
            the modules that docs/export.md lists.
        input_shape: (H, W, C) of the images.
        labels: A name for each class.
        normalization: (mean, std) per channel, of pixels in [0, 1].
        metadata: Further texts to keep in the files, by name.

    Raises:
        ExportError: The network holds something that cannot be exported, the labels or the
            normalization do not fit it, or a file disagrees with torch.
    """
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise ExportError(f"the input shape must be (height, width, channels), not {input_shape}")
    height, width, channels = input_shape
    # One thread: for one small image several only wait for each other.
    with torch_threads(1), _at_inference(network) as ready:
        graph = fuse(trace(ready, (height, width, channels)))
        description = make_metadata(
            labels, normalization, metadata, channels=channels, classes=graph.classes
        )
        text = description.to_json()
        tflite, onnx = write_tflite(graph, text), write_onnx(graph, text)
        parity = check_parity(ready, graph.input_shape, tflite, onnx)
    return Exported(tflite, onnx, graph, parity, description)


@contextmanager
def _at_inference(network: nn.Module) -> Iterator[nn.Module]:
    """The network in evaluation mode and on the CPU; a copy of it if it is elsewhere."""
    tensors = chain(network.parameters(), network.buffers())
    if any(tensor.device.type != "cpu" for tensor in tensors):
        yield copy.deepcopy(network).cpu().eval()
        return
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield network
    finally:
        for module, training in modes.items():
            module.training = training
