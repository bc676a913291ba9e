"""What a connection to a phone can do, whichever way it leads there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pocketnas.errors import NoDeviceError


class TransportError(NoDeviceError):
    """The phone cannot be used now; the sentence says which, why and what to do."""


class Unauthorized(TransportError):
    """The phone does not accept this machine's key (yet)."""


class Offline(TransportError):
    """The phone is known, but does not answer; or it is not there at all."""


class Disconnected(TransportError):
    """The connection broke in the middle of something. What it was is to be done again."""


class TimedOut(TransportError):
    """The phone said nothing, or did not come to an end, within the time allowed."""


class StorageFull(TransportError):
    """There is no space left on the phone."""


@dataclass(frozen=True)
class ShellResult:
    """What a command on the phone came to.

    Attributes:
        stdout, stderr: what it printed; the older shell protocol puts both into `stdout`.
        exit_code: its exit status, always a real one: a command whose status did not arrive is a
            `Disconnected`, never a result.
    """

    stdout: str
    stderr: str
    exit_code: int

    @property
    def output(self) -> str:
        """All that it printed."""
        return self.stdout + self.stderr


@dataclass(frozen=True)
class RemoteFile:
    """A file on the phone: its size in bytes, and its mode with the type bits."""

    size: int
    mode: int


class Transport(Protocol):
    """One connection to one phone, for one thread. A broken one is not mended: open a new one."""

    @property
    def serial(self) -> str:
        """The phone's serial, or `HOST:PORT`."""
        ...

    @property
    def via(self) -> str:
        """The way: `usb`, `tcp` or `adb server`."""
        ...

    def shell(self, command: str, limit_s: float) -> ShellResult:
        """Run a command, wherever it prints to and whatever it ends with.

        Raises:
            Disconnected, TimedOut: its end did not arrive, or not within `limit_s` seconds.
        """
        ...

    def push(self, source: Path, target: str, *, mode: int = 0o644, limit_s: float = 60.0) -> None:
        """Copy a local file to the phone, making the folders above it.

        Raises:
            Disconnected, TimedOut, StorageFull: nothing can be said of the target.
        """
        ...

    def pull(self, source: str, target: Path, *, limit_s: float = 60.0) -> None:
        """Copy a file from the phone.

        Raises:
            Disconnected, TimedOut: as above.
            TransportError: there is no such file.
        """
        ...

    def stat(self, path: str, limit_s: float = 10.0) -> RemoteFile | None:
        """A file's size and mode; None where there is none."""
        ...

    def close(self) -> None:
        """Let go of the connection; harmless when it is broken or closed."""
        ...
