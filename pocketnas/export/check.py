"""Compare exported files with torch, in the runtimes that will run them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from pocketnas.errors import ExportError
from pocketnas.export.graph import Array
from pocketnas.export.runtimes import load

TOLERANCE = 1e-4
_IMAGES = 2  # more than one, so that nothing may stay behind from the image before
_SMALLEST_SCALE = 1e-20  # below, runtimes differ in what they round to zero


@dataclass(frozen=True)
class Parity:
    """How far the files are from torch, on random images.

    Attributes:
        tflite_max_error: Largest absolute difference of a logit, in LiteRT.
        onnx_max_error: Largest absolute difference of a logit, in ONNX Runtime.
        scale: Largest absolute logit in torch.
    """

    tflite_max_error: float
    onnx_max_error: float
    scale: float

    @property
    def tflite_relative_error(self) -> float:
        """The TFLite file's error as a fraction of the scale."""
        return self.tflite_max_error / max(self.scale, _SMALLEST_SCALE)

    @property
    def onnx_relative_error(self) -> float:
        """The ONNX file's error as a fraction of the scale."""
        return self.onnx_max_error / max(self.scale, _SMALLEST_SCALE)


def check_parity(
    network: nn.Module, input_shape: tuple[int, int, int], tflite: bytes, onnx: bytes
) -> Parity:
    """Run the network in torch and its files in their runtimes, on the same random images.

    The tolerance is relative to the largest logit, as float32's rounding is: fresh networks can
    have logits of a millionth, and must not pass for that.

    Args:
        network: In evaluation mode, on the CPU.
        input_shape: (H, W, C) of the images.
        tflite: The TFLite file.
        onnx: The ONNX file.

    Raises:
        ExportError: A file differs from torch by more than `TOLERANCE`, or cannot be run.
    """
    shape = (_IMAGES, *input_shape)
    images = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    expected = _in_torch(network, images)
    if not np.isfinite(expected).all():
        raise ExportError(
            "the network's logits are not finite for random images, so its training has diverged"
        )
    tflite_error = _max_error(load(tflite)(images), expected)
    onnx_error = _max_error(load(onnx)(images), expected)
    parity = Parity(tflite_error, onnx_error, float(np.abs(expected).max()))
    for kind, error in (
        ("TFLite", parity.tflite_relative_error),
        ("ONNX", parity.onnx_relative_error),
    ):
        # Not `error > TOLERANCE`: that is false for NaN.
        if not error <= TOLERANCE:
            raise ExportError(
                f"the exported {kind} file disagrees with torch by {error:.1e} of the largest "
                f"logit, more than {TOLERANCE:.0e}"
            )
    return parity


def _in_torch(network: nn.Module, images: Array) -> Array:
    channels_first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    with torch.inference_mode():
        logits: Array = network(torch.from_numpy(channels_first)).numpy()
    return logits


def _max_error(actual: Array, expected: Array) -> float:
    if actual.shape != expected.shape:
        raise ExportError(
            f"an exported file gives logits of shape {actual.shape}, torch {expected.shape}"
        )
    return float(np.abs(actual.astype(np.float64) - expected).max())
