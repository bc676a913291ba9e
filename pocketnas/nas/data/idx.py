"""Folders of IDX files: MNIST's layout, also that of Fashion-MNIST, KMNIST and EMNIST."""

from __future__ import annotations

import gzip
import math
import re
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pocketnas.errors import DataError
from pocketnas.nas.data.raw import Part, RawData, require_memory

_FILE = re.compile(
    r"(?:.*[-_.])?(?P<split>train|t10k|test)[-_.](?P<kind>images|labels)[-_.]idx[13]-ubyte(?:\.gz)?"
)
_MAGIC = {"images": (0x0803, 3), "labels": (0x0801, 1)}
_FASHION_LABELS = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def is_idx_folder(folder: Path) -> bool:
    """Whether a folder holds IDX files."""
    return any(_FILE.fullmatch(path.name) for path in folder.iterdir())


def read_idx(folder: Path) -> RawData:
    """Read a folder of IDX files, packed with gzip or not.

    Raises:
        DataError: A file is missing, there twice, damaged, or not what its name says.
    """
    fashion = "fashion" in folder.resolve().name.lower()
    files = _find(folder)
    return RawData(
        name=folder.resolve().name,
        train=_part(folder, files, "train"),
        test=_part(folder, files, "test") if ("test", "images") in files else None,
        source=str(folder),
        label_names=_FASHION_LABELS if fashion else (),
        license="MIT" if fashion else None,
    )


def _find(folder: Path) -> dict[tuple[str, str], Path]:
    """The files by (split, kind)."""
    files: dict[tuple[str, str], Path] = {}
    for path in sorted(folder.iterdir()):
        match = _FILE.fullmatch(path.name)
        if not match:
            continue
        split = "train" if match["split"] == "train" else "test"
        other = files.setdefault((split, match["kind"]), path)
        if other is not path:
            raise DataError(
                f"'{folder}' has '{other.name}' and '{path.name}', both {split} {match['kind']}: "
                "leave one of them there"
            )
    return files


def _part(folder: Path, files: dict[tuple[str, str], Path], split: str) -> Part:
    """Read the images and labels of one split."""
    for kind in ("images", "labels"):
        if (split, kind) not in files:
            raise DataError(
                f"'{folder}' lacks the {split} {kind} of its IDX files, such as "
                f"{split}-{kind}-idx{_MAGIC[kind][1]}-ubyte.gz"
            )
    images = _read(files[split, "images"], "images")
    labels = _read(files[split, "labels"], "labels")
    return Part(images[..., np.newaxis], labels.astype(np.int64), str(folder))


def _read(path: Path, kind: str) -> NDArray[np.uint8]:
    """Read one file; its size must be what its header says, to the byte."""
    magic, dimensions = _MAGIC[kind]
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            header = file.read(4 * (1 + dimensions))
            if len(header) < 4 * (1 + dimensions):
                raise DataError(f"'{path}' is cut short: it ends within its header")
            found, *shape = struct.unpack(f">{1 + dimensions}I", header)
            if found != magic:
                raise DataError(
                    f"'{path}' is not an IDX file of {kind}: it begins with {found:#010x}, "
                    f"not {magic:#010x}"
                )
            size = math.prod(shape)
            require_memory(size, str(path))
            content = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"'{path}' cannot be read: {error}") from None
    if len(content) != size:
        raise DataError(
            f"'{path}' should hold {size:,} bytes after its header but holds "
            f"{'more' if len(content) > size else f'{len(content):,}'}"
        )
    return np.frombuffer(content, np.uint8).reshape(shape).copy()
