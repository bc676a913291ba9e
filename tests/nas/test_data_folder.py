"""Folders of images: one folder a class."""

import shutil

import numpy as np
import pytest
from PIL import Image

from pocketnas.errors import DataError
from pocketnas.nas.data import load_data
from tests.nas.data_files import write_class_folders, write_image


def test_class_folders_are_split_by_class(tmp_path):
    dataset = load_data(write_class_folders(tmp_path / "pets", images=10))
    assert dataset.name == "pets"
    assert dataset.labels == ("cat", "dog")
    assert dataset.input_shape == (8, 10, 3)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (12, 4, 4)
    assert np.bincount(dataset.test.labels).tolist() == [2, 2]


def test_pixels_are_those_of_the_files(tmp_path):
    folder = write_class_folders(tmp_path / "pets")
    dataset = load_data(folder)
    stored = {np.asarray(Image.open(path)).tobytes() for path in folder.rglob("*.png")}
    for split in (dataset.train, dataset.validation, dataset.test):
        assert {image.tobytes() for image in split.images} <= stored


@pytest.mark.parametrize(
    "names", [("train", "val", "test"), ("training", "validation", "testing"), ("Train", "", "")]
)
def test_split_folders_are_kept(tmp_path, names):
    for name, images in zip(names, (9, 3, 4), strict=True):
        if name:
            write_class_folders(tmp_path / "pets" / name, images=images)
    dataset = load_data(tmp_path / "pets")
    counts = (len(dataset.train), len(dataset.validation), len(dataset.test))
    assert counts == ((18, 6, 8) if names[1] else (12, 2, 4))


def test_class_may_be_called_train(tmp_path):
    dataset = load_data(write_class_folders(tmp_path / "vehicles", classes=("car", "train")))
    assert dataset.labels == ("car", "train")


def test_images_may_lie_deeper_and_beside_notes_and_hidden_files(tmp_path):
    folder = write_class_folders(tmp_path / "pets", images=5)
    write_image(folder / "cat" / "from the garden" / "6.png")
    (folder / "cat" / "boxes.txt").write_text("notes")
    (folder / "cat" / ".DS_Store").write_bytes(b"\0")
    (folder / ".git").mkdir()
    (folder / "README.md").write_text("notes")
    dataset = load_data(folder)
    assert dataset.labels == ("cat", "dog")
    assert sum(len(s) for s in (dataset.train, dataset.validation, dataset.test)) == 11


def test_grey_images_stay_grey_and_mix_with_colour(tmp_path):
    folder = write_class_folders(tmp_path / "grey", mode="L")
    assert load_data(folder).input_shape == (8, 10, 1)
    write_image(folder / "cat" / "colour.png")
    assert load_data(folder).input_shape == (8, 10, 3)


@pytest.mark.parametrize("mode", ["1", "P", "LA", "RGBA"])
def test_every_usual_kind_of_pixel_is_read(tmp_path, mode):
    dataset = load_data(write_class_folders(tmp_path / "pets", mode=mode))
    assert dataset.input_shape == (8, 10, 1 if mode in ("1", "LA") else 3)


def test_16_bit_grey_keeps_its_upper_half(tmp_path):
    folder = write_class_folders(tmp_path / "xray", mode="L")
    deep = np.arange(80, dtype=np.uint16).reshape(8, 10) * 800
    for path in folder.rglob("*.png"):
        Image.fromarray(deep).save(path)
    np.testing.assert_array_equal(load_data(folder).train.images[0, ..., 0], deep >> 8)


def test_exif_orientation_turns_photographs(tmp_path):
    folder = write_class_folders(tmp_path / "photos", size=(16, 8))
    for path in folder.rglob("*.png"):
        image = Image.open(path)
        exif = image.getexif()
        exif[0x0112] = 6
        image.save(path, exif=exif)
    assert load_data(folder).input_shape == (16, 8, 3)


def test_sizes_may_differ_with_a_resolution_only(tmp_path):
    folder = write_class_folders(tmp_path / "pets")
    write_image(folder / "dog" / "big.jpg", size=(300, 200))
    with pytest.raises(
        DataError, match=r"differ in size .* pixels, .*choose one with --resolution"
    ):
        load_data(folder)
    assert load_data(folder, resolution=16).input_shape == (16, 16, 3)


def test_resolution_cuts_out_the_middle(tmp_path):
    folder = tmp_path / "flags"
    for label in ("a", "b"):
        for number in range(4):
            stripes = np.zeros((20, 60, 3), np.uint8)
            stripes[:, 15:45] = 200
            path = folder / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(stripes).save(path)
    assert (load_data(folder, resolution=8).train.images == 200).all()


def test_order_and_fingerprint_do_not_depend_on_the_file_system(tmp_path):
    first = write_class_folders(tmp_path / "a" / "pets")
    second = tmp_path / "b" / "pets"
    for path in sorted(first.rglob("*.png"), reverse=True):
        target = second / path.relative_to(first)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    assert load_data(first).fingerprint == load_data(second).fingerprint


def test_unreadable_image_is_named(tmp_path):
    folder = write_class_folders(tmp_path / "pets")
    path = folder / "dog" / "3.png"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=f"image '{path}' cannot be read"):
        load_data(folder)


def test_unknown_kind_of_file_is_named_rather_than_left_out(tmp_path):
    folder = write_class_folders(tmp_path / "pets")
    (folder / "cat" / "7.heic").write_bytes(b"")
    with pytest.raises(DataError, match=r"cat/7\.heic' is not an image of a known kind"):
        load_data(folder)


def test_folder_without_class_folders_is_refused(tmp_path):
    write_image(tmp_path / "pets" / "1.png")
    with pytest.raises(DataError, match="pets' has no class folders"):
        load_data(tmp_path / "pets")


def test_empty_class_is_named(tmp_path):
    folder = write_class_folders(tmp_path / "pets")
    (folder / "fish").mkdir()
    with pytest.raises(DataError, match=r"class folder '.*fish' has no images"):
        load_data(folder)


def test_class_missing_from_a_split_is_named(tmp_path):
    folder = tmp_path / "pets"
    write_class_folders(folder / "train", classes=("cat", "dog", "fish"))
    write_class_folders(folder / "test", classes=("cat", "dog"))
    with pytest.raises(DataError, match=r"class 'fish' is in '.*train' but missing from '.*test'"):
        load_data(folder)
    shutil.rmtree(folder / "train" / "fish")
    write_class_folders(folder / "test", classes=("bird",))
    with pytest.raises(DataError, match=r"class 'bird' is in '.*test' but missing from '.*train'"):
        load_data(folder)


def test_folder_beside_the_splits_is_refused(tmp_path):
    write_class_folders(tmp_path / "pets" / "train")
    write_class_folders(tmp_path / "pets" / "extra")
    with pytest.raises(DataError, match="extra' lies beside 'train' but is no split"):
        load_data(tmp_path / "pets")


def test_more_images_than_memory_are_refused(tmp_path, monkeypatch):
    folder = write_class_folders(tmp_path / "pets")
    for module in ("raw", "folder"):
        monkeypatch.setattr(f"pocketnas.nas.data.{module}.memory_limit_bytes", lambda: 1000)
    with pytest.raises(DataError, match=r"pets' has .* GB of images"):
        load_data(folder)
