"""The embedded data set: 1,797 real handwritten digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from pocketnas.nas.data.raw import Part, RawData


def read_digits() -> RawData:
    """8 x 8 grey images of the digits 0 to 9; the source has no splits."""
    from sklearn.datasets import load_digits

    source = "sklearn.datasets.load_digits"
    bunch = load_digits()
    # Pixels count the ink of 4 x 4 bitmaps: 0 to 16.
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[..., np.newaxis]
    return RawData(
        name="digits",
        train=Part(images, np.asarray(bunch.target), source),
        source=f"{source} (UCI, Optical Recognition of Handwritten Digits)",
        license="CC BY 4.0",
    )
