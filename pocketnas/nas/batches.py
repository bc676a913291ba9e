"""Batches from a split that lies in memory: picked, augmented and normalized as tensors.

At the sizes of a search a `DataLoader` has nothing to gain, and its workers cost CPU time of their
own (`benchmarks/training.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from pocketnas.nas.data import Split


class Normalizer:
    """Turns uint8 images into what a network takes.

    Args:
        mean, std: Per channel, of images as floats in [0, 1].
        device: Where the batches shall be.
    """

    def __init__(
        self, mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
    ) -> None:
        self.device = device
        # (x / 255 - mean) / std as one multiplication and one addition.
        self._scale = torch.tensor([1 / (255 * s) for s in std], device=device)
        self._shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=device)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Images (N, H, W, C) uint8 as (N, C, H, W) floats, in the channels_last format."""
        normalized = torch.addcmul(self._shift, images.float(), self._scale)
        return normalized.permute(0, 3, 1, 2)


class Batches:
    """The batches of a training split, in a new order each epoch.

    Args:
        split: Images and labels.
        normalizer: Of the data set.
        batch_size: Every batch has at least so many images (if the split has), so that no batch
            norm ever sees a remainder of one.
        augment: One of `AUGMENTATIONS`.
        generator: Decides order and augmentation; on the CPU.
    """

    def __init__(
        self,
        split: Split,
        normalizer: Normalizer,
        batch_size: int,
        augment: str,
        generator: torch.Generator,
    ) -> None:
        self._normalizer = normalizer
        self._images = torch.from_numpy(split.images).to(normalizer.device)
        self._labels = torch.from_numpy(split.labels).to(normalizer.device)
        self._augment = augment
        self._generator = generator
        self._count = max(1, len(split) // batch_size)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Normalized images (N, C, H, W) with their labels (N,), for one epoch."""
        order = torch.randperm(len(self._labels), generator=self._generator)
        for chosen in order.tensor_split(self._count):
            indices = chosen.to(self._normalizer.device)
            yield self._normalizer(self._pick(indices)), self._labels[indices]

    def _pick(self, indices: torch.Tensor) -> torch.Tensor:
        """The images at these positions, augmented: (N, H, W, C) uint8."""
        if self._augment == "none":
            return self._images[indices]
        count, (height, width) = len(indices), self._images.shape[1:3]
        rows = self._shifted(height, count)
        columns = self._shifted(width, count)
        if self._augment == "mirror":
            mirrored = torch.rand(count, 1, generator=self._generator) < 0.5
            columns = torch.where(mirrored, width - 1 - columns, columns)
        device = indices.device
        return self._images[
            indices[:, None, None], rows[:, :, None].to(device), columns[:, None, :].to(device)
        ]

    def _shifted(self, size: int, count: int) -> torch.Tensor:
        """Source positions (count, size) along one axis; what is shifted in repeats the edge."""
        most = max(1, size // 8)
        by = torch.randint(-most, most + 1, (count, 1), generator=self._generator)
        return (torch.arange(size) + by).clamp_(0, size - 1)


def in_order(
    images: NDArray[np.uint8], normalizer: Normalizer, batch_size: int
) -> Iterator[torch.Tensor]:
    """Normalized batches (N, C, H, W) of images (N, H, W, C), in their order."""
    for start in range(0, len(images), batch_size):
        batch = torch.from_numpy(images[start : start + batch_size])
        yield normalizer(batch.to(normalizer.device))
