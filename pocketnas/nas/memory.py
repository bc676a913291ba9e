"""Keeping freed memory in the process, which training on a CPU gains much from."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


@cache
def keep_freed_memory() -> bool:
    """Have glibc keep freed memory for the next allocation instead of giving it back.

    Each batch allocates and frees the same large activations; by default the kernel takes every
    one of them back and hands out zeroed pages anew. The process then keeps its peak of memory
    until it ends.

    Returns:
        Whether that could be arranged: on Linux with glibc, and nowhere else.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # glibc before 2.35 takes no more than 32 MiB for the second.
    return bool(
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        and (mallopt(_M_MMAP_THRESHOLD, 2**30) or mallopt(_M_MMAP_THRESHOLD, 2**25))
    )
