"""What can propose candidates: our controller, and Optuna's samplers in its place.

A new sampler is one file, and one line in `_FACTORIES`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from optuna import samplers
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from pocketnas.errors import UsageError
from pocketnas.nas.sampler import PPOSampler, RewardOfTrial

Factory = Callable[[int, RewardOfTrial], BaseSampler]
"""Makes a sampler for a seed and for what a finished trial is worth."""

# Optuna's other samplers cannot search categorical decisions for two objectives without end:
# CmaEs and QMC want numbers, Grid wants the whole grid, BruteForce stops when it has seen all.
_FACTORIES: dict[str, Factory] = {
    "random": lambda seed, reward: samplers.RandomSampler(seed),
    "tpe": lambda seed, reward: samplers.TPESampler(seed=seed),
    "nsga2": lambda seed, reward: samplers.NSGAIISampler(seed=seed),
    "nsga3": lambda seed, reward: samplers.NSGAIIISampler(seed=seed),
    "gp": lambda seed, reward: samplers.GPSampler(seed=seed),
}

SAMPLERS = ("ppo", *_FACTORIES)
"""The names that `make_sampler` knows without any being registered."""


def register_sampler(name: str, factory: Factory) -> None:
    """Let `make_sampler`, and so a search in this process, know a sampler by a name.

    Args:
        name: for `SearchConfig.sampler`.
        factory: makes the sampler. It is called once a trial (see `ReplayableSampler`), so the
            sampler must take all it knows from the study that it is shown.

    Raises:
        UsageError: another sampler has the name.
    """
    if name == "ppo" or _FACTORIES.get(name, factory) is not factory:
        raise UsageError(f"there is a sampler '{name}' already: choose another name")
    _FACTORIES[name] = factory


def make_sampler(name: str, *, seed: int, reward: RewardOfTrial) -> BaseSampler:
    """The sampler of that name, one of `SAMPLERS` or a registered one.

    Args:
        name: `ppo` for the controller, one of Optuna's, or a registered one.
        seed: decides all proposals, together with the trials finished before.
        reward: what a finished trial is worth; Optuna's samplers do not ask, but see the study's
            objectives themselves.

    Raises:
        UsageError: there is no sampler of that name.
    """
    if name == "ppo":
        return PPOSampler(reward=reward, seed=seed)
    if name not in _FACTORIES:
        known = ", ".join(("ppo", *_FACTORIES))
        raise UsageError(f"unknown sampler '{name}': choose one of {known}")
    factory = _FACTORIES[name]
    return ReplayableSampler(lambda trial_seed: factory(trial_seed, reward), seed)


def independent_proposals(sampler: BaseSampler) -> int:
    """How many trials a sampler can begin now, none of them another for what becomes of the rest.

    At least 1. More are known of the controller, within a batch; other samplers take into account
    each trial that has ended.
    """
    return sampler.independent_proposals if isinstance(sampler, PPOSampler) else 1


class ReplayableSampler(BaseSampler):
    """Another sampler, made to go on after an interruption as if there had been none.

    Optuna's samplers draw from one stream of random numbers, which begins anew in a new process:
    a resumed random search would propose its first candidates again. All else they take from
    the study. So here every trial gets a fresh sampler, with a seed that its number decides.

    Args:
        factory: makes the sampler for a seed.
        seed: decides all proposals, together with the study's trials.
    """

    def __init__(self, factory: Callable[[int], BaseSampler], seed: int) -> None:
        self._factory = factory
        self._seed = seed
        self._samplers: dict[int, BaseSampler] = {}

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Make the trial's sampler."""
        self._of(trial).before_trial(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """What the trial's sampler decides on jointly."""
        return self._of(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """What the trial's sampler proposes jointly."""
        return self._of(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """What the trial's sampler proposes for one parameter."""
        return self._of(trial).sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Let the trial's sampler go."""
        self._of(trial).after_trial(study, trial, state, values)
        del self._samplers[trial.number]

    def _of(self, trial: FrozenTrial) -> BaseSampler:
        """The trial's sampler; made here if it was begun by another process."""
        if trial.number not in self._samplers:
            seed = np.random.SeedSequence((self._seed, trial.number)).generate_state(1)[0]
            with warnings.catch_warnings():
                # That a sampler is experimental need not be said again for every trial.
                warnings.simplefilter("ignore", ExperimentalWarning)
                self._samplers[trial.number] = self._factory(int(seed))
        return self._samplers[trial.number]
