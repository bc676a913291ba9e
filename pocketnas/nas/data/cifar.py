"""CIFAR-10 and CIFAR-100 in their python layout (Krizhevsky 2009)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketnas.errors import DataError
from pocketnas.nas.data.raw import Part, RawData
from pocketnas.nas.data.unpickle import read_plain_pickle

_SIDE = 32


def is_cifar_folder(folder: Path) -> bool:
    """Whether a folder holds CIFAR's python files."""
    return (folder / "data_batch_1").is_file() or (
        (folder / "meta").is_file() and (folder / "train").is_file()
    )


def read_cifar(folder: Path) -> RawData:
    """Read CIFAR-10 (`data_batch_1` to `_5`) or CIFAR-100 (`train`, fine labels).

    Raises:
        DataError: A file is missing, damaged, or not CIFAR's.
    """
    if (folder / "data_batch_1").is_file():
        name, meta, labels, label_names = "cifar-10", "batches.meta", "labels", "label_names"
        train = [f"data_batch_{number}" for number in range(1, 6)]
        test = "test_batch"
    else:
        name, meta, labels, label_names = "cifar-100", "meta", "fine_labels", "fine_label_names"
        train, test = ["train"], "test"
    parts = [_part(folder / file, labels) for file in train]
    return RawData(
        name=name,
        train=Part(
            np.concatenate([part.images for part in parts]),
            np.concatenate([part.labels for part in parts]),
            str(folder),
        ),
        test=_part(folder / test, labels),
        source=str(folder),
        label_names=_names(folder / meta, label_names),
    )


def _part(path: Path, labels_key: str) -> Part:
    """Read one file of images: rows of 1,024 red, green and then blue values."""
    content = read_plain_pickle(path)
    data = _entry(content, "data", path)
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 3 * _SIDE**2:
        raise DataError(f"'{path}' is not a CIFAR file: 'data' must be (N, 3072) unsigned bytes")
    images: NDArray[np.uint8] = data.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    labels = _entry(content, labels_key, path)
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError(f"'{path}' is not a CIFAR file: '{labels_key}' must be a list of integers")
    if len(labels) != len(images):
        raise DataError(f"'{path}' has {len(images):,} images but {len(labels):,} labels")
    return Part(np.ascontiguousarray(images), _integers(labels, path), str(path))


def _integers(labels: list[int], path: Path) -> NDArray[np.int64]:
    """Labels as an array."""
    try:
        return np.array(labels, np.int64)
    except OverflowError:
        raise DataError(f"'{path}' is not a CIFAR file: a label is out of range") from None


def _names(path: Path, key: str) -> tuple[str, ...]:
    """Class names from a meta file."""
    names = _entry(read_plain_pickle(path), key, path)
    if not isinstance(names, list) or not all(isinstance(name, bytes | str) for name in names):
        raise DataError(f"'{path}' is not a CIFAR file: '{key}' must be a list of names")
    return tuple(
        name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names
    )


def _entry(content: dict[str, Any], key: str, path: Path) -> Any:
    """An entry that must be there."""
    if key not in content:
        raise DataError(f"'{path}' is not a CIFAR file: it has no '{key}'")
    return content[key]
