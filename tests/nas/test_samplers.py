from __future__ import annotations

import warnings

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from pocketnas.errors import UsageError
from pocketnas.nas import samplers
from pocketnas.nas.sampler import PPOSampler
from pocketnas.nas.samplers import SAMPLERS, make_sampler, register_sampler
from pocketnas.nas.storage import RunStorage, open_study
from pocketnas.searchspace import load_space

SPACE = load_space("mnasnet-mini")


@pytest.fixture(autouse=True)
def _quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def reward(trial: FrozenTrial) -> float | None:
    return trial.user_attrs["reward"]


def evaluate(study: optuna.Study, trials: int) -> None:
    """A search without training: a made-up accuracy, and repeats as cheap as any other trial."""
    for _ in range(trials):
        trial = study.ask(fixed_distributions=SPACE.distributions())
        tokens = SPACE.params_to_tokens(trial.params)
        accuracy = 0.5 + sum(tokens) / 100
        infeasible, failed = trial.number % 6 == 5, trial.number % 9 == 8
        trial.set_user_attr("reward", None if infeasible or failed else accuracy)
        if failed:
            study.tell(trial, state=TrialState.FAIL)
        elif infeasible:
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, [accuracy, 1.0 + tokens[0]])


def open_(path, name: str, seed: int = 0) -> optuna.Study:
    return open_study(
        path,
        directions=["maximize", "minimize"],
        sampler=make_sampler(name, seed=seed, reward=reward),
        study_name="search",
    )


def trials_for(name: str) -> int:
    """Enough to be past the random start of each; the Gaussian process is slow."""
    return {"gp": 13, "nsga2": 60, "nsga3": 60}.get(name, 30)


def test_all_of_optunas_that_fit_are_there():
    assert SAMPLERS == ("ppo", "random", "tpe", "nsga2", "nsga3", "gp")
    assert isinstance(make_sampler("ppo", seed=0, reward=reward), PPOSampler)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_searches_a_space_for_two_objectives_and_goes_on_after_a_kill(
    name, tmp_path
):
    """A second process proposes what the first would have: the trials so far decide."""
    trials = trials_for(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = open_(tmp_path / "whole.db", name)
        evaluate(whole, trials)
        for end in (trials // 3, trials - 1, trials):  # as many processes, one after the other
            parts = open_(tmp_path / "parts.db", name)
            evaluate(parts, end - len(parts.trials))
    proposed = [trial.params for trial in whole.trials]
    assert [trial.params for trial in parts.trials] == proposed
    assert len({str(params) for params in proposed}) > 0.7 * trials
    assert all(isinstance(study._storage, RunStorage) for study in (whole, parts))


@pytest.mark.parametrize("name", ["ppo", "random", "tpe"])
def test_another_seed_proposes_otherwise(name, tmp_path):
    studies = [open_(tmp_path / f"{seed}.db", name, seed) for seed in (0, 1)]
    for study in studies:
        evaluate(study, 5)
    assert studies[0].trials[0].params != studies[1].trials[0].params


def test_an_unknown_sampler_is_a_sentence_that_lists_those_there_are():
    with pytest.raises(UsageError, match="unknown sampler 'bohb': choose one of ppo, random, tpe"):
        make_sampler("bohb", seed=0, reward=reward)


@pytest.fixture
def _forgets_samplers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(samplers, "_FACTORIES", dict(samplers._FACTORIES))


@pytest.mark.usefixtures("_forgets_samplers")
def test_a_registered_sampler_is_made_once_a_trial_and_can_ask_for_rewards(tmp_path):
    made, asked = [], []

    class Asking(optuna.samplers.RandomSampler):
        def __init__(self, seed, reward):
            super().__init__(seed)
            self.reward = reward

        def before_trial(self, study, trial):
            finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            asked.append([self.reward(other) for other in finished])

    def factory(seed, reward):
        made.append(seed)
        return Asking(seed, reward)

    register_sampler("asking", factory)
    register_sampler("asking", factory)
    study = open_(tmp_path / "study.db", "asking")
    evaluate(study, 4)
    assert len(set(made)) == 4
    assert asked[3] == [trial.user_attrs["reward"] for trial in study.trials[:3]]
    with pytest.raises(UsageError, match=r"choose one of ppo, .*, asking"):
        make_sampler("bohb", seed=0, reward=reward)


@pytest.mark.parametrize("name", ["ppo", "random"])
def test_a_taken_name_of_a_sampler_is_refused(name):
    with pytest.raises(UsageError, match=f"there is a sampler '{name}' already"):
        register_sampler(name, lambda seed, reward: optuna.samplers.RandomSampler(seed))
