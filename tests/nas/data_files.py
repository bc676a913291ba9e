"""Writers of small data sets in every layout that PocketNAS reads."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image


def random_images(count, side=8, channels=1, seed=0):
    """(N, H, W, C) uint8; without the last axis for grey images."""
    images = np.random.default_rng(seed).integers(0, 256, (count, side, side, channels), np.uint8)
    return images[..., 0] if channels == 1 else images


def cycling_labels(count, classes=3):
    return np.arange(count) % classes


def write_idx_folder(folder: Path, train=30, test=12, classes=3, packed=True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", train), ("t10k", test)):
        images, labels = random_images(count), cycling_labels(count, classes)
        for kind, array in (("images", images), ("labels", labels.astype(np.uint8))):
            header = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
            name = f"{split}-{kind}-idx{array.ndim}-ubyte"
            content = header + array.tobytes()
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)
    return folder


def npz_arrays(counts=(("train", 30), ("val", 9), ("test", 12)), channels=3):
    arrays = {}
    for split, count in counts:
        arrays[f"{split}_images"] = random_images(count, channels=channels)
        arrays[f"{split}_labels"] = cycling_labels(count).astype(np.uint8)[:, np.newaxis]
    return arrays


def write_npz(path: Path, **changes) -> Path:
    """MedMNIST's layout; a change of None leaves an array out."""
    arrays = {**npz_arrays(), **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def python2_pickle(entries: dict[bytes, object]) -> bytes:
    """Pickle as Python 2 and its numpy did when CIFAR was made: byte strings, `numpy.core`."""
    return b"(d" + b"".join(_python2(k) + _python2(v) + b"s" for k, v in entries.items()) + b"."


def _python2(value: object) -> bytes:
    match value:
        case bytes():
            return b"T" + struct.pack("<i", len(value)) + value
        case int():
            return b"J" + struct.pack("<i", value)
        case list():
            return b"(l" + b"".join(_python2(item) + b"a" for item in value)
        case np.ndarray():
            shape = b"(" + b"".join(_python2(n) for n in value.shape) + b"t"
            return (
                b"cnumpy.core.multiarray\n_reconstruct\n"
                b"(cnumpy\nndarray\n(" + _python2(0) + b"t" + _python2(b"b") + b"tR"
                b"("
                + _python2(1)
                + shape
                + b"cnumpy\ndtype\n("
                + _python2(b"u1")
                + _python2(0)
                + _python2(1)
                + b"tR("
                + _python2(3)
                + _python2(b"|")
                + b"NNN"
                + _python2(-1)
                + _python2(-1)
                + _python2(0)
                + b"tbI00\n"
                + _python2(value.tobytes())
                + b"tb"
            )
    raise TypeError(value)


def cifar_rows(count, seed=0):
    """(N, 3072) uint8: all red, then all green, then all blue values."""
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), np.uint8)


def write_cifar10(folder: Path, protocol: int | None = None) -> Path:
    """CIFAR-10's files with 20 images each; `protocol` None writes as Python 2 did."""

    def dump(entries):
        if protocol is None:
            return python2_pickle(entries)
        return pickle.dumps(entries, protocol)

    folder.mkdir(parents=True, exist_ok=True)
    files = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]
    for seed, name in enumerate(files):
        entries = {
            b"batch_label": name.encode(),
            b"labels": cycling_labels(20, 10).tolist(),
            b"data": cifar_rows(20, seed),
        }
        (folder / name).write_bytes(dump(entries))
    names = [f"thing {n}".encode() for n in range(10)]
    (folder / "batches.meta").write_bytes(dump({b"label_names": names}))
    return folder


def write_cifar100(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 300), ("test", 100)):
        entries = {
            b"fine_labels": cycling_labels(count, 100).tolist(),
            b"coarse_labels": cycling_labels(count, 20).tolist(),
            b"data": cifar_rows(count),
        }
        (folder / name).write_bytes(python2_pickle(entries))
    names = [f"fine {n}".encode() for n in range(100)]
    (folder / "meta").write_bytes(python2_pickle({b"fine_label_names": names}))
    return folder


def write_image(path: Path, size=(10, 8), mode="RGB", seed=0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


def write_class_folders(folder: Path, classes=("cat", "dog"), images=6, **options) -> Path:
    for label in classes:
        for number in range(images):
            write_image(folder / label / f"{number}.png", seed=number, **options)
    return folder
