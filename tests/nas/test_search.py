"""The whole search in this process, on real data, real exports and the host or a fake device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from pocketnas.devices import HostDevice
from pocketnas.errors import DeviceError, RunError, UsageError
from pocketnas.nas import search as search_module
from pocketnas.nas.config import SearchConfig
from pocketnas.nas.events import Event, Stage, Started, TrialDone
from pocketnas.nas.recipe import TrainSettings
from pocketnas.nas.search import resume, search
from pocketnas.reports.summary import read_run
from pocketnas.searchspace import load_space, parse_arch
from tests.steady import FakeSteadyDevice

QUICK = TrainSettings(epochs=1, train_images=200)
TINY_SPACE = """
name = "tiny"
input_resolution = 8
base = ["stem_c8_s1", "ds_r1_k3_s2_c8", "ir_r1_k3_s2_e3_c16", "head_c32"]
[choices]
op = ["ds"]
kernel = [3]
se = [0.0]
skip = ["identity"]
filters = [1.0]
layers = [0, 1]
"""


@pytest.fixture
def tiny_space(tmp_path: Path) -> str:
    """A space of four archs."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY_SPACE)
    return str(path)


def config(**changes: object) -> SearchConfig:
    settings = {"space": "mnasnet-mini", "data": "digits", "trials": 3, "proxy": QUICK}
    return SearchConfig(**{**settings, **changes})  # type: ignore[arg-type]


def study_of(run: Path) -> optuna.Study:
    return optuna.load_study(study_name=None, storage=f"sqlite:///{run / 'study.db'}")


def test_a_search_on_the_host_leaves_a_whole_run(tmp_path: Path) -> None:
    events: list[Event] = []
    run = search(config(device="host"), tmp_path / "run", events.append)

    started = next(event for event in events if isinstance(event, Started))
    assert started.target_measured
    assert started.space_size == load_space("mnasnet-mini").size
    stages = [event.stage for event in events if isinstance(event, Stage) and event.trial == 0]
    assert stages[:3] == ["export", "time", "train"]
    done = [event for event in events if isinstance(event, TrialDone)]
    assert [event.finished for event in done] == [1, 2, 3]

    trials = study_of(run).trials
    assert len(trials) == 3
    for trial, event in zip(trials, done, strict=True):
        if trial.state != TrialState.COMPLETE:
            assert event.verdict == "failed"  # a busy machine: its latency would not settle
            continue
        accuracy, latency_ms = trial.values
        attributes = trial.user_attrs
        candidate = run / "candidates" / attributes["key"]
        reading = json.loads((candidate / "reading.json").read_text())
        assert reading["latency_ms"] == latency_ms > 0
        assert len(reading["latency_samples_ms"]) >= 10
        low, high = reading["latency_ci95_ms"]
        assert low <= latency_ms <= high <= 1.1 * low
        assert json.loads((candidate / "training.json").read_text())["accuracy"] == accuracy
        arch = json.loads((candidate / "arch.json").read_text())["arch"]
        assert parse_arch(arch) == event.arch == parse_arch(attributes["arch"])
        expected = accuracy * (latency_ms / started.target_ms) ** -0.07
        assert attributes["reward"] == pytest.approx(expected)
        for file in ("model.tflite", "model.onnx", "weights.safetensors"):
            assert (candidate / file).stat().st_size > 1000
    lines = (run / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 2]


def test_latency_is_never_measured_nor_an_arch_trained_twice(
    tmp_path: Path, steady: FakeSteadyDevice, tiny_space: str
) -> None:
    run = search(config(space=tiny_space, trials=12), tmp_path / "run")
    trials = study_of(run).trials
    keys = {trial.user_attrs["key"] for trial in trials}
    assert len(keys) <= 4
    assert len(steady.measured) == len(set(steady.measured))
    repeats = [trial for trial in trials if trial.user_attrs["repeat_of"] is not None]
    assert len(repeats) == 12 - len(keys)
    for trial in repeats:
        first = trials[trial.user_attrs["repeat_of"]]
        assert trial.values == first.values
        assert trial.user_attrs["seconds"] == {}
    summary = read_run(run)
    assert (summary.trials_finished, summary.trials_repeated) == (12, len(repeats))
    assert len(summary.models) == len(keys)


def test_the_same_seed_makes_the_same_choices_and_accuracies(
    tmp_path: Path, steady: FakeSteadyDevice
) -> None:
    outcomes = []
    for name in ("a", "b"):
        run = search(config(trials=4, seed=5), tmp_path / name)
        outcomes.append(
            [(t.params, t.values, t.user_attrs["reward"]) for t in study_of(run).trials]
        )
    other = search(config(trials=4, seed=6), tmp_path / "c")
    assert outcomes[0] == outcomes[1]
    assert [t.params for t in study_of(other).trials] != [params for params, _, _ in outcomes[0]]


def test_what_is_over_the_size_limit_is_infeasible_before_any_training(
    tmp_path: Path, steady: FakeSteadyDevice
) -> None:
    run = search(config(max_size_mb=0.001, target_ms=1.0), tmp_path / "run")
    trials = study_of(run).trials
    assert [trial.state for trial in trials] == [TrialState.PRUNED] * 3
    assert all("over the size limit" in trial.user_attrs["reason"] for trial in trials)
    assert steady.measured == []
    assert not list(run.glob("candidates/*/training.json"))
    assert read_run(run).trials_infeasible == 3


def test_under_a_hard_constraint_hopeless_latency_ends_a_trial_before_training(
    tmp_path: Path, steady: FakeSteadyDevice
) -> None:
    # Trained well enough that a few times the best one's latency is beyond hope.
    trained = TrainSettings(epochs=2)
    run = search(config(reward="hard", target_ms=0.3, trials=6, proxy=trained), tmp_path / "run")
    best = 0.0
    hopeless = 0
    for trial in study_of(run).trials:
        key = trial.user_attrs["key"]
        latency_ms = steady_latency(run, key)
        if latency_ms > 0.3 and 0.3 / latency_ms <= best:
            hopeless += 1
            assert trial.state == TrialState.PRUNED
            assert "hopeless" in trial.user_attrs["reason"]
            assert not (run / "candidates" / key / "training.json").exists()
        else:
            assert trial.state == TrialState.COMPLETE
            best = max(best, trial.user_attrs["reward"])
    assert hopeless > 0


def steady_latency(run: Path, key: str) -> float:
    return (run / "candidates" / key / "model.tflite").stat().st_size / 1e5


def test_an_unstable_reading_is_never_rewarded_and_stops_the_search_when_it_stays(
    tmp_path: Path, steady: FakeSteadyDevice
) -> None:
    steady.unstable = True
    with pytest.raises(DeviceError, match=r"stopped after 5 failures in a row.*would not settle"):
        search(config(target_ms=1.0, trials=20), tmp_path / "run")
    trials = study_of(tmp_path / "run").trials
    assert [trial.state for trial in trials] == [TrialState.FAIL] * 5
    assert all(trial.user_attrs["reward"] is None for trial in trials)
    steady.unstable = False
    resume(tmp_path / "run", trials=8)
    states = [trial.state for trial in study_of(tmp_path / "run").trials]
    assert states == [TrialState.FAIL] * 5 + [TrialState.COMPLETE] * 3


def test_a_reading_taken_before_the_kill_is_used_again(
    tmp_path: Path, steady: FakeSteadyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pocketnas.nas.evaluate.train", killed)
        with pytest.raises(KeyboardInterrupt):
            search(config(trials=1), tmp_path / "run")
    assert len(steady.measured) == 2  # the base network for the target, and the candidate
    resume(tmp_path / "run")
    assert len(steady.measured) == 2
    assert len(study_of(tmp_path / "run").trials) == 1


def test_a_finished_run_can_be_given_more_trials(tmp_path: Path, steady: FakeSteadyDevice) -> None:
    search(config(trials=2), tmp_path / "run")
    resume(tmp_path / "run")
    assert len(study_of(tmp_path / "run").trials) == 2
    resume(tmp_path / "run", trials=4)
    assert len(study_of(tmp_path / "run").trials) == 4
    with pytest.raises(UsageError, match="has 4 trials already, so it cannot have 3 in all"):
        resume(tmp_path / "run", trials=3)
    whole = search(config(trials=4), tmp_path / "whole")
    assert [t.params for t in study_of(whole).trials] == [
        t.params for t in study_of(tmp_path / "run").trials
    ]


def test_a_run_is_not_resumed_in_another_space_or_on_other_data_or_another_device(
    tmp_path: Path, steady: FakeSteadyDevice, tiny_space: str
) -> None:
    run = search(config(space=tiny_space, trials=1), tmp_path / "run")
    (run / "space.toml").write_text(TINY_SPACE.replace("c16", "c24"))
    with pytest.raises(RunError, match="searched with space_fingerprint"):
        resume(run, trials=2)
    (run / "space.toml").write_text(TINY_SPACE)
    original = (run / "config.toml").read_text()
    (run / "config.toml").write_text(original.replace("seed = 0", "seed = 1"))
    with pytest.raises(RunError, match="searched with"):
        resume(run, trials=2)
    (run / "config.toml").write_text(original)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "open_device", lambda spec: HostDevice("in its place"))
        with pytest.raises(RunError, match="searched with device 'steady', but here it is 'host'"):
            resume(run, trials=2)
    resume(run, trials=2)


def test_a_users_space_and_any_sampler_go_through_the_whole_loop(
    tmp_path: Path, steady: FakeSteadyDevice, tiny_space: str
) -> None:
    for sampler in ("random", "tpe", "nsga2"):
        run = search(
            replace(config(space=tiny_space, trials=3), sampler=sampler), tmp_path / sampler
        )
        assert len(study_of(run).trials) == 3
        assert read_run(run).front
