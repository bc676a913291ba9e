"""IDX folders, `.npz` files and CIFAR's pickles: read to the byte, or refused by name."""

import gzip
import pickle
import random
import struct
import zipfile

import numpy as np
import pytest

from pocketnas.errors import DataError
from pocketnas.nas.data import load_data
from tests.nas.data_files import (
    cifar_rows,
    npz_arrays,
    python2_pickle,
    random_images,
    write_cifar10,
    write_cifar100,
    write_idx_folder,
    write_npz,
)

# --- IDX ---


def test_fashion_mnist_is_read_whole(fashion_mnist):
    dataset = load_data("fashion-mnist")
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (
        48000,
        12000,
        10000,
    )
    assert dataset.input_shape == (28, 28, 1)
    assert dataset.labels[9] == "Ankle boot"
    assert dataset.license == "MIT"
    assert dataset.name == "fashion-mnist"
    # The values that are published for the set.
    assert dataset.mean == pytest.approx((0.2860,), abs=1e-3)
    assert dataset.std == pytest.approx((0.3530,), abs=1e-3)
    assert load_data(fashion_mnist).fingerprint == dataset.fingerprint


def test_missing_fashion_mnist_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr("pocketnas.nas.data.load.FASHION_MNIST", tmp_path / "nothing")
    with pytest.raises(DataError, match="install Debian's package dataset-fashion-mnist"):
        load_data("fashion-mnist")


def test_idx_files_are_read_packed_or_not(tmp_path):
    packed = load_data(write_idx_folder(tmp_path / "packed"))
    plain = load_data(write_idx_folder(tmp_path / "plain", packed=False))
    assert packed.fingerprint == plain.fingerprint
    assert packed.name == "packed"
    np.testing.assert_array_equal(packed.test.images[..., 0], random_images(12))
    np.testing.assert_array_equal(packed.test.labels, np.arange(12) % 3)


def test_missing_idx_labels_are_named(tmp_path):
    folder = write_idx_folder(tmp_path / "idx")
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="lacks the test labels"):
        load_data(folder)


def test_idx_file_that_is_there_twice_is_refused(tmp_path):
    folder = write_idx_folder(tmp_path / "idx")
    write_idx_folder(folder, packed=False)
    with pytest.raises(DataError, match="both test images: leave one"):
        load_data(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it ends within its header"),
        (struct.pack(">4I", 0x0801, 30, 8, 8) + bytes(1920), "is not an IDX file of images"),
        (struct.pack(">4I", 0x0803, 30, 8, 8) + bytes(1919), "should hold 1,920 .* holds 1,919"),
        (struct.pack(">4I", 0x0803, 30, 8, 8) + bytes(1921), "should hold 1,920 .* holds more"),
        (struct.pack(">4I", 0x0803, *[2**32 - 1] * 3), "half of this machine's memory"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_damaged_idx_file_is_named(tmp_path, content, message, packed):
    folder = write_idx_folder(tmp_path / "idx", packed=packed)
    name = f"train-images-idx3-ubyte{'.gz' if packed else ''}"
    (folder / name).write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match=f"{name}' .*{message}"):
        load_data(folder)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-20], lambda raw: raw[:30] + b"\xff" * 40])
def test_damaged_gzip_is_named(tmp_path, damage):
    path = write_idx_folder(tmp_path / "idx") / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz' cannot be read"):
        load_data(path.parent)


# --- npz ---


def test_npz_keeps_the_splits_that_it_has(tmp_path):
    arrays = npz_arrays()
    dataset = load_data(write_npz(tmp_path / "pathmnist.npz"))
    assert dataset.name == "pathmnist"
    assert dataset.input_shape == (8, 8, 3)
    for split, name in (
        (dataset.train, "train"),
        (dataset.validation, "val"),
        (dataset.test, "test"),
    ):
        np.testing.assert_array_equal(split.images, arrays[f"{name}_images"])
        np.testing.assert_array_equal(split.labels, arrays[f"{name}_labels"][:, 0])


def test_npz_of_training_images_alone_is_split(tmp_path):
    without = dict.fromkeys(["val_images", "val_labels", "test_images", "test_labels"])
    dataset = load_data(write_npz(tmp_path / "train.npz", **without))
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (18, 6, 6)


def test_compressed_grey_npz_is_read(tmp_path):
    path = tmp_path / "grey.npz"
    np.savez_compressed(path, **npz_arrays(channels=1))
    assert load_data(path).input_shape == (8, 8, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": None}, "has no array 'train_images'"),
        ({"val_labels": None}, "has no array 'val_labels'"),
        ({"train_images": np.zeros((30, 8, 8))}, "has type float64: images must be uint8"),
        ({"train_labels": np.zeros(30)}, "has type float64: labels must be integers"),
        ({"train_labels": np.zeros((30, 14), int)}, r"shape \(30, 14\): one class an image"),
        ({"train_images": np.zeros((30, 8, 8, 4), np.uint8)}, r"\(30, 8, 8, 4\): grey or RGB"),
        ({"train_images": np.zeros((30, 8, 8, 8), np.uint8)}, r"\(30, 8, 8, 8\): grey or RGB"),
        ({"train_images": np.zeros((30, 0, 8, 3), np.uint8)}, r"\(30, 0, 8, 3\): grey or RGB"),
        ({"train_images": np.array([None] * 30)}, "cannot be read: Object arrays"),
    ],
)
def test_npz_of_another_layout_is_refused(tmp_path, changes, message):
    with pytest.raises(DataError, match=rf"set\.npz'? .*{message}"):
        load_data(write_npz(tmp_path / "set.npz", **changes))


def test_npz_header_that_promises_too_much_is_refused_unread(tmp_path):
    path = tmp_path / "bomb.npz"
    write_npz(path)
    with zipfile.ZipFile(path, "w") as archive, archive.open("train_images.npy", "w") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (10**9, 32, 32, 3)}
        np.lib.format.write_array_header_1_0(file, header)
        archive_labels = np.zeros(3, np.uint8)
    with zipfile.ZipFile(path, "a") as archive, archive.open("train_labels.npy", "w") as file:
        np.lib.format.write_array(file, archive_labels)
    with pytest.raises(DataError, match=r"bomb\.npz' has 3,072\.0 GB of images"):
        load_data(path)


# --- CIFAR ---


@pytest.mark.parametrize("protocol", [None, 0, 2, 4])
def test_cifar10_is_read_from_pickles_of_either_python(tmp_path, protocol):
    dataset = load_data(write_cifar10(tmp_path / "cifar-10-batches-py", protocol))
    assert dataset.name == "cifar-10"
    assert dataset.input_shape == (32, 32, 3)
    assert dataset.labels == tuple(f"thing {n}" for n in range(10))
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (80, 20, 20)
    planes = cifar_rows(20, seed=5).reshape(20, 3, 32, 32)
    np.testing.assert_array_equal(dataset.test.images[:, 4, 7, :], planes[:, :, 4, 7])


def test_cifar100_is_read_with_its_fine_labels(tmp_path):
    dataset = load_data(write_cifar100(tmp_path / "cifar"))
    assert dataset.name == "cifar-100"
    assert dataset.labels == tuple(f"fine {n}" for n in range(100))
    assert len(dataset.test) == 100


def test_missing_cifar_file_is_named(tmp_path):
    folder = write_cifar10(tmp_path / "cifar")
    (folder / "data_batch_3").unlink()
    with pytest.raises(DataError, match="data_batch_3' cannot be read: No such file"):
        load_data(folder)


class Hostile:
    """Writes a file when it is unpickled by `pickle` itself."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return open, (str(self.target), "w")


def test_pickle_that_calls_a_function_is_refused_and_calls_nothing(tmp_path):
    folder, target = write_cifar10(tmp_path / "cifar"), tmp_path / "pwned"
    content = pickle.dumps({b"data": Hostile(target)}, 2)
    pickle.loads(content)[b"data"].close()
    assert target.exists(), "the pickle would do nothing in any case"
    target.unlink()
    (folder / "data_batch_2").write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_2' .* names '.*open', and only plain data"):
        load_data(folder)
    assert not target.exists()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({b"labels": [0] * 20}, "it has no 'data'"),
        ({b"data": cifar_rows(20)}, "it has no 'labels'"),
        ({b"data": cifar_rows(20), b"labels": [0] * 19}, "has 20 images but 19 labels"),
        ({b"data": cifar_rows(20), b"labels": [b"0"] * 20}, "'labels' must be a list of integers"),
        ({b"data": cifar_rows(20)[:, :99], b"labels": []}, r"'data' must be \(N, 3072\)"),
        ({b"data": b"no array", b"labels": []}, r"'data' must be \(N, 3072\)"),
    ],
)
def test_pickle_that_is_not_cifars_is_refused(tmp_path, entries, message):
    folder = write_cifar10(tmp_path / "cifar")
    (folder / "data_batch_4").write_bytes(python2_pickle(entries))
    with pytest.raises(DataError, match=f"data_batch_4' .*{message}"):
        load_data(folder)


def test_arrays_of_anything_but_bytes_are_refused(tmp_path):
    folder = write_cifar10(tmp_path / "cifar")
    for array in (np.zeros((20, 3072)), np.array([print])):
        content = pickle.dumps({b"data": array, b"labels": [0] * 20}, 2)
        (folder / "data_batch_1").write_bytes(content)
        with pytest.raises(DataError, match="data_batch_1' cannot be read as a CIFAR file"):
            load_data(folder)


# --- any of them ---


@pytest.mark.parametrize("kind", ["idx", "npz", "cifar"])
def test_random_damage_never_ends_in_a_traceback(tmp_path, kind):
    path, whole = {
        "idx": lambda: (tmp_path / "idx" / "train-labels-idx1-ubyte.gz", write_idx_folder),
        "npz": lambda: (tmp_path / "set.npz", lambda _: write_npz(tmp_path / "set.npz")),
        "cifar": lambda: (tmp_path / "cifar" / "batches.meta", write_cifar10),
    }[kind]()
    whole(path.parent)
    source = path if kind == "npz" else path.parent
    load_data(source)
    content, dice, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        path.write_bytes(
            damaged[: dice.randrange(len(damaged))] if dice.random() < 0.2 else damaged
        )
        try:
            load_data(source)
        except DataError:
            refused += 1
    assert refused > 15
