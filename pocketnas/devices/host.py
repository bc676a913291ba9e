"""This machine as a device: models are timed in a child process, pinned to a core."""

from __future__ import annotations

import importlib.util
import os
import platform
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pocketnas.devices import cpu
from pocketnas.devices.child import Child, ChildDied, ChildHung
from pocketnas.devices.device import DeviceInfo, MeasureSettings
from pocketnas.devices.protocol import Round, settle
from pocketnas.devices.reading import RUNTIME_NAMES, Fact, Reading
from pocketnas.errors import DeviceError, NoDeviceError, UsageError

MODULES = {"litert": "ai_edge_litert", "onnx": "onnxruntime"}

# A round of an inference of 0.1 ms: a tenth of a second, of which a hundred samples are kept.
_ROUND_S = 0.1
_ROUND_SAMPLES = 100
_WARM_UP_RUNS = 10
_WATCH_S = 0.1
# What a step may take beyond the limit before the child counts as hung: a busy machine's hiccup.
_GRACE_S = 2.0
_PAUSE_S = 0.5


class HostDevice:
    """Times models on this machine's CPU.

    A crash or a hang of the runtime ends the child process, is a `DeviceError` for that model,
    and the next model gets a new child. One measurement runs at a time.
    """

    name = "host"

    def __init__(self, reason: str = "as asked") -> None:
        info = self.describe()
        self.reason = f"host ({info.model}, {info.details['cpus']} CPUs): {reason}"
        self._child: Child | None = None
        self._lock = threading.Lock()

    def describe(self) -> DeviceInfo:
        """What this machine is."""
        cpus = os.cpu_count() or 1
        model = cpu.cpu_model()
        first = cpu.usable_cpus()[0]
        return DeviceInfo(
            kind="host",
            model=model,
            identity=f"{model}, {cpus} CPUs, {platform.machine()}",
            details={
                "cpus": cpus,
                "usable_cpus": len(cpu.usable_cpus()),
                "machine": platform.machine(),
                "system": f"{platform.system()} {platform.release()}",
                "virtual": cpu.is_virtual(),
                "highest_clock_mhz": cpu.highest_clock_mhz(first),
                "governor": cpu.governor(first),
            },
        )

    def check(self, runtime: str, threads: int) -> None:
        """Refuse at once what `measure` could never do (see `Device.check`)."""
        if runtime not in MODULES:
            raise UsageError(f"unknown runtime '{runtime}': choose one of {', '.join(MODULES)}")
        usable = len(cpu.usable_cpus())
        if not 1 <= threads <= usable:
            raise UsageError(
                f"device 'host' has {usable} usable CPUs, so threads must be from 1 to {usable} "
                f"but got {threads}"
            )
        if importlib.util.find_spec(MODULES[runtime]) is None:
            raise NoDeviceError(
                f"device 'host' lacks {RUNTIME_NAMES[runtime]}: install {MODULES[runtime]}"
            )

    def measure(self, model_path: Path, settings: MeasureSettings) -> Reading:
        """Time a model file (see `Device.measure`).

        A reading that is not stable is measured again, up to `settings.attempts` times; if none
        is, the one with the narrowest interval is returned, marked.
        """
        self.check(settings.runtime, settings.threads)
        path = Path(model_path).absolute()
        if not path.is_file():
            raise DeviceError(f"there is no model file '{model_path}'")
        with self._lock:
            best: Reading | None = None
            for attempt in range(1, settings.attempts + 1):
                if best is not None:
                    # What disturbed the last attempt may pass.
                    time.sleep(_PAUSE_S * (attempt - 1))
                reading = replace(self._attempt(path, settings), attempts=attempt)
                if reading.stable:
                    return reading
                if best is None or reading.relative_half_width < best.relative_half_width:
                    best = reading
            assert best is not None
            return replace(best, attempts=settings.attempts)

    @property
    def child_pid(self) -> int | None:
        """The process id of the child in which models run, while there is one."""
        return self._child.pid if self._child is not None and self._child.alive else None

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _attempt(self, path: Path, settings: MeasureSettings) -> Reading:
        """Load, warm up and time a model once; no failure leaves a child in a half state."""
        child = self._living_child()
        try:
            return _Attempt(child, path, settings).run(self.describe())
        except ChildDied as error:
            self.close()
            raise DeviceError(
                f"'{path.name}' crashed {RUNTIME_NAMES[settings.runtime]} on the host: {error}"
            ) from None
        except ChildHung:
            self.close()
            raise DeviceError(
                f"'{path.name}' hung {RUNTIME_NAMES[settings.runtime]} on the host, or one step "
                f"of timing it takes longer than the limit of {settings.limit_s:.3g} s"
            ) from None
        except DeviceError:
            # The child answered properly; it can go on.
            raise
        except BaseException:
            # Ctrl-C in the middle of a request: the answer to come would be taken for another's.
            self.close()
            raise

    def _living_child(self) -> Child:
        """The child, started where there is none: its start is no part of an attempt's limit."""
        if self._child is None or not self._child.alive:
            self.close()
            try:
                self._child = Child("pocketnas.devices.host_worker")
            except (ChildDied, ChildHung, OSError) as error:
                raise NoDeviceError(
                    f"device 'host' cannot start the process that times models: {error}"
                ) from None
        return self._child


class _Attempt:
    """One attempt at one model in the child."""

    def __init__(self, child: Child, path: Path, settings: MeasureSettings) -> None:
        self.child = child
        self.path = path
        self.settings = settings
        self.deadline = time.monotonic() + settings.limit_s

    def run(self, info: DeviceInfo) -> Reading:
        """All steps, from choosing cores to the reading."""
        settings = self.settings
        load_average = os.getloadavg()[0]
        cpus = self._choose_cpus()
        watched = cpus[0] if cpus else None
        measured_at = datetime.now(UTC).isoformat(timespec="seconds")
        loaded = self._ask(
            "load",
            path=str(self.path),
            runtime=settings.runtime,
            threads=settings.threads,
            cpus=cpus,
        )
        warm = self._ask("warm_up", seconds=settings.warmup_s, runs=_WARM_UP_RUNS)
        round_s = min(_ROUND_S, settings.limit_s / 50)
        samples, every = size_round(warm["inference_ms"], round_s)

        def run_round() -> Round:
            answer = self._ask("round", samples=samples, every=every)
            times = tuple(nanoseconds / 1e6 for nanoseconds in answer["samples_ns"])
            return Round(times, answer["interrupted"])

        clock_before = None if watched is None else cpu.clock_mhz(watched)
        ticks_before = None if watched is None else cpu.stolen_ticks(watched)
        settled = settle(
            run_round,
            model=self.path.name,
            relative_interval=settings.relative_interval,
            limit_s=self.deadline - time.monotonic(),
        )
        conditions: dict[str, Fact] = {
            "load_average_before": load_average,
            "inferences_per_sample": every,
            "interrupted_share": _rounded(settled.interrupted),
            "effective_rounds": round(settled.interval.effective_rounds, 1),
            "complaint": settled.complaint,
        }
        if watched is not None:
            conditions |= {
                "governor": cpu.governor(watched),
                "clock_mhz_before": clock_before,
                "clock_mhz_after": cpu.clock_mhz(watched),
                "stolen_share": _stolen_share(ticks_before, cpu.stolen_ticks(watched)),
            }
        self._ask("unload")
        return Reading(
            latency_ms=settled.interval.median,
            latency_ci95_ms=(settled.interval.low, settled.interval.high),
            latency_samples_ms=settled.samples_ms,
            stable=settled.complaint is None,
            device=HostDevice.name,
            device_info=info.to_dict(),
            runtime=settings.runtime,
            runtime_version=loaded["runtime_version"],
            threads=settings.threads,
            precision=loaded["precision"],
            emulated=info.emulated,
            cpus=None if loaded["cpus"] is None else tuple(loaded["cpus"]),
            warmup_runs=warm["runs"],
            attempts=1,
            model_sha256=loaded["model_sha256"],
            measured_at=measured_at,
            samples_per_round=settled.samples_per_round,
            conditions=conditions,
        )

    def _choose_cpus(self) -> list[int] | None:
        """The CPUs to pin to; None pins to none."""
        wanted = self.settings.cpus
        if wanted is None or not cpu.can_pin():
            return None
        usable = cpu.usable_cpus()
        if wanted == "auto":
            return list(cpu.choose_cpus(self.settings.threads, cpu.watch_cpus(usable, _WATCH_S)))
        for number in wanted:
            if number not in usable:
                raise UsageError(
                    f"device 'host' cannot pin to CPU {number}: its usable CPUs are "
                    f"{', '.join(map(str, usable))}"
                )
        return list(wanted)

    def _ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """One request, in what is left of the time."""
        left_s = max(self.deadline - time.monotonic(), 0) + _GRACE_S
        answer = self.child.request({"do": do, **arguments}, left_s)
        if "refused" in answer:
            reason = " ".join(answer["refused"].split())
            raise DeviceError(f"'{self.path.name}' cannot be timed on the host: {reason[:300]}")
        return answer


def size_round(inference_ms: float, round_s: float = _ROUND_S) -> tuple[int, int]:
    """How many samples a round has, and one inference in how many is timed.

    A round of quick inferences keeps a hundred samples spread over it; one of slow inferences
    keeps every one, and at least one.
    """
    fit = max(int(round_s * 1000 / max(inference_ms, 1e-6)), 1)
    samples = min(fit, _ROUND_SAMPLES)
    return samples, fit // samples


def _stolen_share(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """The share of a CPU's time that a hypervisor gave to others between two looks."""
    if before is None or after is None or after[1] == before[1]:
        return None
    return _rounded((after[0] - before[0]) / (after[1] - before[1]))


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
