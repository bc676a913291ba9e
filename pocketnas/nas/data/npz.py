"""`.npz` files in MedMNIST's layout: train_images, train_labels, val_images, ..."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketnas.errors import DataError
from pocketnas.nas.data.raw import Part, RawData, require_memory


def read_npz(path: Path) -> RawData:
    """Read a data set from one `.npz` file. Pickled objects inside are never loaded.

    Raises:
        DataError: The file is damaged, an array is missing, or has another shape or type.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            for required in ("train_images", "train_labels"):
                if required not in names:
                    raise DataError(
                        f"'{path}' has no array '{required}': MedMNIST's layout is needed "
                        "(train_images, train_labels, and optionally val_..., test_...)"
                    )
            return RawData(
                name=path.stem,
                train=_part(archive, path, "train"),
                validation=_part(archive, path, "val") if "val_images" in names else None,
                test=_part(archive, path, "test") if "test_images" in names else None,
                source=str(path),
            )
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"'{path}' cannot be read: {error}") from None
    except (NotImplementedError, RuntimeError) as error:  # zipfile's: odd compression, encrypted
        raise DataError(f"'{path}' cannot be read: {error}") from None


def _part(archive: zipfile.ZipFile, path: Path, split: str) -> Part:
    """Read the images and labels of one split."""
    images = _array(archive, path, f"{split}_images")
    if images.dtype != np.uint8:
        raise DataError(
            f"'{split}_images' of '{path}' has type {images.dtype}: images must be uint8"
        )
    if images.ndim == 3:
        images = images[..., np.newaxis]
    labels = _array(archive, path, f"{split}_labels")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(
            f"'{split}_labels' of '{path}' has shape {labels.shape}: one class an image is "
            "needed, (N,) or (N, 1); data with several labels an image cannot be used"
        )
    if labels.dtype.kind not in "iu":
        raise DataError(
            f"'{split}_labels' of '{path}' has type {labels.dtype}: labels must be integers"
        )
    return Part(images, labels.astype(np.int64), str(path))


def _array(archive: zipfile.ZipFile, path: Path, name: str) -> NDArray[Any]:
    """Read one array, once its header says that it fits into memory."""
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise DataError(f"'{path}' has no array '{name}'") from None
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise DataError(f"'{name}' of '{path}' has an unknown format version {version}")
        require_memory(math.prod(shape) * dtype.itemsize, str(path))
    with archive.open(info) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array
