from __future__ import annotations

import copy
import json
import math
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from pocketnas.errors import RunError, UsageError
from pocketnas.nas.ppo import PPOSettings
from pocketnas.nas.sampler import PROPOSAL, PPOSampler
from pocketnas.searchspace import load_space

SMALL = PPOSettings(batch_size=5, hidden=16, embedding=8, learning_rate=0.01)
SPACE = {f"x{i}": CategoricalDistribution(("a", "b", "c")) for i in range(6)}
OPTIMUM = dict(zip(SPACE, "abcabc", strict=True))


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def closeness(params: dict[str, str]) -> float:
    return sum(params[name] == best for name, best in OPTIMUM.items()) / len(OPTIMUM)


def reward(trial: FrozenTrial) -> float | None:
    return trial.user_attrs.get("reward")


def two_objectives(sampler: PPOSampler) -> optuna.Study:
    return optuna.create_study(sampler=sampler, directions=["maximize", "minimize"])


def evaluate(study: optuna.Study, trials: int) -> None:
    """As the search does it: ask with fixed distributions, attributes before the values.

    One trial in seven is infeasible, and one in eleven fails.
    """
    for _ in range(trials):
        trial = study.ask(fixed_distributions=SPACE)
        accuracy = closeness(trial.params)
        if trial.number % 7 == 6:
            trial.set_user_attr("reward", None)
            study.tell(trial, state=TrialState.PRUNED)
        elif trial.number % 11 == 10:
            study.tell(trial, state=TrialState.FAIL)
        else:
            trial.set_user_attr("reward", accuracy)
            study.tell(trial, [accuracy, 1.0])


def proposals(study: optuna.Study) -> list[dict[str, str]]:
    return [trial.params for trial in study.trials]


def sampler(seed: int | None = 0, settings: PPOSettings = SMALL) -> PPOSampler:
    return PPOSampler(reward=reward, seed=seed, settings=settings)


def state(of: PPOSampler, folder: Path) -> bytes:
    path = folder / "state.safetensors"
    of.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_alone_in_a_plain_study_it_finds_an_optimum_far_faster_than_random(seed):
    """One of 729: within 250 evaluations it proposes hardly anything else."""

    def objective(trial: optuna.Trial) -> float:
        params = {name: trial.suggest_categorical(name, ("a", "b", "c")) for name in SPACE}
        return closeness(params)

    study = optuna.create_study(direction="maximize", sampler=PPOSampler(seed=seed))
    study.optimize(objective, n_trials=300)
    last = [trial.value for trial in study.trials[-40:]]
    assert study.best_value == 1
    assert np.mean(last) > 0.8  # random: 0.33
    first = next(trial.number for trial in study.trials if trial.value == 1)
    assert first < 250


def test_a_minimized_objective_goes_down():
    study = optuna.create_study(direction="minimize", sampler=PPOSampler(seed=0))
    study.optimize(
        lambda trial: sum(trial.suggest_int(f"n{i}", 0, 8, step=2) for i in range(4)), n_trials=240
    )
    values = [trial.value for trial in study.trials]
    assert np.mean(values[:40]) > 13
    assert np.mean(values[-40:]) < 11  # random: 16


def test_two_objectives_need_a_reward_and_learn_from_it():
    study = two_objectives(PPOSampler(seed=0))
    with pytest.raises(UsageError, match=r"2 objectives: give PPOSampler\(reward=...\)"):
        study.ask(fixed_distributions=SPACE)
    study = two_objectives(sampler())
    evaluate(study, 150)
    rewards = [trial.user_attrs.get("reward") for trial in study.trials]
    late = [value for value in rewards[-40:] if value is not None]
    assert np.mean(late) > 0.6


def test_the_log_probabilities_of_a_proposal_are_those_of_its_tokens(tmp_path):
    mine = sampler()
    study = two_objectives(mine)
    evaluate(study, 4)
    assert PROPOSAL not in study.trials[0].system_attrs  # the space was not known yet
    for trial in study.trials[1:]:
        proposal = trial.system_attrs[PROPOSAL]
        assert [("a", "b", "c")[token] for token in proposal["tokens"]] == list(
            trial.params.values()
        )
        assert all(log_prob < 0 for log_prob in proposal["log_probs"])
    evaluate(study, 30)
    assert mine.updates >= 5
    assert mine.last_update.first_ratio == pytest.approx(1, abs=1e-5)


def test_the_same_seed_proposes_the_same_and_another_seed_does_not():
    studies = [two_objectives(sampler(seed)) for seed in (0, 0, 1)]
    for study in studies:
        evaluate(study, 40)
    first, same, other = map(proposals, studies)
    assert first == same
    assert first != other


def test_without_a_seed_two_samplers_differ():
    studies = [two_objectives(sampler(None)) for _ in range(2)]
    for study in studies:
        evaluate(study, 12)
    assert proposals(studies[0]) != proposals(studies[1])


@pytest.mark.parametrize("at", [0, 1, 3, 5, 23, 40])
def test_state_saved_and_restored_gives_the_very_same_next_proposals(at, tmp_path):
    mine, path = sampler(), tmp_path / "controller.safetensors"
    study = two_objectives(mine)
    evaluate(study, at)
    mine.save(path)
    restored = sampler()
    restored.load(path)
    assert restored.updates == mine.updates
    again = copy.deepcopy(study)
    again.sampler = restored
    evaluate(study, 30)
    evaluate(again, 30)
    assert proposals(study) == proposals(again)
    assert state(mine, tmp_path) == state(restored, tmp_path)


@pytest.mark.parametrize("told_but_not_saved", [1, 2, 17])
def test_killed_between_study_and_state_it_recovers_to_the_very_same_state(
    told_but_not_saved, tmp_path
):
    mine, path = sampler(), tmp_path / "controller.safetensors"
    study = two_objectives(mine)
    evaluate(study, 18)
    mine.save(path)
    evaluate(study, told_but_not_saved)
    behind = sampler()
    behind.load(path)
    assert state(behind, tmp_path) != state(mine, tmp_path)
    behind.recover(study)
    assert state(behind, tmp_path) == state(mine, tmp_path)
    behind.recover(study)  # a second time changes nothing
    assert state(behind, tmp_path) == state(mine, tmp_path)


def test_with_no_state_at_all_it_learns_everything_again_from_the_study(tmp_path):
    mine, anew = sampler(), sampler()
    study = two_objectives(mine)
    evaluate(study, 40)
    anew.recover(study)
    assert state(anew, tmp_path) == state(mine, tmp_path)


def test_it_recovers_from_a_study_on_the_disk(tmp_path):
    mine = sampler()
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(
        storage=storage, sampler=mine, directions=["maximize", "minimize"], study_name="s"
    )
    evaluate(study, 8)
    anew = sampler()
    anew.recover(optuna.load_study(storage=storage, study_name="s"))
    assert state(anew, tmp_path) == state(mine, tmp_path)


def test_trials_that_another_process_finished_are_learned_too(tmp_path):
    first, second = sampler(), sampler()
    study = two_objectives(first)
    evaluate(study, 12)
    study.sampler = second
    evaluate(study, 6)
    study.sampler = first
    study.tell(study.ask(fixed_distributions=SPACE), state=TrialState.FAIL)
    assert first.updates == second.updates == 3


def test_trials_running_at_once_all_count(tmp_path):
    def objective(trial: optuna.Trial) -> float:
        time.sleep(0.001 * (trial.number % 4))
        return closeness({name: trial.suggest_categorical(name, "abc") for name in SPACE})

    mine = PPOSampler(seed=0, settings=SMALL)
    study = optuna.create_study(direction="maximize", sampler=mine)
    study.optimize(objective, n_trials=50, n_jobs=4)
    assert mine.updates == 10


def test_failed_trials_and_those_without_a_reward_are_ignored():
    mine = sampler()
    study = two_objectives(mine)
    for number in range(30):
        trial = study.ask(fixed_distributions=SPACE)
        if number % 2:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, [0.5, 1.0])  # no reward attribute
    assert mine.updates == 0


def test_an_infeasible_trial_has_reward_zero():
    mine = sampler()
    study = two_objectives(mine)
    evaluate(study, 1)
    for _ in range(4):
        study.tell(study.ask(fixed_distributions=SPACE), state=TrialState.PRUNED)
    assert mine.last_update.mean_reward == pytest.approx(study.trials[0].values[0] / 5)


def test_a_pruned_trial_of_one_objective_counts_its_last_report_or_the_worst_so_far():
    mine = PPOSampler(seed=0, settings=SMALL)
    study = optuna.create_study(direction="minimize", sampler=mine)
    for value in (3.0, 7.0, 5.0):
        study.tell(study.ask(fixed_distributions=SPACE), value)
    reported = study.ask(fixed_distributions=SPACE)
    reported.report(6.0, step=1)
    study.tell(reported, state=TrialState.PRUNED)
    study.tell(study.ask(fixed_distributions=SPACE), state=TrialState.PRUNED)
    assert mine.last_update.mean_reward == pytest.approx(-(3 + 7 + 5 + 6 + 7) / 5)


def test_a_reward_that_is_not_a_number_is_refused():
    study = two_objectives(PPOSampler(reward=lambda trial: math.nan, seed=0))
    trial = study.ask(fixed_distributions=SPACE)
    with pytest.raises(UsageError, match="the reward of trial 0 is nan"):
        study.tell(trial, [0.5, 1.0])


def test_discrete_parameters_of_every_kind_are_decisions_and_continuous_ones_are_random():
    def objective(trial: optuna.Trial) -> float:
        width = trial.suggest_int("width", 8, 32, step=8)
        dropout = trial.suggest_float("dropout", 0.1, 0.7, step=0.1)
        kind = trial.suggest_categorical("kind", ["x", None, 3])
        trial.suggest_float("continuous", 0, 1)
        trial.suggest_int("too many", 0, 5000)
        trial.suggest_categorical("only one", ["z"])
        return width / 32 + dropout + (kind is None)

    mine = PPOSampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=mine)
    study.optimize(objective, n_trials=201)
    assert list(mine.infer_relative_search_space(study, study.trials[0])) == [
        "width",
        "dropout",
        "kind",
    ]
    late = study.trials[-30:]
    assert np.mean([trial.value for trial in late]) > 1.7  # random: 1.36
    assert len({trial.params["continuous"] for trial in study.trials}) == 201
    assert mine.updates == 10  # every trial could be read back as tokens


def test_a_space_with_nothing_discrete_is_searched_at_random():
    study = optuna.create_study(sampler=PPOSampler(seed=0, settings=SMALL))
    study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=12)
    assert len({trial.params["x"] for trial in study.trials}) == 12


def test_enqueued_trials_are_learned_from():
    mine = PPOSampler(seed=0, settings=SMALL)
    study = optuna.create_study(direction="maximize", sampler=mine)
    study.tell(study.ask(fixed_distributions=SPACE), 0.0)
    for _ in range(4):
        study.enqueue_trial(OPTIMUM)
        trial = study.ask(fixed_distributions=SPACE)
        assert trial.params == OPTIMUM
        study.tell(trial, 1.0)
    assert mine.updates == 1
    assert mine.last_update.mean_reward == pytest.approx(0.8)


def test_a_trial_that_lacks_a_decision_teaches_nothing():
    mine = PPOSampler(seed=0, settings=SMALL)
    study = optuna.create_study(direction="maximize", sampler=mine)
    for number in range(12):
        some = SPACE if number % 2 == 0 else dict(list(SPACE.items())[:3])
        study.tell(study.ask(fixed_distributions=some), 1.0)
    assert mine.updates == 1


def test_it_can_be_pickled_as_optunas_own_samplers_can():
    mine = sampler()
    study = two_objectives(mine)
    evaluate(study, 13)
    study.sampler = pickle.loads(pickle.dumps(mine))
    evaluate(study, 20)
    other = two_objectives(sampler())
    evaluate(other, 33)
    assert proposals(study) == proposals(other)


def test_a_proposal_of_42_decisions_is_cheap_and_stays_so():
    """About 2 ms of computing; the least of 30, for a busy machine slows all of them down."""
    space = load_space("mnasnet").distributions()
    assert len(space) == 42
    mine = PPOSampler(reward=reward, seed=0)
    study = two_objectives(mine)
    for _ in range(25):
        trial = study.ask(fixed_distributions=space)
        trial.set_user_attr("reward", 0.5)
        study.tell(trial, [0.5, 1.0])
    trial = study.ask(fixed_distributions=space)._cached_frozen_trial
    seconds = []
    for _ in range(30):
        begin = time.thread_time()
        mine.sample_relative(study, trial, {})
        seconds.append(time.thread_time() - begin)
    assert min(seconds) < 0.005


def test_a_saved_state_is_plain_safetensors(tmp_path):
    from safetensors import safe_open

    mine, path = sampler(), tmp_path / "controller.safetensors"
    evaluate(two_objectives(mine), 12)
    mine.save(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    with safe_open(path, framework="numpy") as file:
        saved = json.loads(file.metadata()["pocketnas_controller"])
        assert "controller.lstm.weight_hh_l0" in file.keys()  # noqa: SIM118
        assert "optimizer.exp_avg.head_bias" in file.keys()  # noqa: SIM118
    assert (saved["seed"], saved["updates"], len(saved["pending"])) == (0, 2, 1)


def test_a_state_that_cannot_be_read_or_is_of_another_controller_is_a_sentence(tmp_path):
    path = tmp_path / "controller.safetensors"
    with pytest.raises(RunError, match="cannot be read as a controller's state"):
        sampler().load(path)
    path.write_bytes(b"")
    with pytest.raises(RunError, match="learns its trials again from the study"):
        sampler().load(path)
    mine = sampler()
    evaluate(two_objectives(mine), 12)
    mine.save(path)
    with pytest.raises(RunError, match="seed 0, not 1"):
        sampler(seed=1).load(path)
    with pytest.raises(RunError, match=r"learning_rate 0\.01, not 0\.00035"):
        sampler(settings=PPOSettings()).load(path)
    half = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(half)
    with pytest.raises(RunError, match="cannot be read"):
        sampler().load(path)
    adopting = sampler(seed=None)
    mine.save(path)
    adopting.load(path)
    assert state(adopting, tmp_path) == state(mine, tmp_path)


def test_a_state_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    mine, path = sampler(), tmp_path / "controller.safetensors"
    mine.save(path)
    before = path.read_bytes()
    evaluate(two_objectives(mine), 7)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        mine.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_example_of_a_plain_optuna_study_runs():
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, root / "examples" / "plain_optuna.py", "25"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "on the front of accuracy and size" in done.stdout
    assert len(done.stdout.splitlines()) >= 5
