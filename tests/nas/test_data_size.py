from pathlib import Path

import numpy as np
from PIL import Image

from pocketnas.nas.data import load_data


def test_photos_of_unlike_sizes_are_brought_to_the_largest_side_allowed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(10):
            pixels = rng.integers(0, 256, (20 + number, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    assert load_data(tmp_path, largest=16).input_shape == (16, 16, 3)
    assert load_data(tmp_path, resolution=12, largest=16).input_shape == (12, 12, 3)


def test_a_set_with_one_size_is_made_smaller_but_never_larger() -> None:
    assert load_data("digits", largest=28).input_shape == (8, 8, 1)
    assert load_data("digits", largest=6).input_shape == (6, 6, 1)
