"""What `pocketnas devices` shows of each device, usable or not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Listed:
    """One device that is there, or could be.

    Attributes:
        device: what to give to `--device`.
        kind: `phone`, `Android emulator`, `Arm emulator` or `host`.
        state: in a word or two: `ready`, `unauthorized`, `offline`, `no runtime`, `low battery`,
            `in use`, `not installed`, ...
        usable: whether a model can be timed on it now.
        problem: where it is not usable, why, and what to do about it, as a sentence.
        model: what it is sold as.
        system: e.g. `Android 14` or `Linux 6.1`.
        soc: the chip.
        abi: e.g. `arm64-v8a`.
        cores: CPUs.
        emulated: its latencies are estimates.
    """

    device: str
    kind: str
    state: str
    usable: bool
    problem: str | None = None
    model: str | None = None
    system: str | None = None
    soc: str | None = None
    abi: str | None = None
    cores: int | None = None
    emulated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)
