"""Folders of class folders with images, optionally under train/, val/ and test/."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from pocketnas.errors import DataError
from pocketnas.nas.data.raw import Part, RawData, memory_limit_bytes, require_memory
from pocketnas.nas.data.resize import fit_square

_SPLITS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
_SUFFIXES = {
    *(".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff"),
    ".webp",
}
# What commonly lies beside images; any other file is refused, lest images be left out unnoticed.
_NOT_IMAGES = {".csv", ".db", ".htm", ".html", ".ini", ".json", ".md", ".txt", ".xml", ".yaml"}
_GREY_16_BIT = {"I;16", "I;16B", "I;16L"}


@dataclass(frozen=True)
class _Listing:
    """The image files of one split.

    Attributes:
        folder: That of the split.
        classes: Names of its class folders, sorted.
        files: Every image with the index of its class.
    """

    folder: Path
    classes: tuple[str, ...]
    files: tuple[tuple[Path, int], ...]


def read_folder(folder: Path, resolution: int | None) -> RawData:
    """Read images, each class from the folder of its name.

    Images are turned as their EXIF data says; transparency is dropped. They are read as grey if
    all of them are, else as RGB.

    Args:
        folder: Holds the class folders, or `train` and optionally `val` and `test` with them.
        resolution: Scale the shorter side to so many pixels and cut out the middle square; None
            takes images as they are, if all have one size.

    Raises:
        DataError: There are no class folders, a class is empty or not in every split, an image
            cannot be read, or sizes differ and there is no resolution.
    """
    listings = {name: _list_split(path) for name, path in _split_folders(folder).items()}
    train = listings["train"]
    for listing in listings.values():
        for missing in sorted(set(train.classes) ^ set(listing.classes)):
            holder, lacker = (train, listing) if missing in train.classes else (listing, train)
            raise DataError(
                f"class '{missing}' is in '{holder.folder}' but missing from '{lacker.folder}'"
            )
    files = [path for listing in listings.values() for path, _ in listing.files]
    images = _read_images(files, folder, resolution)
    parts, start = {}, 0
    for name, listing in listings.items():
        count = len(listing.files)
        labels = np.array([label for _, label in listing.files], np.int64)
        parts[name] = Part(images[start : start + count], labels, str(listing.folder))
        start += count
    return RawData(
        name=folder.resolve().name,
        train=parts["train"],
        validation=parts.get("validation"),
        test=parts.get("test"),
        source=str(folder),
        label_names=train.classes,
    )


def _split_folders(folder: Path) -> dict[str, Path]:
    """The folder of each split; without a `train` that holds folders, the whole is one."""
    inside = {path.name.lower(): path for path in _subfolders(folder)}
    training = [inside[name] for name in _SPLITS["train"] if name in inside]
    if not any(any(_subfolders(path)) for path in training):
        return {"train": folder}
    found: dict[str, Path] = {}
    for split, names in _SPLITS.items():
        there = [inside.pop(name) for name in names if name in inside]
        if len(there) > 1:
            raise DataError(
                f"'{folder}' has both '{there[0].name}' and '{there[1].name}': leave one of them"
            )
        if there:
            found[split] = there[0]
    if inside:
        raise DataError(
            f"'{next(iter(inside.values()))}' lies beside '{found['train'].name}' but is no "
            "split: use train, val and test"
        )
    return found


def _list_split(folder: Path) -> _Listing:
    """Find the images of one split, in an order that does not depend on the file system."""
    folders = list(_subfolders(folder))
    if not folders:
        raise DataError(
            f"'{folder}' has no class folders: put the images of each class into a folder of "
            "its name"
        )
    files: list[tuple[Path, int]] = []
    for index, path in enumerate(folders):
        images = list(_image_files(path))
        if not images:
            raise DataError(f"class folder '{path}' has no images")
        files += [(image, index) for image in images]
    return _Listing(folder, tuple(path.name for path in folders), tuple(files))


def _subfolders(folder: Path) -> Iterator[Path]:
    """Folders that are not hidden, sorted by name."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith("."):
            yield path


def _image_files(folder: Path) -> Iterator[Path]:
    """Image files below a class folder, sorted."""
    for path in sorted(folder.rglob("*")):
        if path.name.startswith(".") or not path.is_file():
            continue
        if path.suffix.lower() in _SUFFIXES:
            yield path
        elif path.suffix.lower() not in _NOT_IMAGES:
            raise DataError(
                f"'{path}' is not an image of a known kind: remove it, or convert it to PNG or "
                "JPEG"
            )


def _read_images(files: list[Path], folder: Path, resolution: int | None) -> NDArray[np.uint8]:
    """Read all images to (N, H, W, C) uint8. Pillow decodes outside Python's lock: use threads."""
    limit = memory_limit_bytes()
    read: list[NDArray[np.uint8]] = []
    shapes: dict[tuple[int, ...], Path] = {}
    size = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # In portions, so that an error or too much data ends the reading early.
        for start in range(0, len(files), 256):
            portion = files[start : start + 256]
            for path, image in zip(
                portion, pool.map(lambda p: _read_image(p, resolution), portion), strict=True
            ):
                size += image.nbytes
                shapes.setdefault(image.shape, path)
                read.append(image)
            if size > limit:
                require_memory(size, str(folder))
            _check_one_size(shapes, folder)
    channels = max(shape[2] for shape in shapes)
    height, width, _ = next(iter(shapes))
    require_memory(len(files) * height * width * channels, str(folder))
    images = np.empty((len(files), height, width, channels), np.uint8)
    read.reverse()
    for index in range(len(files)):
        # Grey images spread over three channels. Each is freed here, so that there are never two
        # copies of the whole.
        images[index] = read.pop()
    return images


def _check_one_size(shapes: dict[tuple[int, ...], Path], folder: Path) -> None:
    """Refuse images of different sizes, naming two of them."""
    sizes = {shape[:2]: path for shape, path in shapes.items()}
    if len(sizes) > 1:
        (a, first), (b, second) = list(sizes.items())[:2]
        raise DataError(
            f"the images of '{folder}' differ in size ('{first.name}' has {a[1]} x {a[0]} pixels, "
            f"'{second.name}' {b[1]} x {b[0]}): choose one with --resolution"
        )


def _read_image(path: Path, resolution: int | None) -> NDArray[np.uint8]:
    """Read one image to (H, W, 1 or 3) uint8."""
    try:
        with Image.open(path) as file:
            if resolution is not None:
                # A JPEG decodes several times faster at a fraction of its size.
                file.draft(None, (resolution, resolution))
            image = ImageOps.exif_transpose(file)
            image.load()
        if image.mode in _GREY_16_BIT:
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        elif image.mode in ("I", "F"):
            raise DataError(f"image '{path}' has 32-bit pixels: convert it to 8 bits a channel")
        grey = image.mode in ("1", "L", "LA")
        image = image.convert("L" if grey else "RGB")
        if resolution is not None:
            image = fit_square(image, resolution)
    except (OSError, SyntaxError, ValueError, struct.error, Image.DecompressionBombError) as error:
        raise DataError(f"image '{path}' cannot be read: {error}") from None
    array: NDArray[np.uint8] = np.array(image)
    return array.reshape(*array.shape[:2], 1 if grey else 3)
