"""What a search tells while it runs. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pocketnas.searchspace import Arch


@dataclass(frozen=True)
class Started:
    """The search is set up: what is searched, where it is timed, and against which target."""

    folder: Path
    space: str
    space_size: int
    data: str
    device: str
    target_ms: float
    target_measured: bool
    trials: int
    finished: int


@dataclass(frozen=True)
class Stage:
    """A candidate has entered a stage.

    Attributes:
        trial: its number; None for the space's base network, whose latency is to be the target.
        stage: `export`, `time` or `train`.
        detail: how far it is.
    """

    trial: int | None
    arch: Arch
    stage: str
    detail: str


@dataclass(frozen=True)
class TrialDone:
    """A trial has ended, and is safe on the disk."""

    trial: int
    arch: Arch
    verdict: str
    reason: str | None
    accuracy: float | None
    latency_ms: float | None
    reward: float | None
    repeat_of: int | None
    best_reward: float | None
    finished: int
    trials: int
    seconds: float


Event = Started | Stage | TrialDone
OnEvent = Callable[[Event], None]
