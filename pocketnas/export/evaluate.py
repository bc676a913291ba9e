"""Measure the accuracy of an exported file: the very file, in its own runtime."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pocketnas.errors import ExportError
from pocketnas.export.metadata import metadata_of, read_model
from pocketnas.export.runtimes import load

_CHUNK = 256  # images that are held as float32 at once


class LabelledImages(Protocol):
    """A split of a data set."""

    @property
    def images(self) -> npt.NDArray[np.uint8]:
        """(N, H, W, C), of bytes."""

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """(N,), the number of each image's class."""


class TestedData(Protocol):
    """A data set with a test split and the names of its classes."""

    @property
    def name(self) -> str:
        """What to call it."""

    @property
    def test(self) -> LabelledImages:
        """The test split."""

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each class."""


def evaluate_file(path: str | os.PathLike[str], dataset: TestedData) -> float:
    """Accuracy of a TFLite or ONNX file on a test split, normalized as the file itself says.

    Returns:
        The fraction of the images whose largest logit is that of their class.

    Raises:
        ExportError: The file cannot be run, does not say how images are normalized, or is for
            other classes.
    """
    content = read_model(path)
    metadata = metadata_of(content, str(path))
    if metadata.mean is None:
        raise ExportError(f"the model '{path}' does not say how its images are normalized")
    if metadata.labels is not None and metadata.labels != tuple(dataset.labels):
        raise ExportError(
            f"the model '{path}' knows the classes {', '.join(metadata.labels[:5])}, ..., which "
            f"are not those of the data set {dataset.name}"
        )
    run = load(content)
    images, labels = dataset.test.images, dataset.test.labels
    right = 0
    for start in range(0, len(images), _CHUNK):
        logits = run(metadata.normalize(images[start : start + _CHUNK]))
        right += int((logits.argmax(axis=1) == labels[start : start + _CHUNK]).sum())
    return right / len(images)
