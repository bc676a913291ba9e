"""`pocketnas export`: an arch as files, or the front of a run as bundles."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pocketnas.cli.options import json_option, print_json, shape_options
from pocketnas.errors import UsageError


@click.command()
@click.argument("source", metavar="ARCH|RUN")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="The new folder to write.  [default: RUN/front, or models/NAME for an ARCH]",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of an ARCH's fresh weights."
)
@shape_options
@json_option
def export(
    source: str,
    out: Path | None,
    seed: int,
    resolution: int | None,
    channels: int | None,
    classes: int | None,
    as_json: bool,
) -> None:
    """Export an ARCH, or the front of a RUN as bundles.

    An ARCH becomes a TFLite and an ONNX file, and a RUN one bundle for each model on its front.
    Every file is run in its runtime and compared with torch before it is written. A bundle's
    accuracy is measured on the test split, and its latency on the bundled file. An ARCH has the
    weights that lie beside its file, else fresh random ones: good for timing, not for use.
    """
    if (Path(source) / "config.toml").is_file():
        if (resolution, channels, classes) != (None, None, None):
            raise UsageError(
                "a run has its own task: leave out --resolution, --channels and --classes"
            )
        _export_run(Path(source), out, as_json)
    else:
        _export_arch(source, out, seed, (resolution, channels, classes), as_json)


def _export_run(run: Path, out: Path | None, as_json: bool) -> None:
    from pocketnas.bundle import export_run

    def on_bundle(bundle: Path) -> None:
        click.echo(str(bundle), err=as_json)

    bundles = export_run(run, out or run / "front", on_bundle)
    if as_json:
        print_json({"run": str(run), "bundles": [str(bundle) for bundle in bundles]})


def _folder_name(name: str | None) -> str:
    """An arch's name as that of a folder: one from a stranger's file must not lead elsewhere."""
    return re.sub(r"[^\w@.-]", "-", name or "").lstrip(".")


def _export_arch(
    source: str,
    out: Path | None,
    seed: int,
    task_options: tuple[int | None, int | None, int | None],
    as_json: bool,
) -> None:
    from pocketnas.bundle import export_arch
    from pocketnas.cli.arch import arch_task

    task = arch_task(source, *task_options)
    out = out or Path("models") / (_folder_name(task.arch.name) or f"arch-{task.input_shape[0]}px")
    weights = task.weights
    exported = export_arch(
        task.arch, out, task.input_shape, task.classes, seed=seed, weights=weights
    )
    origin = str(weights) if weights else f"random, from seed {seed}"
    files = sorted(path.name for path in out.iterdir())
    if as_json:
        print_json(
            {
                "arch": list(task.arch.strings),
                "out": str(out),
                "files": files,
                "weights": origin,
                "tflite_max_error": exported.parity.tflite_max_error,
                "onnx_max_error": exported.parity.onnx_max_error,
            }
        )
        return
    click.echo(f"{out}: {', '.join(files)}")
    click.echo(f"weights: {origin}")
    click.echo(
        f"largest difference from torch: TFLite {exported.parity.tflite_max_error:.1e}, "
        f"ONNX {exported.parity.onnx_max_error:.1e}"
    )
