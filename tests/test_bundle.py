"""Bundles: what they claim is what their files give."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import pocketnas.devices
from pocketnas.bundle import export_arch, export_run, load_weights
from pocketnas.errors import DeviceError, RunError, UsageError
from pocketnas.export import read_metadata
from pocketnas.nas import search as search_module
from pocketnas.nas.config import SearchConfig
from pocketnas.nas.data import load_data
from pocketnas.nas.evaluate import fresh_network
from pocketnas.nas.recipe import TrainSettings
from pocketnas.nas.search import search
from pocketnas.reports import read_run
from pocketnas.searchspace import resolve_arch
from tests.steady import FakeSteadyDevice

FILES = {
    "README.md",
    "arch.json",
    "model.onnx",
    "model.tflite",
    "reading.json",
    "weights.safetensors",
}


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> FakeSteadyDevice:
    """A fake device in the place of all others."""
    device = FakeSteadyDevice()
    for module in (search_module, pocketnas.devices):
        monkeypatch.setattr(module, "open_device", lambda spec: device)
    return device


@pytest.fixture
def run(tmp_path: Path, steady: FakeSteadyDevice) -> Path:
    """A finished run."""
    config = SearchConfig(
        space="mnasnet-mini", data="digits", trials=3, proxy=TrainSettings(epochs=2)
    )
    return search(config, tmp_path / "run")


def test_a_bundle_claims_what_its_own_files_give(run: Path, tmp_path: Path) -> None:
    front = read_run(run).front
    seen: list[Path] = []
    bundles = export_run(run, tmp_path / "out", seen.append)
    assert bundles == seen
    assert len(bundles) == len(front)
    digits = load_data("digits")
    for bundle, model in zip(bundles, front, strict=True):
        assert {path.name for path in bundle.iterdir()} == FILES
        described = json.loads((bundle / "arch.json").read_text())
        assert resolve_arch(str(bundle)) == resolve_arch(model.arch)

        mean, std = (np.array(described["normalization"][name]) for name in ("mean", "std"))
        runner = Interpreter(str(bundle / "model.tflite")).get_signature_runner("serving_default")
        images = ((digits.test.images / 255 - mean) / std).astype(np.float32)
        guesses = [int(runner(image=image[None])["logits"].argmax()) for image in images]
        accuracy = float((np.array(guesses) == digits.test.labels).mean())
        assert described["accuracy"] == {"model.tflite": accuracy, "model.onnx": accuracy}

        reading = json.loads((bundle / "reading.json").read_text())
        content = (bundle / "model.tflite").read_bytes()
        assert reading["model_sha256"] == hashlib.sha256(content).hexdigest()
        claim = f"digits_steady_{reading['latency_ms']:.2f}ms_{100 * accuracy:.1f}"
        assert bundle.name == claim
        card = (bundle / "README.md").read_text()
        assert f"# {claim}" in card
        assert f"{100 * accuracy:.2f} %" in card
        for file in ("model.tflite", "model.onnx"):
            metadata = read_metadata(bundle / file)
            assert metadata.labels == digits.labels
            assert metadata.mean == pytest.approx(digits.mean)


def test_the_cards_example_runs_as_it_stands(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = export_run(run, tmp_path / "out")[0]
    example = (bundle / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(bundle)
    exec(example, {})
    assert capsys.readouterr().out.strip() in {str(digit) for digit in range(10)}


def test_nothing_unstable_ships_and_nothing_is_overwritten(
    run: Path, tmp_path: Path, steady: FakeSteadyDevice
) -> None:
    steady.unstable = True
    with pytest.raises(DeviceError, match="would not settle, so it is not shipped"):
        export_run(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    steady.unstable = False
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    with pytest.raises(UsageError, match="is not an empty folder"):
        export_run(run, tmp_path / "full")
    assert (tmp_path / "full" / "mine").read_text() == "precious"


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    export_arch(resolve_arch("mnasnet_small"), tmp_path / "small", (32, 32, 3), 10)
    other = fresh_network(resolve_arch("mnasnet_small"), (32, 32, 3), 11, seed=0)
    with pytest.raises(RunError, match="do not fit the arch"):
        load_weights(other, tmp_path / "small" / "weights.safetensors")
    (tmp_path / "cut").write_bytes((tmp_path / "small" / "weights.safetensors").read_bytes()[:99])
    with pytest.raises(RunError, match="cannot be read"):
        load_weights(other, tmp_path / "cut")


def test_an_exported_arch_is_exported_again_with_its_own_weights(tmp_path: Path) -> None:
    arch = resolve_arch("mnasnet_small")
    first = export_arch(arch, tmp_path / "a", (32, 32, 3), 10, seed=1)
    again = export_arch(
        arch,
        tmp_path / "b",
        (32, 32, 3),
        10,
        seed=2,
        weights=tmp_path / "a" / "weights.safetensors",
    )
    assert again.tflite == first.tflite
