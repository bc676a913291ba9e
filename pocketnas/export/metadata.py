"""What a file says about itself: class labels, normalization, and notes; in both formats alike.

It is one JSON object: in a TFLite file a metadata buffer named `pocketnas`, in an ONNX file the
property `pocketnas`.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pocketnas.errors import ExportError

KEY = "pocketnas"
FORMAT = 1


@dataclass(frozen=True)
class Metadata:
    """What is needed to use a model, beside the model.

    Attributes:
        labels: A name for each logit, in order; None where not known.
        mean: Per channel, of pixels in [0, 1]; None where not known.
        std: Per channel; the network takes (pixel - mean) / std.
        notes: Further texts, by name.
    """

    labels: tuple[str, ...] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    def normalize(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """What the network takes for images (N, H, W, C) of bytes."""
        if self.mean is None or self.std is None:
            raise ValueError("the metadata has no normalization")
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        pixels = images.astype(np.float32) / np.float32(255)
        return (pixels - mean) / std

    def to_json(self) -> str:
        """One line of JSON, always the same for the same metadata."""
        normalization = None
        if self.mean is not None and self.std is not None:
            normalization = {"mean": self.mean, "std": self.std}
        return json.dumps(
            {
                "format": FORMAT,
                "labels": self.labels,
                "normalization": normalization,
                "notes": dict(sorted(self.notes.items())),
            },
            ensure_ascii=False,
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Metadata:
        """Read what `to_json` wrote.

        Raises:
            ValueError: It is something else.
        """
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"its metadata is not of format {FORMAT}")
        try:
            labels, normalization = content["labels"], content["normalization"]
            return cls(
                None if labels is None else tuple(map(str, labels)),
                None if normalization is None else tuple(map(float, normalization["mean"])),
                None if normalization is None else tuple(map(float, normalization["std"])),
                {str(name): str(note) for name, note in content["notes"].items()},
            )
        except (KeyError, TypeError, AttributeError):
            raise ValueError("its metadata is incomplete") from None


def make_metadata(
    labels: Sequence[str] | None,
    normalization: tuple[Sequence[float], Sequence[float]] | None,
    notes: Mapping[str, str] | None,
    *,
    channels: int,
    classes: int,
) -> Metadata:
    """Metadata that fits a network of so many input channels and classes.

    Raises:
        ExportError: It does not fit, or cannot be used.
    """
    if labels is not None and len(labels) != classes:
        raise ExportError(f"{len(labels)} labels were given for a network of {classes} classes")
    mean, std = (None, None) if normalization is None else map(_floats, normalization)
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and len(values) != channels:
            raise ExportError(
                f"the normalization's {name} has {len(values)} values, but the images have "
                f"{channels} channels"
            )
        if values is not None and not all(map(math.isfinite, values)):
            raise ExportError(f"the normalization's {name} is not finite: {values}")
    if std is not None and min(std) <= 0:
        raise ExportError(f"the normalization's std must be positive but is {std}")
    return Metadata(
        None if labels is None else tuple(map(str, labels)), mean, std, dict(notes or {})
    )


def read_metadata(path: str | os.PathLike[str]) -> Metadata:
    """What a TFLite or ONNX file says about itself; nothing in it if PocketNAS did not write it.

    Raises:
        ExportError: The file cannot be read, or is no such file.
    """
    return metadata_of(read_model(path), str(path))


def read_model(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a model file.

    Raises:
        ExportError: The file cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ExportError(f"the model '{path}' cannot be read: {error.strerror}") from None


def is_tflite(content: bytes) -> bool:
    """Whether these are the bytes of a TFLite file, rather than of an ONNX file."""
    return content[4:8] == b"TFL3"


def metadata_of(content: bytes, name: str) -> Metadata:
    """As `read_metadata`, for the bytes of a file that errors call by `name`."""
    text = _tflite_text(content, name) if is_tflite(content) else _onnx_text(content, name)
    try:
        return Metadata() if text is None else Metadata.from_json(text)
    except ValueError as error:
        raise ExportError(f"the model '{name}' is damaged: {error}") from None


def _tflite_text(content: bytes, name: str) -> str | None:
    from ai_edge_litert import schema_py_generated as schema

    try:
        model = schema.Model.GetRootAs(content)
        if model.SubgraphsLength() == 0:
            raise ValueError("it holds no network")
        for number in range(model.MetadataLength()):
            entry = model.Metadata(number)
            if entry.Name() == KEY.encode():
                return bytes(model.Buffers(entry.Buffer()).DataAsNumpy()).decode()
    # What FlatBuffers raises where an offset points out of a truncated file.
    except (struct.error, IndexError, ValueError, TypeError, AttributeError) as error:
        raise ExportError(f"the model '{name}' is damaged: {error}") from None
    return None


def _onnx_text(content: bytes, name: str) -> str | None:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model: Any = onnx.load_model_from_string(content)
    except DecodeError:
        model = None
    if model is None or not model.HasField("graph"):
        raise ExportError(f"'{name}' is neither a TFLite nor an ONNX model, or is damaged")
    return next((entry.value for entry in model.metadata_props if entry.key == KEY), None)


def _floats(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
