"""Phones time the next candidates while one trains, and the search goes the same way for it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from pocketnas.devices import DeviceInfo, MeasureSettings, Reading
from pocketnas.errors import NoDeviceError
from pocketnas.nas import search as search_module
from pocketnas.nas.config import SearchConfig
from pocketnas.nas.recipe import TrainSettings
from pocketnas.nas.search import resume, search
from tests.steady import FakeSteadyDevice

TRIALS = 24  # more than two batches of the controller


class FakeSteadyPhone(FakeSteadyDevice):
    """Times beside training, in threads, and fails where it is told to."""

    def __init__(self, beside: int, seconds: float = 0.0) -> None:
        super().__init__()
        self.beside = beside
        self.seconds = seconds
        self.gone_after: int | None = None
        self.when: list[tuple[float, float]] = []
        self.threads: set[str] = set()

    def describe(self) -> DeviceInfo:
        return replace(super().describe(), beside=self.beside)

    def measure(self, model_path: Path, settings: MeasureSettings) -> Reading:
        self.threads.add(threading.current_thread().name)
        began = time.perf_counter()
        time.sleep(self.seconds)
        if self.gone_after is not None and len(self.measured) >= self.gone_after:
            raise NoDeviceError("device 'steady' is offline: plug it in")
        reading = super().measure(model_path, settings)
        self.when.append((began, time.perf_counter()))
        return reading


def run_search(
    out: Path, device: FakeSteadyDevice, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> Path:
    monkeypatch.setattr(search_module, "open_device", lambda spec: device)
    proxy = TrainSettings(epochs=1, train_images=150)
    config = SearchConfig(space="mnasnet-mini", data="digits", trials=TRIALS, proxy=proxy)
    return search(replace(config, **changes), out)


def outcome(run: Path) -> list[tuple[Any, ...]]:
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{run / 'study.db'}")
    return [(t.number, t.params, t.values, t.user_attrs["repeat_of"]) for t in study.trials]


def test_a_search_goes_the_same_way_with_any_number_of_phones_and_after_a_loss_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = run_search(tmp_path / "alone", FakeSteadyDevice(), monkeypatch)
    phones = FakeSteadyPhone(beside=3)
    phones.gone_after = 9
    with pytest.raises(NoDeviceError, match=r"is offline.*run --resume"):
        run_search(tmp_path / "many", phones, monkeypatch)
    done_before = outcome(tmp_path / "many")
    assert 0 < len(done_before) < 10
    phones.gone_after = None
    resume(tmp_path / "many")
    assert outcome(tmp_path / "many") == outcome(alone)
    assert len(phones.measured) == len(set(phones.measured)), "a candidate was timed twice"
    assert any(name.startswith("timing") for name in phones.threads)
    assert (tmp_path / "many" / "controller.safetensors").read_bytes() == (
        alone / "controller.safetensors"
    ).read_bytes()


def test_the_next_candidates_are_timed_while_one_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training: list[tuple[float, float]] = []
    train = search_module.Evaluator.train

    def watched_train(self: Any, *arguments: Any) -> float:
        began = time.perf_counter()
        accuracy = train(self, *arguments)
        training.append((began, time.perf_counter()))
        return accuracy

    monkeypatch.setattr(search_module.Evaluator, "train", watched_train)
    phone = FakeSteadyPhone(beside=1, seconds=0.05)
    run_search(tmp_path / "run", phone, monkeypatch, trials=8)
    beside = sum(
        any(began < end and start < ended for start, end in training)
        for began, ended in phone.when
    )
    # Not the base network, and not the first two, which are drawn before there is a controller.
    assert beside >= len(phone.when) - 4
