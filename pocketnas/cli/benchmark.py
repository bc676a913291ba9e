"""`pocketnas benchmark`: the latency of a model file or an arch on a device."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from pocketnas.cli.options import device_options, json_option, print_json, shape_options
from pocketnas.errors import UsageError

RUNTIME_OF_SUFFIX = {".tflite": "litert", ".onnx": "onnx"}


@click.command()
@click.argument("model", metavar="MODEL|ARCH")
@device_options
@shape_options
@json_option
@click.pass_context
def benchmark(
    context: click.Context,
    model: str,
    device: str,
    runtime: str,
    threads: int,
    measure_limit_s: float,
    resolution: int | None,
    channels: int | None,
    classes: int | None,
    as_json: bool,
) -> None:
    """Time a model file or an ARCH on a device.

    MODEL is a .tflite or .onnx file; an ARCH is exported first, with fresh weights. The reading is
    the median of many runs with its 95 % interval. The runs go on until the interval is within
    2 % of the median, or the limit is reached. A reading that would not settle in three attempts
    is marked UNSTABLE, and the exit code is 1.
    """
    chosen = context.get_parameter_source("runtime") is click.core.ParameterSource.COMMANDLINE
    suffix_runtime = RUNTIME_OF_SUFFIX.get(Path(model).suffix)
    if suffix_runtime is None:
        from pocketnas.bundle import export_arch
        from pocketnas.cli.arch import arch_task
        from pocketnas.export.exporter import MODEL_FILES

        task = arch_task(model, resolution, channels, classes)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "model"
            export_arch(task.arch, out, task.input_shape, task.classes)
            _measure(
                out / MODEL_FILES[runtime], device, runtime, threads, measure_limit_s, as_json
            )
        return
    if chosen and runtime != suffix_runtime:
        raise UsageError(f"'{model}' runs in {suffix_runtime}, not in {runtime}")
    if (resolution, channels, classes) != (None, None, None):
        raise UsageError(
            f"'{model}' has its own input shape: leave out --resolution, --channels, --classes"
        )
    _measure(Path(model), device, suffix_runtime, threads, measure_limit_s, as_json)


def _measure(
    model: Path, device_name: str, runtime: str, threads: int, limit_s: float, as_json: bool
) -> None:
    """Time one file and print its reading; exit 1 where it would not settle."""
    from pocketnas.devices import MeasureSettings, open_device

    settings = MeasureSettings(runtime=runtime, threads=threads, limit_s=limit_s)
    with open_device(device_name) as device:
        click.echo(f"device: {device.reason}", err=True)
        reading = device.measure(model, settings)
    if as_json:
        print_json(reading.to_dict())
    else:
        click.echo(str(reading))
    if not reading.stable:
        raise click.exceptions.Exit(1)
