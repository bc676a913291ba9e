"""What a reader hands over: the parts that a source has, not yet split or checked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pocketnas.errors import DataError


@dataclass(frozen=True, eq=False)
class Part:
    """Images and labels as a source has them.

    Attributes:
        images: (N, H, W, C) uint8, with one (grey) or three (RGB) channels.
        labels: (N,) integers; any values, which `RawData.label_names` may name.
        source: The file or folder they come from.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.integer]
    source: str


@dataclass(frozen=True, eq=False)
class RawData:
    """A data set as its source has it.

    Attributes:
        name: What to call it.
        train: Training images, from which absent splits are carved.
        validation, test: None where the source has no such split.
        label_names: Class names by label value; a value without a name is called by its number.
        license: Where it is known.
        source: The file or folder it comes from.
    """

    name: str
    train: Part
    source: str
    validation: Part | None = None
    test: Part | None = None
    label_names: tuple[str, ...] = ()
    license: str | None = None

    def parts(self) -> Iterator[tuple[str, Part]]:
        """The splits that there are, with their names."""
        yield "training", self.train
        if self.validation is not None:
            yield "validation", self.validation
        if self.test is not None:
            yield "test", self.test


def require_memory(size_bytes: int, source: str) -> None:
    """Refuse what would not fit before anything of that size is allocated.

    Args:
        size_bytes: Of all images, as uint8.
        source: The file or folder, for the message.

    Raises:
        DataError: It is more than half of the machine's memory.
    """
    limit = memory_limit_bytes()
    if size_bytes > limit:
        raise DataError(
            f"'{source}' has {size_bytes / 1e9:,.1f} GB of images, more than the "
            f"{limit / 1e9:,.1f} GB (half of this machine's memory) that data may take: "
            "use fewer images or a smaller --resolution"
        )


def memory_limit_bytes() -> int:
    """Half of the physical memory; 4 GiB where it cannot be asked for (Windows)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30
