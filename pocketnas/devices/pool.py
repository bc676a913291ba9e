"""Several like devices as one: models go to free ones, and trouble of one stops no search."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from pocketnas.devices.device import Device, DeviceInfo, MeasureSettings
from pocketnas.devices.lease import lease
from pocketnas.devices.reading import Reading
from pocketnas.errors import NoDeviceError, UsageError

# A device that failed is left alone for 2 s, then twice as long each time; after the third failure
# in a row it is in quarantine, and tried only now and then.
FIRST_BACK_OFF_S = 2.0
QUARANTINE_FAILURES = 3
QUARANTINE_S = 60.0
# How often to ask again for a device that another process has.
_LEASE_POLL_S = 0.2

OnTrouble = Callable[[str], None]


@dataclass
class _Member:
    """One device of the pool, and how it has been doing."""

    device: Device
    lease_name: str
    busy: bool = False
    failures: int = 0
    rests_until: float = 0.0
    problem: str | None = None


class Pool:
    """Times models on whichever of its devices is free.

    A device that cannot be used now (`NoDeviceError`) is left alone for a while, longer each time,
    and then in quarantine, from which it comes back as soon as a measurement succeeds; its model
    goes to another device, or waits. Only when no device has been usable for `wait_s` seconds is
    that an error. What is wrong with the model itself (`DeviceError`) is raised at once.

    Args:
        members: like devices, each with the name of its lease: one name for one physical device.
        wait_s: how long to wait for any device to become usable again.
        on_trouble: told of each failure and each return of a device, as a sentence.
        clock: seconds that only grow.

    Raises:
        UsageError: no member, or unlike ones: their readings could not share a front.
    """

    def __init__(
        self,
        members: Sequence[tuple[Device, str]],
        *,
        wait_s: float,
        on_trouble: OnTrouble | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not members:
            raise UsageError("a pool needs at least one device")
        self._members = [_Member(device, name) for device, name in members]
        self._info = self._members[0].device.describe()
        for member in self._members[1:]:
            other = member.device.describe()
            if other.identity != self._info.identity:
                raise UsageError(
                    f"'{self._info.identity}' and '{other.identity}' are unlike devices, whose "
                    "readings never share a front: run a search for each"
                )
        self._wait_s = wait_s
        self._tell = on_trouble or (lambda sentence: None)
        self._clock = clock
        self._changed = threading.Condition()
        self._last_success = clock()
        self._closed = False

    @property
    def name(self) -> str:
        """That of its devices."""
        return self._members[0].device.name

    @property
    def reason(self) -> str:
        """Which devices these are and why they were taken."""
        first = self._members[0].device.reason
        more = len(self._members) - 1
        return f"{first}, and {more} more of its kind" if more else first

    def describe(self) -> DeviceInfo:
        """What its devices are: all alike."""
        return replace(self._info, beside=sum(m.device.describe().beside for m in self._members))

    def check(self, runtime: str, threads: int) -> None:
        """Refuse at once what none of its devices could ever do (see `Device.check`)."""
        self._members[0].device.check(runtime, threads)

    def measure(self, model_path: Path, settings: MeasureSettings) -> Reading:
        """Time a model on a free device; several threads may ask at once (see `Device.measure`).

        Raises:
            NoDeviceError: no device was usable for as long as the pool waits.
        """
        asked = self._clock()
        while True:
            member = self._take(asked)
            try:
                with self._in_use(member), lease(member.lease_name) as held:
                    if not held:
                        self._rest(member, _LEASE_POLL_S, "it is in use by another process")
                        continue
                    reading = member.device.measure(model_path, settings)
            except NoDeviceError as error:
                self._failed(member, str(error))
                continue
            self._succeeded(member)
            return reading

    def close(self) -> None:
        """Let go of all devices; who still waits for one gets a `NoDeviceError`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for member in self._members:
            member.device.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, asked: float) -> _Member:
        """A free device that is not resting; waits for one, from `asked` on."""
        with self._changed:
            while True:
                if self._closed:
                    raise NoDeviceError("the devices are closed")
                now = self._clock()
                free = [m for m in self._members if not m.busy]
                rested = [m for m in free if m.rests_until <= now]
                if rested:
                    # The one with the cleanest record; a device in quarantine is tried last.
                    member = min(rested, key=lambda m: m.failures)
                    member.busy = True
                    return member
                # A device at work is a usable one: only waiting for unusable ones has an end.
                waited_s = now - max(asked, self._last_success)
                if len(free) == len(self._members) and waited_s > self._wait_s:
                    problems = "; ".join(m.problem or "it is in use" for m in self._members)
                    raise NoDeviceError(
                        f"no device was usable for {self._wait_s:.3g} s: {problems}"
                    )
                until = min((m.rests_until for m in free), default=now + 1.0)
                self._changed.wait(min(max(until - now, 0.01), 1.0))

    @contextmanager
    def _in_use(self, member: _Member) -> Iterator[None]:
        """Give a device back at the end, however that comes."""
        try:
            yield
        finally:
            with self._changed:
                member.busy = False
                self._changed.notify_all()

    def _rest(self, member: _Member, seconds: float, problem: str) -> None:
        with self._changed:
            member.rests_until = self._clock() + seconds
            member.problem = f"device '{member.lease_name}': {problem}"

    def _failed(self, member: _Member, problem: str) -> None:
        """Leave a device alone for a while."""
        with self._changed:
            member.failures += 1
            rest_s = FIRST_BACK_OFF_S * 2 ** (member.failures - 1)
            if member.failures >= QUARANTINE_FAILURES:
                rest_s = QUARANTINE_S
            member.rests_until = self._clock() + rest_s
            member.problem = problem
        how = "in quarantine" if member.failures >= QUARANTINE_FAILURES else "left alone"
        self._tell(f"{problem} ({how}, tried again in {rest_s:.3g} s)")

    def _succeeded(self, member: _Member) -> None:
        """A device that works has no past."""
        with self._changed:
            came_back = member.failures > 0
            member.failures, member.problem = 0, None
            self._last_success = self._clock()
        if came_back:
            self._tell(f"device '{member.lease_name}' works again")
