"""Reading pickles of plain data without trusting them.

A pickle can name any function of any module and have it called. Here it can name four things,
none of which is the real one: arrays and their types become records of what the file says about
them, and only afterwards are bytes taken for numbers.
"""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pocketnas.errors import DataError

_RECONSTRUCT = {"numpy.core.multiarray", "numpy._core.multiarray"}


class UnsafePickle(pickle.UnpicklingError):
    """A pickle that names something other than plain data."""


class _Type:
    """Stands in for `numpy.dtype`: only its one-letter-and-size code is kept."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code.decode("ascii") if isinstance(code, bytes) else code

    def __setstate__(self, state: Any) -> None:
        """Byte order and fields: of no use for single bytes, which is all that images have."""


class _Array:
    """Stands in for `numpy.ndarray`: what its pickled state says."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def as_bytes(self) -> NDArray[np.uint8]:
        """The array, where it is one of unsigned bytes.

        Raises:
            UnsafePickle: Its state is not that of such an array.
        """
        match self.state:
            case (int(), tuple(sizes), _Type(code="u1"), bool() | int() as fortran, bytes(raw)):
                shape: tuple[int, ...] = sizes
                if all(type(n) is int and n >= 0 for n in shape) and math.prod(shape) == len(raw):
                    array = np.frombuffer(raw, np.uint8)
                    return np.array(array.reshape(shape, order="F" if fortran else "C"))
        raise UnsafePickle("it holds an array that is not one of unsigned bytes")


def _reconstruct(*_: Any) -> _Array:
    """Stands in for the function by which numpy unpickles arrays."""
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    """Stands in for `_codecs.encode`, by which Python 3 pickles bytes in protocol 2."""
    if encoding != "latin1":
        raise UnsafePickle(f"it asks for the encoding '{encoding}'")
    return text.encode("latin1")


class _Unpickler(pickle.Unpickler):
    """Knows no names but those of plain data."""

    def find_class(self, module: str, name: str) -> Any:
        if module in _RECONSTRUCT and name == "_reconstruct":
            return _reconstruct
        if (module, name) == ("numpy", "ndarray"):
            return _Array
        if (module, name) == ("numpy", "dtype"):
            return _Type
        if (module, name) == ("_codecs", "encode"):
            return _encode
        raise UnsafePickle(f"it names '{module}.{name}', and only plain data is read from pickles")


def read_plain_pickle(path: Path) -> dict[str, Any]:
    """Read a pickled dictionary of bytes, strings, numbers, lists and arrays of bytes.

    Args:
        path: The file; of Python 2 or 3.

    Returns:
        Its entries by name; arrays are uint8.

    Raises:
        DataError: The file is unreadable or damaged, is no dictionary, or names anything else.
    """
    try:
        value = _Unpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        if not isinstance(value, dict):
            raise UnsafePickle("it does not hold a dictionary")
        return {
            key.decode("utf-8") if isinstance(key, bytes) else str(key): (
                item.as_bytes() if isinstance(item, _Array) else item
            )
            for key, item in value.items()
        }
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}") from None
    # What the unpickler raises on damaged input; see the note in the `pickle` documentation.
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        ImportError,
        LookupError,
        MemoryError,
        TypeError,
        ValueError,
    ) as error:
        raise DataError(f"'{path}' cannot be read as a CIFAR file: {error}") from None
