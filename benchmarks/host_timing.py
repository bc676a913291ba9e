"""How far the host's readings repeat: one model measured many times, intervals against spread.

    python benchmarks/host_timing.py [MODEL ...] [--times 10] [--threads 1]

Without a model it times MobileNetV2 at 32 and at 224 pixels, in LiteRT and in ONNX Runtime, with
fresh weights. If the 95 % intervals are honest, nearly all of them hold the middle of all medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pocketnas.devices import HostDevice, MeasureSettings, Reading

RUNTIMES = {".tflite": "litert", ".onnx": "onnx"}


def export_mobilenets(folder: Path) -> list[Path]:
    """Write MobileNetV2 for 32 and 224 pixels as TFLite and ONNX; four files."""
    from pocketnas.export import export_network
    from pocketnas.searchspace import build_network, resolve_arch

    files = []
    for size in (32, 224):
        network = build_network(resolve_arch("mobilenet_v2"), (size, size, 3), 1000)
        target = folder / f"mobilenet_v2_{size}"
        target.mkdir()
        files += export_network(network, (size, size, 3)).write(target)
    return files


def row(name: str, readings: list[Reading], seconds: float) -> str:
    stable = [reading for reading in readings if reading.stable]
    medians = [reading.latency_ms for reading in stable]
    if not medians:
        return f"{name:<34} no stable reading in {len(readings)}"
    middle = statistics.median(medians)
    spread = (max(medians) - min(medians)) / 2 / middle
    width = statistics.median(reading.relative_half_width for reading in stable)
    held = sum(
        reading.latency_ci95_ms[0] <= middle <= reading.latency_ci95_ms[1] for reading in stable
    )
    tries = sum(reading.attempts for reading in readings) / len(readings)
    return (
        f"{name:<34} {middle:>9.4g} {100 * spread:>9.2f} {100 * width:>9.2f} "
        f"{held:>5}/{len(stable):<3} {len(stable):>5}/{len(readings):<3} {tries:>8.1f} "
        f"{seconds / len(readings):>7.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, HostDevice() as host:
        models = options.models or export_mobilenets(Path(folder))
        print(f"{host.reason}\nthreads: {options.threads}\n")
        print(
            f"{'model':<34} {'ms':>9} {'spread %':>9} {'interv. %':>9} {'held':>9} "
            f"{'stable':>9} {'attempts':>8} {'seconds':>7}"
        )
        for model in models:
            runtime = RUNTIMES[model.suffix]
            settings = MeasureSettings(runtime=runtime, threads=options.threads)
            started = time.monotonic()
            readings = [host.measure(model, settings) for _ in range(options.times)]
            name = f"{model.parent.name}/{model.name}"[-34:]
            print(row(name, readings, time.monotonic() - started), flush=True)
    print(
        "\nspread: half the range of the medians; interv.: the middle half-width of the 95 % "
        "intervals;\nheld: how many intervals hold the middle median; seconds: a reading, all its "
        "attempts included"
    )


if __name__ == "__main__":
    main()
