"""A reading: one latency with its spread, its raw samples, and all it takes to repeat it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any

from pocketnas.errors import DeviceError

Fact = str | int | float | bool | None
"""A value in `device_info` and `conditions`: what JSON can hold in one field."""

RUNTIME_NAMES = {"litert": "LiteRT", "onnx": "ONNX Runtime"}


@dataclass(frozen=True)
class Reading:
    """One latency measurement.

    Attributes:
        latency_ms: the median of the samples.
        latency_ci95_ms: the 95 % interval of the median (low, high).
        latency_samples_ms: the raw samples in the order of measurement; one is one inference.
        stable: the interval was as narrow as asked for, and the core was the model's own.
        device: name of the device, e.g. `host`.
        device_info: what the device is (see `DeviceInfo.to_dict`).
        runtime: `litert` or `onnx`.
        runtime_version: of the runtime that ran the model.
        threads: inference threads.
        precision: of the model's arithmetic, as found in the file: `float32` or `int8`.
        emulated: an estimate from an emulated device, not a time that passed on a real one.
        cpus: the CPUs that the runtime was pinned to; None where it was free to wander.
        warmup_runs: untimed inferences before the first sample.
        attempts: how many times the model was measured to come by this reading.
        model_sha256: of the bytes that were timed.
        measured_at: ISO 8601, UTC.
        samples_per_round: the samples are in rounds of this many, which the interval rests on.
        conditions: what was readable of the circumstances (load, governor, clocks, ...).
    """

    latency_ms: float
    latency_ci95_ms: tuple[float, float]
    latency_samples_ms: tuple[float, ...]
    stable: bool
    device: str
    device_info: Mapping[str, Fact]
    runtime: str
    runtime_version: str
    threads: int
    precision: str
    emulated: bool
    cpus: tuple[int, ...] | None
    warmup_runs: int
    attempts: int
    model_sha256: str
    measured_at: str
    samples_per_round: int = 1
    conditions: Mapping[str, Fact] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no latency.

        Raises:
            DeviceError: no samples; a zero, negative, infinite or NaN one; or a latency that the
                samples do not bear out.
        """
        if not self.latency_samples_ms:
            raise DeviceError(f"{self._where} gave no latency samples")
        for sample in (*self.latency_samples_ms, self.latency_ms, *self.latency_ci95_ms):
            if not (math.isfinite(sample) and sample > 0):
                raise DeviceError(
                    f"{self._where} gave {sample} ms as a latency: a time must be finite and "
                    "above zero"
                )
        middle = median(self.latency_samples_ms)
        if not math.isclose(self.latency_ms, middle, rel_tol=1e-6):
            raise DeviceError(
                f"a reading of {self._where} claims {self.latency_ms} ms, but the median of its "
                f"samples is {middle} ms"
            )
        low, high = self.latency_ci95_ms
        if not low <= self.latency_ms <= high:
            raise DeviceError(
                f"a reading of {self._where} claims {self.latency_ms} ms, which lies outside of "
                f"its own interval, {low} to {high} ms"
            )
        if self.samples_per_round < 1 or len(self.latency_samples_ms) % self.samples_per_round:
            raise DeviceError(
                f"a reading of {self._where} has {len(self.latency_samples_ms)} samples, which "
                f"are not rounds of {self.samples_per_round}"
            )

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width as a fraction of the latency."""
        low, high = self.latency_ci95_ms
        return (high - low) / 2 / self.latency_ms

    def to_dict(self) -> dict[str, Any]:
        """The reading as JSON holds it."""
        return {
            "latency_ms": self.latency_ms,
            "latency_ci95_ms": list(self.latency_ci95_ms),
            "stable": self.stable,
            "device": self.device,
            "device_info": dict(self.device_info),
            "runtime": self.runtime,
            "runtime_version": self.runtime_version,
            "threads": self.threads,
            "precision": self.precision,
            "emulated": self.emulated,
            "cpus": None if self.cpus is None else list(self.cpus),
            "warmup_runs": self.warmup_runs,
            "attempts": self.attempts,
            "model_sha256": self.model_sha256,
            "measured_at": self.measured_at,
            "conditions": dict(self.conditions),
            "samples_per_round": self.samples_per_round,
            "latency_samples_ms": list(self.latency_samples_ms),
        }

    @classmethod
    def from_dict(cls, values: Any) -> Reading:
        """Read back what `to_dict` wrote.

        Raises:
            DeviceError: a missing or unknown key, a value of the wrong type, or no latency.
        """
        if not isinstance(values, dict):
            raise DeviceError(f"a reading must be a JSON object but got {_shown(values)}")
        names = [item.name for item in fields(cls)]
        for name in names:
            if name not in values:
                raise DeviceError(f"a reading lacks '{name}'")
        for name in values:
            if name not in names:
                raise DeviceError(f"a reading has an unknown key '{name}'")
        checked: dict[str, Any] = {name: _CHECKS[name](name, values[name]) for name in names}
        return cls(**checked)

    def __str__(self) -> str:
        """One line: the number, its spread, and what it was taken on."""
        low, high = self.latency_ci95_ms
        latency, least, most = (
            _digits(value, self.latency_ms) for value in (self.latency_ms, low, high)
        )
        kind = ", emulated estimate" if self.emulated else ""
        stable = "" if self.stable else f", UNSTABLE after {self.attempts} attempts"
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        if self.cpus is not None:
            threads += " on CPU " + "+".join(map(str, self.cpus))
        runtime = RUNTIME_NAMES.get(self.runtime, self.runtime)
        return (
            f"{latency} ms (95 % {least} to {most}){stable}{kind}: {self.device}, "
            f"{runtime} {self.runtime_version}, {threads}, {self.precision}"
        )

    @property
    def _where(self) -> str:
        return f"device '{self.device}'"


def _digits(value: float, scale: float) -> str:
    """A value in ms to four significant digits of `scale`, so that intervals line up."""
    return f"{value:.{max(3 - math.floor(math.log10(scale)), 0)}f}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DeviceError(f"'{name}' of a reading must be a number but got {_shown(value)}")
    return float(value)


def _integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DeviceError(f"'{name}' of a reading must be a count but got {_shown(value)}")
    return value


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise DeviceError(f"'{name}' of a reading must be true or false but got {_shown(value)}")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise DeviceError(f"'{name}' of a reading must be text but got {_shown(value)}")
    return value


def _list(name: str, value: object) -> list[object]:
    if not isinstance(value, list | tuple):
        raise DeviceError(f"'{name}' of a reading must be a list but got {_shown(value)}")
    return list(value)


def _samples(name: str, value: object) -> tuple[float, ...]:
    return tuple(_number(name, item) for item in _list(name, value))


def _interval(name: str, value: object) -> tuple[float, float]:
    ends = _samples(name, value)
    if len(ends) != 2:
        raise DeviceError(f"'{name}' of a reading must be a low and a high end but got {ends}")
    return ends[0], ends[1]


def _cpus(name: str, value: object) -> tuple[int, ...] | None:
    return None if value is None else tuple(_integer(name, item) for item in _list(name, value))


def _facts(name: str, value: object) -> dict[str, Fact]:
    if not isinstance(value, dict):
        raise DeviceError(f"'{name}' of a reading must be a JSON object but got {_shown(value)}")
    for key, fact in value.items():
        if not isinstance(fact, str | int | float | bool | None):
            raise DeviceError(f"'{name}.{key}' of a reading cannot be {_shown(fact)}")
    return value


_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "latency_ms": _number,
    "latency_ci95_ms": _interval,
    "latency_samples_ms": _samples,
    "stable": _boolean,
    "device": _text,
    "device_info": _facts,
    "runtime": _text,
    "runtime_version": _text,
    "threads": _integer,
    "precision": _text,
    "emulated": _boolean,
    "cpus": _cpus,
    "warmup_runs": _integer,
    "attempts": _integer,
    "model_sha256": _text,
    "measured_at": _text,
    "samples_per_round": _integer,
    "conditions": _facts,
}
