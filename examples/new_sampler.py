"""A sampler of your own: regularized evolution, in one file.

    python examples/new_sampler.py [TRIALS]

Real et al. 2019, section 3: the parent is the best of a few that are drawn from the newest
trials, and its child differs in one decision. Registered by a name, it takes part in a search as
`SearchConfig(sampler="evolution", ...)`. To build it into PocketNAS, the class would move to a
file in `pocketnas/nas/`, and the factory to a line of `_FACTORIES` in `pocketnas/nas/samplers.py`.

A sampler is made anew for every trial, with a seed of its own, and takes all it knows from the
study: this is how an interrupted search goes on as if nothing had happened.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from pocketnas.nas.sampler import RewardOfTrial
from pocketnas.nas.samplers import make_sampler, register_sampler
from pocketnas.searchspace import count, load_space


class RegularizedEvolution(BaseSampler):
    """Mutates a good one of the newest trials."""

    def __init__(
        self, seed: int, reward: RewardOfTrial, population: int = 30, contenders: int = 8
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.reward = reward
        self.population = population
        self.contenders = contenders
        self.parent: dict[str, Any] = {}
        self.mutated = ""

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose a parent, and the decision in which its child will differ."""
        finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        newest = [t for t in finished if self.reward(t) is not None][-self.population :]
        if len(newest) == self.population:
            drawn = self.rng.choice(self.population, self.contenders, replace=False)
            self.parent = max((newest[i] for i in drawn), key=self.reward).params
            self.mutated = str(self.rng.choice(sorted(self.parent)))

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """None: every decision is made by itself."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing, therefore."""
        return {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The parent's choice, or another where the child differs; any without a parent."""
        assert isinstance(param_distribution, CategoricalDistribution)
        choices = param_distribution.choices
        if param_name in self.parent:
            inherited = self.parent[param_name]
            others = [choice for choice in choices if choice != inherited]
            if param_name != self.mutated or not others:
                return inherited
            choices = tuple(others)
        return choices[self.rng.integers(len(choices))]


register_sampler("evolution", RegularizedEvolution)


def most_madds(sampler: str, trials: int, limit_bytes: int = 100_000) -> int:
    """The most MAdds that a sampler finds in `mnasnet-mini` within a limit on memory.

    Counting stands for training here, so that the example ends in seconds.
    """
    space = load_space("mnasnet-mini")
    study = optuna.create_study(
        direction="maximize",
        sampler=make_sampler(sampler, seed=0, reward=lambda trial: trial.value),
    )
    for _ in range(trials):
        trial = study.ask(space.distributions())
        cost = count(space.decode(space.params_to_tokens(trial.params)), (28, 28, 1), 10)
        if cost.peak_activation_bytes > limit_bytes:
            study.tell(trial, state=TrialState.PRUNED)  # infeasible
        else:
            study.tell(trial, cost.madds)
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return max((int(trial.value) for trial in finished), default=0)


def main(trials: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for sampler in ("random", "evolution"):
        print(f"{sampler}: {most_madds(sampler, trials):,} MAdds after {trials} trials")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
