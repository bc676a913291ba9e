"""Writing files so that a reader never sees half of one, and a full disk is a sentence."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pocketnas.errors import RunError


def write_atomic(path: Path, content: bytes | str) -> None:
    """Write a whole file, or leave what was there before.

    Raises:
        OSError: the file cannot be written; no partial file is left.
    """
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a value as readable JSON, atomically; NaN and infinity are refused."""
    write_atomic(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def writing(folder: Path, advice: str) -> Iterator[None]:
    """Turn a failing write (full disk, read-only folder) into a `RunError` with advice."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise RunError(f"cannot write '{where}': {error.strerror or error}; {advice}") from error


def _umask() -> int:
    """The process's umask (which can only be read by setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
