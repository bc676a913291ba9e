"""From what a user writes (`digits`, a path) to a data set."""

from __future__ import annotations

from pathlib import Path

from pocketnas.errors import DataError, UsageError
from pocketnas.nas.data.cifar import is_cifar_folder, read_cifar
from pocketnas.nas.data.dataset import Dataset
from pocketnas.nas.data.digits import read_digits
from pocketnas.nas.data.folder import read_folder
from pocketnas.nas.data.idx import is_idx_folder, read_idx
from pocketnas.nas.data.npz import read_npz
from pocketnas.nas.data.raw import RawData
from pocketnas.nas.data.resize import check_resolution, resize_data
from pocketnas.nas.data.split import build_dataset

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts its files."""

DATA_NAMES = ("digits", "fashion-mnist")
"""Data sets that have a name; all others are paths."""


def load_data(
    spec: str | Path,
    *,
    seed: int = 0,
    validation_fraction: float = 0.2,
    resolution: int | None = None,
    largest: int | None = None,
) -> Dataset:
    """Load a data set into memory, with training, validation and test splits.

    Splits that the source has are kept. A validation split that it lacks is carved from the
    training images, never from the test split; a test split that it lacks is carved first, and
    is the same for every seed.

    Args:
        spec: `digits`; `fashion-mnist`; or the path of a folder of IDX files, a folder of CIFAR's
            python files, an `.npz` in MedMNIST's layout, or a folder of class folders.
        seed: Decides which training images become the validation split.
        validation_fraction: Share of each class's training images to hold out for validation.
        resolution: Height and width in pixels; None keeps the data's own.
        largest: Where `resolution` is None: bring larger images, and those in class folders
            (which often differ in size), to this height and width.

    Raises:
        UsageError: `resolution` or `validation_fraction` is out of range.
        DataError: There is no such data set, or it cannot be read or learned from.
    """
    for side in (resolution, largest):
        if side is not None:
            check_resolution(side)
    if not 0 < validation_fraction < 1:
        raise UsageError(
            f"the validation fraction must be between 0 and 1 but got {validation_fraction}"
        )
    raw = _read(spec, resolution, largest)
    if resolution is None and largest is not None and max(raw.train.images.shape[1:3]) > largest:
        raw = resize_data(raw, largest)
    return build_dataset(raw, seed, validation_fraction)


def _read(spec: str | Path, resolution: int | None, largest: int | None) -> RawData:
    """Find out what is meant, and read it at its resolution."""
    if spec == "digits":
        return resize_data(read_digits(), resolution)
    path = Path(spec)
    if spec == "fashion-mnist":
        path = FASHION_MNIST
        if not path.is_dir():
            raise DataError(
                f"data set 'fashion-mnist' is not in '{path}': install Debian's package "
                "dataset-fashion-mnist, or give the folder of its IDX files"
            )
    try:
        return _read_path(path.expanduser(), str(spec), resolution, largest)
    except OSError as error:
        where = error.filename or spec
        raise DataError(f"'{where}' cannot be read: {error.strerror or error}") from None


def _read_path(path: Path, spec: str, resolution: int | None, largest: int | None) -> RawData:
    """Read a file or folder, told apart by what it holds."""
    if path.is_dir():
        if is_idx_folder(path):
            return resize_data(read_idx(path), resolution)
        if is_cifar_folder(path):
            return resize_data(read_cifar(path), resolution)
        return read_folder(path, resolution or largest)
    if not path.exists():
        raise DataError(
            f"there is no data set '{spec}': use {', '.join(DATA_NAMES)}, or the path of a folder "
            "or an .npz file that exists"
        )
    if path.suffix.lower() != ".npz":
        raise DataError(
            f"'{path}' is not a data set that can be read: use an .npz file in MedMNIST's layout, "
            "or a folder (of class folders, IDX files or CIFAR's python files)"
        )
    return resize_data(read_npz(path), resolution)
