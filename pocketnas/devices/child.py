"""A child process that answers JSON lines; a request ends in an answer, its death or silence."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO, Any

import pocketnas

_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 2.0
_PACKAGE_ROOT = str(Path(pocketnas.__file__).resolve().parent.parent)


class ChildDied(Exception):
    """The child ended instead of answering; the message says how, and its last words."""


class ChildHung(Exception):
    """The child did not answer in time, and has been killed."""


class Child:
    """One running child process.

    It has a session of its own, so that Ctrl-C reaches only the parent, which then stops it.
    """

    def __init__(self, module: str) -> None:
        """Start `python -m module REPLY_FD LIFELINE_FD` and wait until it is ready.

        The child writes its answers to the first pipe; the second carries nothing, and ends when
        this process does.

        Raises:
            ChildDied, ChildHung: it did not get ready.
        """
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the child)
        reply_read, reply_write = os.pipe()
        lifeline_read, lifeline_write = os.pipe()
        theirs = (reply_write, lifeline_read)
        ours = (reply_read, lifeline_write)
        try:
            self._process = subprocess.Popen(
                # -P: a `numpy.py` in the user's folder must not be taken for the library.
                [sys.executable, "-P", "-m", module, *map(str, theirs)],
                stdin=subprocess.PIPE,
                stdout=self._said,
                stderr=self._said,
                pass_fds=theirs,
                env=_environment(),
                start_new_session=True,
            )
        except BaseException:
            _close(ours)
            self._said.close()
            raise
        finally:
            _close(theirs)
        self._reply_fd = reply_read
        self._unread = b""
        self._said_before = 0
        # Also runs when the interpreter exits: a child never outlives a tidy parent.
        self._finalizer = weakref.finalize(self, _stop, self._process, ours, self._said)
        self._receive(_START_LIMIT_S)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self._finalizer.alive and self._process.poll() is None

    def request(self, message: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """Send one request and return its answer.

        Raises:
            ChildDied: it ended instead; it is not to be used again.
            ChildHung: no answer within `limit_s` seconds; it was killed.
        """
        assert self._process.stdin is not None
        self._said_before = os.fstat(self._said.fileno()).st_size
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None
        return self._receive(limit_s)

    def stop(self) -> None:
        """End the child, at once if need be; harmless when it has ended."""
        self._finalizer()

    def _receive(self, limit_s: float) -> dict[str, Any]:
        """Wait for one line of answer."""
        deadline = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._reply_fd, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    self.stop()
                    raise ChildHung(f"no answer within {limit_s:.3g} s")
                received = os.read(self._reply_fd, 65536)
                if not received:
                    raise self._death()
                self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def _death(self) -> ChildDied:
        """Collect the ended child and say how it ended."""
        try:
            code = self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        words = self._last_words()
        self.stop()
        if code < 0:
            how = f"it was killed by signal {-code} ({signal.strsignal(-code)})"
        else:
            how = f"it ended with exit code {code}"
        return ChildDied(f"{how}; its last words: {words}" if words else how)

    def _last_words(self) -> str | None:
        """The last line that it printed during the last request, but for progress notes."""
        self._said.seek(self._said_before)
        lines = self._said.read().decode(errors="replace").splitlines()
        lines = [line.strip() for line in lines if line.strip() and not line.startswith("INFO:")]
        return lines[-1] if lines else None


def _environment() -> dict[str, str]:
    """The parent's, with this package importable and numpy's own threads held back."""
    paths = [_PACKAGE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}


def _stop(process: subprocess.Popen[bytes], pipes: tuple[int, int], said: IO[bytes]) -> None:
    """Kill and collect a child. It holds nothing that a gentler end could save."""
    process.kill()
    process.wait()
    assert process.stdin is not None
    # A request that it never read is lost with it.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    _close(pipes)
    said.close()


def _close(descriptors: tuple[int, int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
