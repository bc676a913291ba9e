"""What a data set is: three splits of images in memory, and all that belongs to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

# A constant channel has no spread; half a grey level keeps normalized values small and finite.
_LEAST_STD = 0.5 / 255


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels.

    Attributes:
        images: (N, H, W, C) uint8.
        labels: (N,) int64, indices into the data set's labels.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: NDArray[np.int64]) -> Split:
        """The images at these positions, as a split of their own."""
        return Split(self.images[indices], self.labels[indices])


@dataclass(frozen=True, eq=False)
class Dataset:
    """A classification task.

    Attributes:
        name: What it is called in reports, e.g. `digits`.
        train: What networks learn from.
        validation: What candidates are compared by; never part of the test split.
        test: What is looked at once, at the very end.
        labels: Names of the classes, in the order of the logits.
        mean, std: Per channel, of the training images as floats in [0, 1].
        license: Where it is known.
        source: Where the images were read from.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    labels: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    license: str | None
    source: str

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.labels)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(H, W, C) of the images."""
        _, height, width, channels = self.train.images.shape
        return height, width, channels

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits that change with any pixel, any label, the split and the resolution."""
        digest = hashlib.sha256(repr((self.labels, self.input_shape)).encode())
        for split in (self.train, self.validation, self.test):
            digest.update(len(split).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(split.images).data)
            digest.update(np.ascontiguousarray(split.labels, dtype="<i8").data)
        return digest.hexdigest()[:16]


def normalization(
    images: NDArray[np.uint8],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, of images taken as floats in [0, 1].

    Counting grey levels keeps the sums exact, so the values do not depend on the order of images;
    they are rounded to six digits, which is how they are written beside an exported model.

    Args:
        images: (N, H, W, C) uint8.
    """
    levels = np.arange(256) / 255
    means, stds = [], []
    for channel in range(images.shape[-1]):
        counts = np.zeros(256, np.int64)
        # A few hundred images at a time: `bincount` copies its input to 64-bit integers.
        for start in range(0, len(images), 256):
            counts += np.bincount(images[start : start + 256, ..., channel].ravel(), minlength=256)
        share = counts / counts.sum()
        mean = float(share @ levels)
        std = float(np.sqrt(share @ (levels - mean) ** 2))
        means.append(round(mean, 6))
        stds.append(round(max(std, _LEAST_STD), 6))
    return tuple(means), tuple(stds)
