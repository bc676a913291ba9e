"""Bringing images to one square size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pocketnas.errors import UsageError
from pocketnas.nas.data.raw import Part, RawData, require_memory

LEAST_RESOLUTION, MOST_RESOLUTION = 4, 1024


def check_resolution(resolution: int) -> None:
    """Refuse a side length that no data set is brought to.

    Raises:
        UsageError: It is out of range.
    """
    if not LEAST_RESOLUTION <= resolution <= MOST_RESOLUTION:
        raise UsageError(
            f"resolution must be from {LEAST_RESOLUTION} to {MOST_RESOLUTION} pixels but got "
            f"{resolution}"
        )


def fit_square(image: Image.Image, side: int) -> Image.Image:
    """Scale the shorter side to `side` pixels and cut the middle of the longer one."""
    width, height = image.size
    edge = min(width, height)
    left, top = (width - edge) / 2, (height - edge) / 2
    return image.resize(
        (side, side), Image.Resampling.BILINEAR, box=(left, top, left + edge, top + edge)
    )


def resize_data(raw: RawData, resolution: int | None) -> RawData:
    """A source's images at a resolution; None keeps them as they are.

    Raises:
        DataError: They would not fit into memory at that size.
    """
    if resolution is None or raw.train.images.shape[1:3] == (resolution, resolution):
        return raw
    pixels = sum(len(part.images) * part.images.shape[-1] for _, part in raw.parts())
    require_memory(pixels * resolution**2, raw.source)
    return replace(
        raw,
        train=_resize(raw.train, resolution),
        validation=raw.validation and _resize(raw.validation, resolution),
        test=raw.test and _resize(raw.test, resolution),
    )


def _resize(part: Part, side: int) -> Part:
    """A part with square images."""
    count, _, _, channels = part.images.shape
    images = np.empty((count, side, side, channels), np.uint8)
    for index, image in enumerate(part.images):
        images[index] = _resize_image(image, side)
    return replace(part, images=images)


def _resize_image(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """One image (H, W, C) as (side, side, C)."""
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    return np.asarray(fit_square(picture, side)).reshape(side, side, image.shape[-1])
