"""Damaged runs, full disks and vanished inputs: a sentence each, and nothing finished is lost."""

from __future__ import annotations

import errno
import json
import shutil
import sqlite3
from pathlib import Path

import optuna
import pytest
import safetensors
import safetensors.torch
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState

from pocketnas import bundle
from pocketnas.bundle import export_arch, export_run
from pocketnas.errors import ExportError, PocketNASError, RunError
from pocketnas.nas import evaluate
from pocketnas.nas.config import SearchConfig
from pocketnas.nas.evaluate import fresh_network
from pocketnas.nas.events import Event, Started
from pocketnas.nas.recipe import TrainSettings
from pocketnas.nas.sampler import PPOSampler
from pocketnas.nas.search import resume, search
from pocketnas.nas.storage import read_study
from pocketnas.reports.summary import read_run
from pocketnas.searchspace import parse_arch
from tests.nas.data_files import random_images, write_npz
from tests.steady import FakeSteadyDevice

QUICK = TrainSettings(epochs=1, train_images=100)
UNNAMED_SPACE = """
input_resolution = 8
base = ["stem_c8_s1", "ds_r1_k3_s1_c8", "head_c32"]
[choices]
op = ["ds"]
kernel = [3]
se = [0]
skip = ["identity"]
filters = [1.0]
layers = [0]
"""


@pytest.fixture
def run(tmp_path: Path, steady: FakeSteadyDevice) -> Path:
    """A run of two trials."""
    config = SearchConfig(space="mnasnet-mini", data="digits", trials=2, proxy=QUICK)
    return search(config, tmp_path / "run")


def test_a_disk_full_while_weights_are_written_ends_in_a_sentence(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = evaluate.write_atomic

    def full(path: Path, content: bytes | str) -> None:
        if path.name == "weights.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "write_atomic", full)
        with pytest.raises(RunError, match="No space left on device; free some space"):
            resume(run, 3)
    resume(run)
    assert read_run(run).trials_finished == 3


@pytest.mark.parametrize("content", ["", '{"latency_ms": 1', "{}", "[]", "\0"])
def test_a_damaged_reading_is_taken_again(
    run: Path, steady: FakeSteadyDevice, content: str
) -> None:
    """The study never took in the trial it belongs to, so it is no result that is lost."""
    (run / "study.db").unlink()
    for reading in run.glob("candidates/*/reading.json"):
        reading.write_text(content)
    steady.measured.clear()
    resume(run)
    assert len(steady.measured) == 3  # the base network and both candidates
    for reading in run.glob("candidates/*/reading.json"):
        assert json.loads(reading.read_text())["latency_ms"] > 0


def test_a_controller_ahead_of_its_study_learns_again_from_that(tmp_path: Path) -> None:
    """A power failure may take the last trials of the study, but not the controller's state."""

    def study_of(values: list[float], sampler: PPOSampler) -> optuna.Study:
        study = optuna.create_study(sampler=sampler)
        for value in values:
            trial = study.ask({"x": CategoricalDistribution((1, 2, 3))})
            study.tell(trial, value)
        return study

    ahead, fresh = PPOSampler(seed=0), PPOSampler(seed=0)
    study_of([1.0, 2.0, 3.0, 4.0], ahead)
    ahead.recover(study_of([5.0, 6.0], fresh))
    ahead.save(tmp_path / "ahead")
    fresh.save(tmp_path / "fresh")
    assert (tmp_path / "ahead").read_bytes() == (tmp_path / "fresh").read_bytes()


def test_a_study_that_is_not_of_a_search_is_refused(run: Path) -> None:
    with sqlite3.connect(run / "study.db") as database:
        database.execute("delete from trial_user_attributes where key = 'repeat_of'")
    database.close()
    with pytest.raises(RunError, match=r"trial 0 of '.*study\.db' has no repeat_of: the study is"):
        resume(run, 3)
    with pytest.raises(RunError, match="has no repeat_of"):
        read_run(run)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("epochs = 1", "epochs = 1.5", "epochs must be of type int but is 1.5"),
        ("seed = 0", "seed = 0.5", "seed must be of type int but is 0.5"),
        ('sampler = "ppo"', "sampler = [1]", r"sampler must be of type str but is \[1\]"),
        ("threads = 1", "threads = true", "threads must be of type int but is True"),
        ('data = "digits"\n', "", "it lacks data"),
        ("learning_rate = 0.05", 'learning_rate = "x"', "learning_rate must be of type float"),
    ],
)
def test_a_wrong_entry_of_a_configuration_is_named(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    text = SearchConfig(space="mnasnet-mini", data="digits", proxy=QUICK).to_toml()
    assert before in text
    (tmp_path / "config.toml").write_text(text.replace(before, after, 1))
    with pytest.raises(RunError, match=words):
        SearchConfig.load(tmp_path / "config.toml")


def test_a_run_goes_on_when_its_space_file_is_gone_and_not_when_its_data_changed(
    tmp_path: Path, steady: FakeSteadyDevice
) -> None:
    space, data = tmp_path / "mine.toml", tmp_path / "data.npz"
    space.write_text(UNNAMED_SPACE)
    write_npz(data)
    proxy = TrainSettings(epochs=1, batch_size=8)
    config = SearchConfig(space=str(space), data=str(data), trials=1, proxy=proxy)
    run = search(config, tmp_path / "run")
    space.unlink()
    events: list[Event] = []
    resume(run, 2, events.append)
    (started,) = (event for event in events if isinstance(event, Started))
    assert started.space == "mine"
    assert read_run(run).trials_finished == 2

    write_npz(data, train_images=random_images(30, channels=3, seed=1))
    with pytest.raises(RunError, match="was searched with data_fingerprint"):
        resume(run, 3)
    with pytest.raises(RunError, match="no longer holds the data that"):
        export_run(run, tmp_path / "front")
    data.unlink()
    with pytest.raises(PocketNASError, match="there is no data set"):
        resume(run, 3)
    assert read_run(run).trials_finished == 2


def test_a_run_on_a_read_only_disk_can_be_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anywhere, so here it is the log's index that cannot be made."""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    (run / "study.db-shm").symlink_to(run / "no folder" / "no file")
    assert len(read_study(run / "study.db")[1]) == 2


def test_a_base_network_over_the_size_limit_says_what_to_do(
    tmp_path: Path, steady: FakeSteadyDevice
) -> None:
    config = SearchConfig(space="mnasnet-mini", data="digits", proxy=QUICK, max_size_mb=1e-4)
    with pytest.raises(RunError, match=r"base network cannot be the target: .* --target-ms"):
        search(config, tmp_path / "run")


def test_a_network_beyond_any_file_is_refused_before_it_takes_the_memory() -> None:
    arch = parse_arch("stem_c8192_s1,ir_r64_k5_s1_e6_c8192")
    with pytest.raises(ExportError, match=r"too large: 5[0-9],[0-9,]+ params"):
        fresh_network(arch, (28, 28, 1), 10, seed=0)
    with pytest.raises(ExportError, match="too large"):
        fresh_network(parse_arch("stem_c8_s1,ds_r1_k3_s1_c8"), (4096, 4096, 1024), 10, seed=0)


def test_a_candidate_too_large_to_build_is_infeasible_and_the_search_goes_on(
    tmp_path: Path, steady: FakeSteadyDevice
) -> None:
    path = tmp_path / "wide.toml"
    wide = UNNAMED_SPACE.replace("layers = [0]", "layers = [2, 3]").replace(
        "ds_r1_k3_s1_c8", "cn_r1_k3_s1_c4000"
    )
    path.write_text(wide.replace('["ds"]', '["conv"]'))  # at least 288 million params
    config = SearchConfig(space=str(path), data="digits", trials=1, target_ms=1.0, seed=0)
    run = search(config, tmp_path / "run")
    (trial,) = read_study(run / "study.db")[1]
    assert trial.state == TrialState.PRUNED
    assert "the network is too large" in trial.user_attrs["reason"]


def test_a_moved_run_goes_on(run: Path, tmp_path: Path) -> None:
    moved = tmp_path / "a run, 100 % {moved} ü"
    shutil.move(run, moved)
    resume(moved, 3)
    assert read_run(moved).trials_finished == 3


@pytest.mark.parametrize(
    "change",
    [
        {"decisions": [["b1.op"]]},
        {"pending": [{"tokens": 3}]},
        {"seen_below": None, "seen_others": None},
        {"settings": []},
        {"updates": "many", "decisions": {"b1.op": {}}},
    ],
)
def test_a_tampered_controller_is_a_sentence_and_can_be_done_without(
    run: Path, change: dict[str, object]
) -> None:
    path = run / "controller.safetensors"
    with safetensors.safe_open(path, framework="pt") as file:
        ((key, text),) = file.metadata().items()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    state = json.dumps(json.loads(text) | change)
    path.write_bytes(safetensors.torch.save(tensors, {key: state}))
    with pytest.raises(RunError, match=r"controller\.safetensors' is .*without the file"):
        resume(run, 3)
    path.unlink()
    resume(run)
    assert read_run(run).trials_finished == 3


def test_a_run_is_resumed_from_another_folder(
    tmp_path: Path, steady: FakeSteadyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_npz(tmp_path / "mine.npz")
    config = SearchConfig(space="mnasnet-mini", data="mine.npz", trials=1, proxy=QUICK)
    search(config, tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    resume(tmp_path / "run", 2)
    assert read_run(tmp_path / "run").trials_finished == 2


def test_an_export_on_a_full_disk_leaves_nothing_in_the_way_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    arch, out = parse_arch("stem_c8_s1,ds_r1_k3_s1_c8,head_c32"), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(bundle, "write_json", full)
        with pytest.raises(RunError, match="No space left on device; free some space"):
            export_arch(arch, out, (8, 8, 1), 3)
    assert not out.exists()
    export_arch(arch, out, (8, 8, 1), 3)
    assert (out / "arch.json").exists()
