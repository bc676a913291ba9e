from __future__ import annotations

import gc
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from pocketnas.errors import RunError
from pocketnas.nas import storage, study_rows
from pocketnas.nas.sampler import PPOSampler
from pocketnas.nas.storage import RunStorage, open_study
from tests.nas import table_search

SPACE = table_search.SPACE
DIRECTIONS = ("maximize", "minimize")


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def opened(path: Path, directions=DIRECTIONS, name: str = "search") -> optuna.Study:
    sampler = optuna.samplers.RandomSampler(seed=0)
    return open_study(path, directions=directions, sampler=sampler, study_name=name)


def plainly(path: Path) -> optuna.Study:
    """The study as Optuna itself, and so its dashboard, reads it."""
    return optuna.load_study(study_name=None, storage=f"sqlite:///{path}")


def evaluate(study: optuna.Study, trials: int) -> None:
    for _ in range(trials):
        trial = study.ask(fixed_distributions=SPACE)
        trial.set_user_attr("reading", {"latency_ms": 1.25, "samples": [0.5] * 500})
        trial.set_user_attr("reason", None)
        study.tell(trial, [trial.number / 100, 1.25])


def test_optuna_itself_reads_the_very_same_trials(tmp_path):
    study = opened(tmp_path / "study.db")
    study.set_user_attr("target_ms", 75.0)
    study.set_user_attr("target_ms", 80.0)
    study.set_user_attr("reward", {"alpha": -0.07})
    evaluate(study, 3)
    study.tell(study.ask(fixed_distributions=SPACE), state=TrialState.PRUNED)
    study.tell(study.ask(fixed_distributions=SPACE), state=TrialState.FAIL)
    study.tell(study.ask(), [float("inf"), -float("inf")])
    there = plainly(tmp_path / "study.db")
    assert there.study_name == "search"
    assert there.directions == study.directions
    assert there.user_attrs == {"target_ms": 80.0, "reward": {"alpha": -0.07}}
    for mine, theirs in zip(study.trials, there.trials, strict=True):
        theirs._trial_id = mine._trial_id
        assert theirs == mine
        assert list(theirs.params) == list(mine.params)
    best = [trial.number for trial in study.best_trials]
    assert [trial.number for trial in there.best_trials] == best


def test_opened_again_it_is_the_same_study(tmp_path):
    study = opened(tmp_path / "study.db")
    study.set_user_attr("target_ms", 75.0)
    evaluate(study, 7)
    again = opened(tmp_path / "study.db")
    assert again.trials == study.trials
    assert again.user_attrs == study.user_attrs
    assert again.best_trials == study.best_trials
    evaluate(again, 1)
    assert [trial.number for trial in plainly(tmp_path / "study.db").trials] == list(range(8))


def test_parameters_reports_and_attributes_of_every_kind_come_back(tmp_path):
    study = opened(tmp_path / "study.db", ["minimize"])
    trial = study.ask(
        {"x": FloatDistribution(1e-4, 1.0, log=True), "n": IntDistribution(0, 9, step=3)}
    )
    trial.report(0.5, step=1)
    trial.report(float("nan"), step=2)
    trial.set_constraint("size", -1.0)
    study.tell(trial, 0.25)
    study.add_trial(create_trial(value=0.125, user_attrs={"from": "elsewhere"}))
    again = opened(tmp_path / "study.db", ["minimize"])
    assert repr(again.trials) == repr(study.trials)
    assert again.best_trial.user_attrs == {"from": "elsewhere"}
    assert plainly(tmp_path / "study.db").best_value == 0.125


def test_a_trial_written_while_the_study_is_read_is_there_whole_or_not_at_all(
    tmp_path, monkeypatch
):
    study = opened(tmp_path / "study.db")
    evaluate(study, 1)
    read = study_rows._by_trial

    def read_while_the_search_goes_on(*arguments):
        rows = read(*arguments)
        evaluate(study, 1)
        return rows

    monkeypatch.setattr(study_rows, "_by_trial", read_while_the_search_goes_on)
    _, trials = storage.read_study(tmp_path / "study.db")
    assert len(study.trials) == 6
    assert [trial.number for trial in trials] == [0]
    assert trials[0].params == study.trials[0].params
    assert trials[0].user_attrs == study.trials[0].user_attrs


def test_running_trials_are_not_written_and_are_done_again_under_their_numbers(tmp_path):
    study = opened(tmp_path / "study.db")
    trials = [study.ask(fixed_distributions=SPACE) for _ in range(4)]
    for trial in (trials[3], trials[1]):
        trial.set_user_attr("was", trial.number)
        study.tell(trial, [0.5, 1.0])
    assert [trial.number for trial in plainly(tmp_path / "study.db").trials] == [1, 3]
    again = opened(tmp_path / "study.db")
    assert [trial.number for trial in again.get_trials(states=[TrialState.COMPLETE])] == [1, 3]
    for expected in (0, 2, 4):
        trial = again.ask(fixed_distributions=SPACE)
        assert trial.number == expected
        again.tell(trial, [0.5, 1.0])
    there = plainly(tmp_path / "study.db").trials
    assert [trial.number for trial in there] == [0, 1, 2, 3, 4]
    assert [trial.user_attrs for trial in there] == [{}, {"was": 1}, {}, {"was": 3}, {}]


def test_a_trial_that_another_program_left_running_counts_as_failed(tmp_path):
    evaluate(opened(tmp_path / "study.db"), 2)
    plainly(tmp_path / "study.db").ask(fixed_distributions=dict(list(SPACE.items())[:2]))
    again = opened(tmp_path / "study.db")
    states = [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.FAIL]
    assert [trial.state for trial in again.trials] == states
    evaluate(again, 1)
    assert [trial.number for trial in plainly(tmp_path / "study.db").trials] == [0, 1, 2, 3]


def test_a_renamed_folder_keeps_its_study(tmp_path):
    (tmp_path / "before").mkdir()
    study = opened(tmp_path / "before" / "study.db", name="before")
    evaluate(study, 2)
    (tmp_path / "before").rename(tmp_path / "after")
    again = opened(tmp_path / "after" / "study.db", name="after")
    assert (again.study_name, len(again.trials)) == ("before", 2)


def test_let_go_it_is_one_whole_file(tmp_path):
    study = opened(tmp_path / "study.db")
    evaluate(study, 2)
    assert (tmp_path / "study.db-wal").exists()
    del study
    gc.collect()
    assert [file.name for file in tmp_path.iterdir()] == ["study.db"]
    assert len(plainly(tmp_path / "study.db").trials) == 2


def test_a_path_may_contain_anything(tmp_path):
    folder = tmp_path / "100% {odd} #1?mode=ro ä"
    folder.mkdir()
    evaluate(opened(folder / "study.db"), 1)
    assert (folder / "study.db").stat().st_size > 0
    assert len(opened(folder / "study.db").trials) == 1


def test_other_directions_or_two_studies_are_a_sentence(tmp_path):
    path = tmp_path / "study.db"
    opened(path)
    with pytest.raises(RunError, match="is to maximize and minimize, not to maximize"):
        opened(path, ["maximize"])
    optuna.create_study(storage=f"sqlite:///{path}", study_name="other")
    with pytest.raises(RunError, match=r"more than one study \(search, other\)"):
        opened(path)


def test_a_study_can_be_deleted_as_in_any_storage(tmp_path):
    mine = RunStorage(tmp_path / "study.db")
    optuna.create_study(storage=mine, study_name="one")
    optuna.delete_study(study_name="one", storage=mine)
    assert RunStorage(tmp_path / "study.db").get_all_studies() == []


def test_a_file_that_is_not_a_database_is_a_sentence(tmp_path):
    path = tmp_path / "study.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(RunError, match=r"study.db': file is not a database$"):
        opened(path)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc takes no files, even of root")
def test_a_folder_that_cannot_be_written_is_a_sentence():
    with pytest.raises(RunError, match=r"'/proc/study\.db': unable to open database file"):
        opened(Path("/proc/study.db"))


def test_a_full_disk_is_a_sentence_and_nothing_is_half_written(tmp_path):
    """The system refuses to let any file grow further, as a full disk does."""
    path = tmp_path / "study.db"
    study = opened(path)
    study.set_user_attr("target_ms", 75.0)
    evaluate(study, 3)
    trial = study.ask(fixed_distributions=SPACE)
    trial.set_user_attr("reading", ["x" * 1000] * 200)
    size = (tmp_path / "study.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, hard))
    try:
        with pytest.raises(RunError, match=r"study.db': .*free some space"):
            study.tell(trial, [0.5, 1.0])
        with pytest.raises(RunError, match="free some space"):
            study.set_user_attr("note", "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "note" not in study.user_attrs
    assert study.trials[3].state == TrialState.RUNNING
    assert len(plainly(path).trials) == 3
    study.tell(trial, [0.5, 1.0])  # there is space again
    evaluate(study, 1)
    there = plainly(path)
    assert [trial.number for trial in there.trials] == list(range(5))
    assert there.user_attrs == {"target_ms": 75.0}
    assert_sound(path)


def test_a_file_that_another_program_holds_is_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "study.db"
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, timeout=0.1))
    study = opened(path)
    trial = study.ask(fixed_distributions=SPACE)
    with closing(connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RunError, match=r"database is locked; .* end what else writes there"):
            study.tell(trial, [0.5, 1.0])
    study.tell(trial, [0.5, 1.0])
    assert len(plainly(path).trials) == 1


def test_sqlites_own_full_and_read_only_errors_are_sentences(tmp_path, monkeypatch):
    path = tmp_path / "study.db"
    evaluate(opened(path), 2)
    pragmas = {
        "database or disk is full": "PRAGMA max_page_count=1",
        "attempt to write a readonly database": "PRAGMA query_only=1",
    }
    connect = storage._connect
    for sentence, pragma in pragmas.items():

        def limited(path: Path, pragma: str = pragma) -> sqlite3.Connection:
            connection = connect(path)
            connection.execute(pragma)
            return connection

        monkeypatch.setattr(storage, "_connect", limited)
        study = opened(path)
        trial = study.ask(fixed_distributions=SPACE)
        trial.set_user_attr("reading", ["x" * 1000] * 200)
        with pytest.raises(RunError, match=f"{sentence};.*then resume"):
            study.tell(trial, [0.5, 1.0])
    assert len(plainly(path).trials) == 2


def assert_sound(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        states = connection.execute("SELECT DISTINCT state FROM trials").fetchall()
    assert {state for (state,) in states} <= {"COMPLETE", "PRUNED"}


def killed(folder: Path, sampler: str, rng: random.Random, trials: int | None) -> None:
    """Start a search and kill -9 it a moment after so many trials; None: while it starts."""
    before = len(told(folder))
    command = [sys.executable, "-m", "tests.nas.table_search", str(folder), sampler, "1000000"]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=root) as child:
        if trials is None:
            time.sleep(rng.uniform(0.3, 1.2))
        else:
            while len(told(folder)) < before + trials and child.poll() is None:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.03))
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL, "it ended before it could be killed"


def told(folder: Path) -> list[str]:
    """A line for each trial that a search has told its study of."""
    path = folder / "told"
    return path.read_text().split("\n")[:-1] if path.exists() else []


@pytest.mark.slow
def test_killed_again_and_again_it_loses_no_trial_that_was_told(tmp_path):
    path = tmp_path / "study.db"
    rng = random.Random(0)
    for round_ in range(5):
        killed(tmp_path, "plain", rng, trials=None if round_ == 2 else rng.randint(1, 30))
        there = {trial.number: trial for trial in plainly(path).trials}
        lines = [line.split() for line in told(tmp_path)]
        assert list(there) == list(range(len(there)))
        assert len(lines) <= len(there) <= len(lines) + round_ + 1  # told, but not yet noted
        for number, accuracy in lines:
            trial = there[int(number)]
            assert len(trial.params) == 42
            assert table_search.accuracy_of(trial.params) == float(accuracy)
            assert len(trial.user_attrs["reading"]["latency_samples_ms"]) == 200
            pruned = int(number) % 5 == 4
            assert trial.state == (TrialState.PRUNED if pruned else TrialState.COMPLETE)
            assert trial.values == (None if pruned else [float(accuracy), 1.5])
        assert_sound(path)
    assert len(there) > 20


@pytest.mark.slow
def test_a_killed_controller_ends_where_an_unbroken_one_does(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    rng = random.Random(1)
    for trials in (7, 22):  # with batches of 20, before and after an update
        killed(tmp_path / "killed", "ppo", rng, trials)
    trials = len(plainly(tmp_path / "killed" / "study.db").trials) + 25
    parts = table_search.search(tmp_path / "killed", "ppo", trials)
    whole = table_search.search(tmp_path / "whole", "ppo", trials)
    assert isinstance(parts.sampler, PPOSampler)
    assert parts.sampler.updates >= 2
    assert [trial.params for trial in parts.trials] == [trial.params for trial in whole.trials]
    state = Path("controller.safetensors")
    assert (tmp_path / "killed" / state).read_bytes() == (tmp_path / "whole" / state).read_bytes()
