"""What a device is to the rest of PocketNAS, and what it can be asked to measure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self

from pocketnas.devices.reading import RUNTIME_NAMES, Fact, Reading
from pocketnas.errors import UsageError


@dataclass(frozen=True)
class MeasureSettings:
    """How a model is timed.

    Attributes:
        runtime: `litert` (a TFLite file) or `onnx` (ONNX Runtime).
        threads: inference threads.
        cpus: the CPUs to pin to; `auto` takes the fastest and least busy, one a thread; None
            pins to none.
        warmup_s: seconds of untimed inferences before the first round.
        relative_interval: half the width of the 95 % interval to reach, as a fraction.
        limit_s: seconds that one attempt may take.
        attempts: how often to measure, at most, until a reading is stable.
    """

    runtime: str = "litert"
    threads: int = 1
    cpus: tuple[int, ...] | Literal["auto"] | None = "auto"
    warmup_s: float = 0.2
    relative_interval: float = 0.02
    limit_s: float = 10.0
    attempts: int = 3

    def __post_init__(self) -> None:
        """Refuse what no device could do.

        Raises:
            UsageError: an unknown runtime, or a value that is not above zero and finite.
        """
        if self.runtime not in RUNTIME_NAMES:
            raise UsageError(
                f"unknown runtime '{self.runtime}': choose one of {', '.join(RUNTIME_NAMES)}"
            )
        if self.threads < 1:
            raise UsageError(f"threads must be at least 1 but got {self.threads}")
        if self.attempts < 1:
            raise UsageError(f"attempts must be at least 1 but got {self.attempts}")
        if isinstance(self.cpus, tuple) and len(set(self.cpus)) < self.threads:
            raise UsageError(
                f"{self.threads} threads need as many CPUs to pin to but got {self.cpus}"
            )
        for name in ("warmup_s", "relative_interval", "limit_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"{name} must be above zero and finite but got {value}")


@dataclass(frozen=True)
class DeviceInfo:
    """What a device is.

    Attributes:
        kind: of device, e.g. `host`.
        model: what it is sold as: the CPU's or the phone's name.
        identity: equal for devices whose readings may share a front, and for one device on
            another day.
        emulated: its latencies are estimates.
        beside: how many models it times at once beside other work of this machine, such as
            training; 0 where that would disturb it.
        details: whatever else is known (cores, system, clocks, ...).
    """

    kind: str
    model: str
    identity: str
    emulated: bool = False
    beside: int = 0
    details: Mapping[str, Fact] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Fact]:
        """One flat mapping, as kept in every reading."""
        return {
            "kind": self.kind,
            "model": self.model,
            "identity": self.identity,
            **self.details,
        }


class Device(Protocol):
    """Something that times models. Use it in a `with` block, or close it."""

    @property
    def name(self) -> str:
        """What readings, run folders and bundles call it."""
        ...

    @property
    def reason(self) -> str:
        """Which device this is and why it was taken, in a phrase."""
        ...

    def describe(self) -> DeviceInfo:
        """What the device is."""
        ...

    def check(self, runtime: str, threads: int) -> None:
        """Refuse at once what `measure` could never do.

        Raises:
            UsageError: the device has not so many CPUs.
            NoDeviceError: the runtime is not there, or the device is not usable.
        """
        ...

    def measure(self, model_path: Path, settings: MeasureSettings) -> Reading:
        """Time a model file; a reading that would not settle says so (`stable`).

        Raises:
            UsageError: as for `check`.
            NoDeviceError: the device cannot be used now (unplugged, offline, full, too hot): the
                same model may well be timed later, or elsewhere.
            DeviceError: the file is missing or cannot be run, the runtime crashed or hung, or the
                model is too slow for the limit.
        """
        ...

    def close(self) -> None:
        """Let go of the device."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
