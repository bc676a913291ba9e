"""Bundles: what ships. One folder a model, named by what was measured on the files inside."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pocketnas.errors import DeviceError, RunError, UsageError
from pocketnas.files import write_atomic, write_json, writing
from pocketnas.nas.config import SearchConfig
from pocketnas.reports.card import Claims, card
from pocketnas.reports.summary import Model, RunSummary, read_run

if TYPE_CHECKING:
    from torch import nn

    from pocketnas.devices import Device, Reading
    from pocketnas.export import Exported
    from pocketnas.nas.data import Dataset
    from pocketnas.searchspace import Arch

OnBundle = Callable[[Path], None]


@dataclass(frozen=True)
class _Task:
    """What all bundles of one run share."""

    summary: RunSummary
    dataset: Dataset
    device: Device


def export_run(folder: Path, out: Path, on_bundle: OnBundle | None = None) -> list[Path]:
    """Write one bundle for each model of a run's front.

    Every file is checked against torch, its accuracy is measured on the test split in its own
    runtime, and the bundled file is timed on the run's device: the name and the card say what was
    measured on these very files.

    Args:
        folder: the run.
        out: the folder to hold the bundles; must be new or empty.
        on_bundle: called with each bundle as it is done.

    Raises:
        RunError: there is no such run, or nothing on its front yet.
        UsageError: `out` holds something.
        ExportError, DeviceError: a model disagrees with torch, or its latency would not settle.
    """
    from pocketnas.devices import open_device
    from pocketnas.nas.run import load_run_data, run_space
    from pocketnas.searchspace import load_space

    summary = read_run(folder)
    if not summary.front:
        raise RunError(f"'{folder}' has no finished candidate yet, so there is nothing to export")
    _require_empty(out)
    config = summary.config
    dataset = load_run_data(config, load_space(run_space(folder, config)))
    if dataset.fingerprint != summary.data_fingerprint:
        raise RunError(
            f"'{config.data}' no longer holds the data that '{folder}' was searched on: "
            "put that back, then export again"
        )
    bundles = []
    with (
        open_device(config.device) as device,
        writing(out, "free some space or choose another --out"),
    ):
        out.mkdir(parents=True, exist_ok=True)
        task = _Task(summary, dataset, device)
        try:
            for model in summary.front:
                bundles.append(_bundle(task, model, out))
                if on_bundle:
                    on_bundle(bundles[-1])
        finally:
            if not bundles:
                out.rmdir()
    return bundles


def export_arch(
    arch: Arch,
    out: Path,
    input_shape: tuple[int, int, int],
    classes: int,
    *,
    seed: int = 0,
    weights: Path | None = None,
) -> Exported:
    """Export an arch, with weights from a file or drawn from a seed.

    Args:
        arch: what to export.
        out: the folder to hold `model.tflite`, `model.onnx`, `weights.safetensors`, `arch.json`.
        input_shape: (height, width, channels).
        classes: number of classes.
        seed: of the weights, where there is no file of them.
        weights: a safetensors file of this very network.
    """
    from pocketnas.export import export_network
    from pocketnas.nas.evaluate import fresh_network, save_weights
    from pocketnas.searchspace import arch_to_dict

    _require_empty(out)
    network = fresh_network(arch, input_shape, classes, seed)
    if weights is not None:
        load_weights(network, weights)
    exported = export_network(network, input_shape)
    with writing(out, "free some space or choose another --out"):
        out.mkdir(parents=True, exist_ok=True)
        try:
            exported.write(out)
            save_weights(network, out / "weights.safetensors")
            document = arch_to_dict(arch, input_shape=input_shape, classes=classes)
            write_json(out / "arch.json", document)
        except BaseException:
            shutil.rmtree(out, ignore_errors=True)  # it was new or empty: all in it is from here
            raise
    return exported


def load_weights(network: nn.Module, path: Path) -> None:
    """Load safetensors weights into a network that they fit exactly.

    Raises:
        RunError: the file is missing, damaged, or of another network.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        network.load_state_dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise RunError(f"weights '{path}' cannot be read: {error}") from None
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise RunError(f"weights '{path}' do not fit the arch: {reason}") from None


def _bundle(task: _Task, model: Model, out: Path) -> Path:
    """Write one model's bundle under a temporary name, then give it the name of its claims."""
    folder = out / f".{model.key}.partial"
    folder.mkdir()
    try:
        name = _fill(folder, task, model)
        target = _free_name(out, name)
        folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return target


def _fill(folder: Path, task: _Task, model: Model) -> str:
    """Write all of a bundle's files, and return the name that says what they claim."""
    from pocketnas.export import evaluate_file, export_network
    from pocketnas.export.exporter import MODEL_FILES
    from pocketnas.nas.evaluate import fresh_network
    from pocketnas.searchspace import arch_to_dict, parse_arch

    summary, dataset, config = task.summary, task.dataset, task.summary.config
    source = summary.folder / "candidates" / model.key
    arch = parse_arch(model.arch)
    network = fresh_network(arch, dataset.input_shape, dataset.classes, seed=0)
    load_weights(network, source / "weights.safetensors")
    exported = export_network(
        network,
        dataset.input_shape,
        labels=dataset.labels,
        normalization=(dataset.mean, dataset.std),
    )
    tflite, onnx = exported.write(folder)
    accuracy = {path.name: evaluate_file(path, dataset) for path in (tflite, onnx)}
    timed = folder / MODEL_FILES[config.runtime]
    reading = task.device.measure(timed, config.measure_settings)
    if not reading.stable:
        raise DeviceError(
            f"the latency of trial {model.trial} would not settle, so it is not shipped: "
            "let the machine come to rest, then export again"
        )
    shutil.copyfile(source / "weights.safetensors", folder / "weights.safetensors")
    name = bundle_name(config, reading, accuracy[timed.name])
    write_json(folder / "reading.json", reading.to_dict())
    write_json(
        folder / "arch.json",
        {
            **arch_to_dict(arch, input_shape=dataset.input_shape, classes=dataset.classes),
            "labels": list(dataset.labels),
            "normalization": {"mean": list(dataset.mean), "std": list(dataset.std)},
            "data": dataset.name,
            "accuracy": accuracy,
            "validation_accuracy": model.accuracy,
            "params": model.params,
            "madds": model.madds,
            "peak_activation_bytes": model.peak_activation_bytes,
        },
    )
    claims = Claims(
        name=name,
        data=dataset.name,
        license=dataset.license,
        labels=dataset.labels,
        input_shape=dataset.input_shape,
        mean=dataset.mean,
        std=dataset.std,
        arch=arch.strings,
        accuracy=accuracy,
        test_images=len(dataset.test.labels),
        validation_accuracy=model.accuracy,
        reading=reading,
        search_latency_ms=model.latency_ms,
        params=model.params,
        madds=model.madds,
        peak_activation_bytes=model.peak_activation_bytes,
        size_bytes=tflite.stat().st_size,
        epochs=config.proxy.epochs,
    )
    write_atomic(folder / "README.md", card(claims))
    return name


def bundle_name(config: SearchConfig, reading: Reading, accuracy: float) -> str:
    """A bundle's name: data, device, latency and accuracy, as in `digits_host_0.42ms_97.1`."""
    latency = (
        f"{reading.latency_ms:.2f}" if reading.latency_ms >= 0.1 else f"{reading.latency_ms:.2g}"
    )
    return f"{Path(config.data).stem}_{reading.device}_{latency}ms_{100 * accuracy:.1f}"


def _free_name(out: Path, name: str) -> Path:
    """The name, with a number behind it where two models claim the same."""
    path, number = out / name, 1
    while path.exists():
        number += 1
        path = out / f"{name}-{number}"
    return path


def _require_empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"'{out}' is not an empty folder: choose another with --out")
