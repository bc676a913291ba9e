"""From what a source has to a checked data set: classes, carved splits, normalization."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pocketnas.errors import DataError
from pocketnas.nas.data.dataset import Dataset, Split, normalization
from pocketnas.nas.data.raw import Part, RawData

# A source without a test split gives up the same test images whatever the seed, so that no
# search, under any seed, has ever learned from the images that another one is tested on.
_TEST_SEED = 0
_TEST_FRACTION = 0.2


def build_dataset(raw: RawData, seed: int, validation_fraction: float) -> Dataset:
    """Check a source's parts, carve the splits that it lacks, and normalize.

    Args:
        raw: What a reader read.
        seed: Decides which training images become the validation split.
        validation_fraction: Share of each class's training images that is held out where the
            source has no validation split.

    Raises:
        DataError: It cannot be learned from: mismatched lengths or sizes, one class only, a class
            that a split lacks, or too few images of a class to carve from.
    """
    for name, part in raw.parts():
        _check_part(name, part)
    _check_same_shape(raw)
    values = np.unique(raw.train.labels)
    labels = tuple(_label_name(int(value), raw.label_names) for value in values)
    if len(labels) < 2:
        raise DataError(
            f"'{raw.source}' has only the one class '{labels[0]}': there is nothing to tell apart"
        )
    splits = {name: _split(name, part, values, labels) for name, part in raw.parts()}
    train, validation, test = (splits.get(key) for key in ("training", "validation", "test"))
    assert train is not None
    if test is None:
        train, test = _carve(train, _TEST_FRACTION, _TEST_SEED, labels, raw.source)
    if validation is None:
        train, validation = _carve(train, validation_fraction, seed, labels, raw.source)
    mean, std = normalization(train.images)
    return Dataset(raw.name, train, validation, test, labels, mean, std, raw.license, raw.source)


def stratified(
    labels: NDArray[np.int64], fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide positions in two, class by class; both hold at least one image of every class.

    Args:
        labels: (N,) int64, with at least two images of every class.
        fraction: Share of each class that goes to the second.
        seed: Decides which.

    Returns:
        Positions of the first and of the second, in ascending order.
    """
    rng = np.random.default_rng(seed)
    chosen = np.zeros(len(labels), bool)
    for value in np.unique(labels):
        members = np.flatnonzero(labels == value)
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        chosen[rng.permutation(members)[:count]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def stratified_subset(split: Split, count: int, seed: int) -> Split:
    """About `count` images of a split, as many of each class as its share; all if it has fewer."""
    if count >= len(split):
        return split
    return split.take(stratified(split.labels, count / len(split), seed)[1])


def _carve(
    split: Split, fraction: float, seed: int, labels: tuple[str, ...], source: str
) -> tuple[Split, Split]:
    """Take a stratified share out of a split: what stays, and what was taken."""
    counts = np.bincount(split.labels, minlength=len(labels))
    rarest = int(counts.argmin())
    if counts[rarest] < 2:
        raise DataError(
            f"class '{labels[rarest]}' of '{source}' has too few images to hold some out for "
            "validation and test: each class needs at least 3, or splits of its own"
        )
    kept, taken = stratified(split.labels, fraction, seed)
    return split.take(kept), split.take(taken)


def _check_part(name: str, part: Part) -> None:
    """Refuse a part whose arrays do not go together."""
    if part.images.ndim != 4 or part.images.shape[-1] not in (1, 3) or 0 in part.images.shape[1:]:
        raise DataError(
            f"the {name} images of '{part.source}' have shape {part.images.shape}: grey or RGB "
            "images are needed, (N, H, W), (N, H, W, 1) or (N, H, W, 3)"
        )
    if len(part.images) != len(part.labels):
        raise DataError(
            f"the {name} split of '{part.source}' has {len(part.images):,} images but "
            f"{len(part.labels):,} labels"
        )
    if not len(part.labels):
        raise DataError(f"the {name} split of '{part.source}' has no images")


def _check_same_shape(raw: RawData) -> None:
    """Refuse splits whose images differ in size or channels."""
    shape = raw.train.images.shape[1:]
    for name, part in raw.parts():
        if part.images.shape[1:] != shape:
            raise DataError(
                f"the {name} images of '{part.source}' are {_shape_text(part.images.shape[1:])} "
                f"but the training images are {_shape_text(shape)}"
            )


def _split(name: str, part: Part, values: NDArray[np.integer], labels: tuple[str, ...]) -> Split:
    """A part as a split: label values become indices, and every class must be there."""
    present = np.unique(part.labels)
    unknown = np.setdiff1d(present, values)
    if len(unknown):
        raise DataError(
            f"the {name} split of '{part.source}' has label {unknown[0]}, which no training "
            "image has"
        )
    missing = np.setdiff1d(values, present)
    if len(missing):
        label = labels[int(np.searchsorted(values, missing[0]))]
        raise DataError(f"class '{label}' is missing from the {name} split of '{part.source}'")
    return Split(part.images, np.searchsorted(values, part.labels).astype(np.int64))


def _label_name(value: int, names: tuple[str, ...]) -> str:
    """The name of a label value."""
    return names[value] if 0 <= value < len(names) else str(value)


def _shape_text(shape: tuple[int, ...]) -> str:
    """(28, 30, 1) as '28 x 30 x 1'."""
    return " x ".join(str(size) for size in shape)
