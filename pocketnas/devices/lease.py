"""Leases: one device times one model at a time, whichever processes ask for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from pocketnas.devices.cache import cache_folder


@contextmanager
def lease(name: str) -> Iterator[bool]:
    """Hold a device for the length of a `with` block, if no one else holds it.

    The lease is a file lock of the operating system: it ends with its process, however that ends,
    so that nothing has to be cleaned up after a crash.

    Args:
        name: one for each physical device, e.g. a phone's serial number.

    Yields:
        Whether it is held; False where another process or thread has it now.
    """
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    path = cache_folder("leases") / f"{digest}.lock"
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def is_leased(name: str) -> bool:
    """Whether a device is in use at this moment, by this process or another."""
    with lease(name) as held:
        return not held
