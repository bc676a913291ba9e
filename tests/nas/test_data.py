"""`load_data`: what a data set is, however it was stored."""

import subprocess
import sys

import numpy as np
import pytest

from pocketnas.errors import DataError, UsageError
from pocketnas.nas.data import Dataset, Split, load_data
from pocketnas.nas.data.dataset import normalization
from pocketnas.nas.data.split import stratified, stratified_subset
from tests.nas.data_files import random_images, write_npz


def pixels(split: Split) -> set[bytes]:
    return {image.tobytes() for image in split.images}


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_data("digits")


def test_digits_are_all_there_in_three_splits(digits):
    splits = (digits.train, digits.validation, digits.test)
    assert sum(len(split) for split in splits) == 1797
    assert digits.input_shape == (8, 8, 1)
    assert digits.classes == 10
    assert digits.labels == tuple("0123456789")
    assert digits.license == "CC BY 4.0"
    for split in splits:
        assert split.images.dtype == np.uint8
        assert split.labels.dtype == np.int64
    assert digits.train.images.max() == 255


def test_splits_share_no_image(digits):
    train, validation, test = map(pixels, (digits.train, digits.validation, digits.test))
    assert not train & validation
    assert not train & test
    assert not validation & test


def test_splits_hold_each_class_in_proportion(digits):
    shares = [
        np.bincount(split.labels) / len(split)
        for split in (digits.train, digits.validation, digits.test)
    ]
    assert np.abs(shares[0] - shares[1]).max() < 0.01
    assert np.abs(shares[0] - shares[2]).max() < 0.01


def test_same_seed_gives_the_same_data_and_another_seed_another_validation(digits):
    again, other = load_data("digits"), load_data("digits", seed=1)
    assert again.fingerprint == digits.fingerprint
    assert other.fingerprint != digits.fingerprint
    assert pixels(other.validation) != pixels(digits.validation)


def test_test_split_is_the_same_for_every_seed(digits):
    other = load_data("digits", seed=1)
    np.testing.assert_array_equal(other.test.images, digits.test.images)
    np.testing.assert_array_equal(other.test.labels, digits.test.labels)


def test_validation_fraction_is_that_of_the_training_images(digits):
    halved = load_data("digits", validation_fraction=0.5)
    assert abs(len(halved.train) - len(halved.validation)) <= digits.classes
    assert len(halved.test) == len(digits.test)


def test_normalization_is_that_of_the_training_split(digits):
    scaled = digits.train.images / 255
    assert digits.mean == pytest.approx(scaled.mean((0, 1, 2)), abs=1e-6)
    assert digits.std == pytest.approx(scaled.std((0, 1, 2)), abs=1e-6)


def test_normalization_of_colours_is_per_channel():
    images = random_images(700, channels=3) // np.array([1, 2, 4], np.uint8)
    mean, std = normalization(images)
    assert mean == pytest.approx((images / 255).mean((0, 1, 2)), abs=1e-6)
    assert std == pytest.approx((images / 255).std((0, 1, 2)), abs=1e-6)


def test_normalization_of_a_constant_channel_stays_finite():
    _, std = normalization(np.full((4, 2, 2, 1), 7, np.uint8))
    assert std[0] > 0


def test_fingerprint_sees_one_pixel_and_one_label(digits):
    def changed(split: Split) -> Dataset:
        return Dataset(
            digits.name, digits.train, split, digits.test, digits.labels, digits.mean, digits.std,
            digits.license, digits.source,
        )  # fmt: skip

    images, labels = digits.validation.images.copy(), digits.validation.labels.copy()
    images[0, 0, 0, 0] ^= 1
    labels[0] = (labels[0] + 1) % 10
    prints = {
        digits.fingerprint,
        changed(Split(images, digits.validation.labels)).fingerprint,
        changed(Split(digits.validation.images, labels)).fingerprint,
    }
    assert len(prints) == 3
    assert changed(digits.validation).fingerprint == digits.fingerprint


@pytest.mark.parametrize("resolution", [4, 16, 28])
def test_resolution_scales_digits(digits, resolution):
    scaled = load_data("digits", resolution=resolution)
    assert scaled.input_shape == (resolution, resolution, 1)
    assert abs(scaled.mean[0] - digits.mean[0]) < 0.02
    assert scaled.fingerprint != digits.fingerprint


def test_own_resolution_changes_nothing(digits):
    assert load_data("digits", resolution=8).fingerprint == digits.fingerprint


@pytest.mark.parametrize("resolution", [-1, 0, 3, 1025])
def test_impossible_resolution_is_refused(resolution):
    with pytest.raises(UsageError, match=f"4 to 1024 pixels but got {resolution}"):
        load_data("digits", resolution=resolution)


@pytest.mark.parametrize("fraction", [-0.1, 0, 1, float("nan")])
def test_impossible_validation_fraction_is_refused(fraction):
    with pytest.raises(UsageError, match="between 0 and 1 but got"):
        load_data("digits", validation_fraction=fraction)


def test_unknown_data_set_names_what_there_is():
    with pytest.raises(DataError, match="no data set 'digit': use digits, fashion-mnist, or"):
        load_data("digit")


def test_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "images.tar.gz"
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"images\.tar\.gz' is not a data set that can be read"):
        load_data(path)


def test_folder_that_may_not_be_read_is_a_sentence(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    # As root, which tests may run as, no folder is unreadable.
    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    with pytest.raises(DataError, match=f"'{tmp_path}' cannot be read: Permission denied"):
        load_data(tmp_path)


def test_stratified_division_leaves_each_class_on_both_sides():
    labels = np.repeat([0, 1, 2], [2, 3, 500])
    for fraction in (0.01, 0.5, 0.99):
        kept, taken = stratified(labels, fraction, seed=0)
        assert set(labels[kept]) == set(labels[taken]) == {0, 1, 2}
        assert sorted([*kept, *taken]) == list(range(len(labels)))


def test_subset_is_stratified_and_seeded(digits):
    subset = stratified_subset(digits.train, 200, seed=3)
    assert abs(len(subset) - 200) <= digits.classes
    assert np.bincount(subset.labels).min() >= 17
    assert pixels(subset) <= pixels(digits.train)
    assert pixels(subset) == pixels(stratified_subset(digits.train, 200, seed=3))
    assert pixels(subset) != pixels(stratified_subset(digits.train, 200, seed=4))
    assert stratified_subset(digits.train, 10**6, seed=3) is digits.train


def test_one_class_only_is_refused(tmp_path):
    path = write_npz(tmp_path / "one.npz", train_labels=np.full(30, 5))
    with pytest.raises(DataError, match=r"one\.npz' has only the one class '5'"):
        load_data(path)


@pytest.mark.parametrize(("split", "name"), [("val", "validation"), ("test", "test")])
def test_class_missing_from_a_split_is_refused(tmp_path, split, name):
    count = {"val": 9, "test": 12}[split]
    path = write_npz(tmp_path / "gap.npz", **{f"{split}_labels": np.arange(count) % 2})
    with pytest.raises(DataError, match=f"class '2' is missing from the {name} split of '.*gap"):
        load_data(path)


def test_class_unknown_to_training_is_refused(tmp_path):
    path = write_npz(tmp_path / "new.npz", test_labels=np.arange(12) % 4)
    with pytest.raises(DataError, match=r"the test split of '.*new.* has label 3, which no train"):
        load_data(path)


def test_more_images_than_labels_is_refused(tmp_path):
    path = write_npz(tmp_path / "odd.npz", val_labels=np.arange(8) % 3)
    with pytest.raises(DataError, match=r"validation split of '.*odd.* 9 images but 8 labels"):
        load_data(path)


def test_class_too_rare_to_carve_from_is_refused(tmp_path):
    labels = np.array([0] * 15 + [1] * 14 + [2])
    path = write_npz(tmp_path / "rare.npz", train_labels=labels, val_images=None, val_labels=None)
    with pytest.raises(DataError, match=r"class '2' of '.*rare.* has too few images"):
        load_data(path)


def test_label_values_with_gaps_become_classes(tmp_path):
    names = {"train": 30, "val": 9, "test": 12}
    changes = {f"{split}_labels": (np.arange(n) % 3) * 10 - 10 for split, n in names.items()}
    dataset = load_data(write_npz(tmp_path / "gaps.npz", **changes))
    assert dataset.labels == ("-10", "0", "10")
    np.testing.assert_array_equal(dataset.test.labels, np.arange(12) % 3)


def test_images_of_another_size_in_a_split_are_refused(tmp_path):
    path = write_npz(tmp_path / "sizes.npz", test_images=random_images(12, side=9, channels=3))
    with pytest.raises(DataError, match=r"test images of .* are 9 x 9 x 3 but .* are 8 x 8 x 3"):
        load_data(path)


def test_more_data_than_half_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("pocketnas.nas.data.raw.memory_limit_bytes", lambda: 5_000_000)
    with pytest.raises(DataError, match=r"of images, more than the 0\.0 GB .* --resolution"):
        load_data("digits", resolution=256)


def test_importing_data_does_not_import_torch():
    code = "import sys, pocketnas.nas.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
