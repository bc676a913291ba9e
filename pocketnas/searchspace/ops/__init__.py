"""The ops that blocks are made of, one a file. A new one is a file, and a line in `BUILTIN`."""

from __future__ import annotations

import re

from pocketnas.errors import ArchError
from pocketnas.searchspace.ops.conv import CONV
from pocketnas.searchspace.ops.depthwise_separable import DEPTHWISE_SEPARABLE
from pocketnas.searchspace.ops.inverted_residual import INVERTED_RESIDUAL
from pocketnas.searchspace.ops.op import Conv, Op

BUILTIN = (CONV, DEPTHWISE_SEPARABLE, INVERTED_RESIDUAL)

_OPS = {op.name: op for op in BUILTIN}
_NAME = re.compile(r"[a-z]{2,16}")
_RESERVED = ("stem", "head")

__all__ = ["BUILTIN", "Conv", "Op", "find_op", "op_names", "ops", "register_op"]


def register_op(op: Op) -> Op:
    """Make an op known to this process: to block strings, to spaces, to cost and to networks.

    Args:
        op: Registering the very same op again changes nothing.

    Returns:
        The op.

    Raises:
        ArchError: The name is none that a block string can begin with, or is another op's.
    """
    for word in (op.name, op.choice):
        if not _NAME.fullmatch(word) or word in _RESERVED:
            raise ArchError(
                f"an op cannot be called {word!r}: use 2 to 16 lower-case letters, "
                f"and not {' or '.join(_RESERVED)}"
            )
        for other in _OPS.values():
            if word in (other.name, other.choice) and other != op:
                raise ArchError(
                    f"there is an op {word!r} already ({other.summary}): choose another name"
                )
    _OPS[op.name] = op
    return op


def find_op(name: str) -> Op:
    """The op of that name, one of `op_names`."""
    return _OPS[name]


def op_names() -> tuple[str, ...]:
    """How block strings may begin."""
    return tuple(_OPS)


def ops() -> tuple[Op, ...]:
    """The ops there are."""
    return tuple(_OPS.values())
