"""A profile: where the time of one inference goes, per operator and per block of the arch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pocketnas.devices.device import MeasureSettings
from pocketnas.devices.reading import Fact


@dataclass(frozen=True)
class OperatorTime:
    """One operator, in the order of execution.

    Attributes:
        operator: its kind, as the runtime names it (`CONV_2D`, `Convolution (NHWC, F32) IGEMM`).
        name: of the node, where the runtime tells; else empty.
        latency_ms: mean time of one execution.
        block: the part of the arch it belongs to (`stem`, `block 3`, `head`, ...); None where that
            cannot be told.
    """

    operator: str
    name: str
    latency_ms: float
    block: str | None = None


@dataclass(frozen=True)
class Profile:
    """Where the time of one inference goes.

    Attributes:
        operators: in the order of execution.
        latency_ms: of the whole inference, profiler running.
        device, runtime, method: what ran it, and how the times were taken.
        facts: whatever else belongs to the numbers.
    """

    operators: tuple[OperatorTime, ...]
    latency_ms: float
    device: str
    runtime: str
    method: str
    emulated: bool = False
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def blocks(self) -> dict[str, float]:
        """Milliseconds per block, in the order of execution; what has no block is left out."""
        sums: dict[str, float] = {}
        for one in self.operators:
            if one.block is not None:
                sums[one.block] = sums.get(one.block, 0.0) + one.latency_ms
        return sums

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "latency_ms": self.latency_ms,
            "device": self.device,
            "runtime": self.runtime,
            "method": self.method,
            "emulated": self.emulated,
            "facts": dict(self.facts),
            "operators": [asdict(one) for one in self.operators],
            "blocks": [
                {"block": name, "latency_ms": value} for name, value in self.blocks().items()
            ],
        }


@runtime_checkable
class Profiler(Protocol):
    """A device that can also say where the time goes."""

    def profile(self, model_path: Path, settings: MeasureSettings) -> Profile:
        """Profile a model file.

        Raises:
            UsageError, NoDeviceError, DeviceError: as for `Device.measure`.
        """
        ...
