"""A fake device whose readings repeat, and the command line with it: `python -m tests.steady`.

Real readings differ from run to run, and with them rewards and, from the first update on, the
controller's choices. To show that a killed search ends in the same result as one left alone, time
must stand still: here a latency is a function of the file's size.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import TracebackType

from pocketnas.devices import DeviceInfo, MeasureSettings, Reading


class FakeSteadyDevice:
    """Measures nothing: 1 ms for every 100 kB of model."""

    name = "steady"
    reason = "a fake for tests"

    def __init__(self, unstable: bool = False) -> None:
        self.unstable = unstable
        self.measured: list[str] = []

    def describe(self) -> DeviceInfo:
        return DeviceInfo(kind="steady", model="fake", identity="steady:fake")

    def check(self, runtime: str, threads: int) -> None:
        pass

    def measure(self, model_path: Path, settings: MeasureSettings) -> Reading:
        content = model_path.read_bytes()
        self.measured.append(model_path.parent.name)
        latency_ms = len(content) / 1e5
        return Reading(
            latency_ms=latency_ms,
            latency_ci95_ms=(latency_ms, latency_ms),
            latency_samples_ms=(latency_ms,) * 10,
            stable=not self.unstable,
            device=self.name,
            device_info=self.describe().to_dict(),
            runtime=settings.runtime,
            runtime_version="0",
            threads=settings.threads,
            precision="float32",
            emulated=False,
            cpus=None,
            warmup_runs=0,
            attempts=settings.attempts if self.unstable else 1,
            model_sha256=hashlib.sha256(content).hexdigest(),
            measured_at="2026-01-01T00:00:00+00:00",
        )

    def close(self) -> None:
        pass

    def __enter__(self) -> FakeSteadyDevice:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


def main() -> None:
    """The command line, on the fake device."""
    from pocketnas import cli
    from pocketnas.nas import search

    search.open_device = lambda spec: FakeSteadyDevice()  # type: ignore[assignment,return-value]
    cli.main()


if __name__ == "__main__":
    main()
