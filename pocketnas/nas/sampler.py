"""PPOSampler: the controller as an Optuna sampler."""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from pocketnas.errors import RunError, UsageError
from pocketnas.nas.learner import Learner
from pocketnas.nas.ppo import PPOSettings, Update

PROPOSAL = "ppo:proposal"
"""A trial's system attribute: the tokens drawn for it, and their log-probabilities."""

RewardOfTrial = Callable[[FrozenTrial], float | None]


class PPOSampler(BaseSampler):
    """Searches discrete spaces with an RNN controller trained by PPO.

    The controller decides on all discrete parameters (categorical, integer, and float with a
    step; at most 1,024 values) that the first completed trial had, in their order there. That
    first trial, and parameters that are continuous or came later, are drawn at random, as with
    any of Optuna's relative samplers. A trial that lacks one of the decisions (a conditional
    space) teaches nothing.

    Every `settings.batch_size` finished trials the controller learns from them. In a study with
    one objective the reward is its value (negated if it is minimized), and that of a pruned
    trial is its last reported value, or else the worst reward so far. With `reward` it is what
    that returns; a pruned trial for which that is None was infeasible, and its reward is 0.
    Failed trials, and completed ones for which `reward` returns None, are ignored.

    The proposal for a trial depends on the seed, the trial's number and the controller's weights
    only, and these on the trials finished before: an interrupted study goes on as if it had not
    been. A new sampler learns from a study's earlier trials by itself; with `save` and `load` it
    need not learn them all again.

    Args:
        reward: the reward of a finished trial; needed where there is more than one objective.
        seed: decides the first weights and all proposals; None draws one, or takes that of the
            state that is loaded.
        settings: how the controller is built and learns.
    """

    def __init__(
        self,
        *,
        reward: RewardOfTrial | None = None,
        seed: int | None = None,
        settings: PPOSettings | None = None,
    ) -> None:
        self._reward = reward
        self._given_seed = seed
        drawn = secrets.randbits(32) if seed is None else seed
        self._learner = Learner(drawn, settings or PPOSettings())
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    @property
    def updates(self) -> int:
        """How often the controller has learned."""
        return self._learner.updates

    @property
    def last_update(self) -> Update | None:
        """What the last update did; None before the first, and after `load`."""
        return self._learner.last_update

    @property
    def independent_proposals(self) -> int:
        """How many trials can be begun now, none of them another for what becomes of the rest."""
        return self._learner.proposals_before_update

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Learn what finished without this sampler: in another process, or before it was made."""
        if self._reward is None and len(study.directions) > 1:
            raise UsageError(
                f"PPOSampler needs a reward for a study with {len(study.directions)} objectives: "
                "give PPOSampler(reward=...)"
            )
        self.recover(study)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The decisions; none before the first trial is complete."""
        decisions = self._learner.decisions
        return decisions.distributions if decisions else {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Let the controller make all its decisions."""
        with self._lock:
            proposal = self._learner.propose(trial.number)
        if proposal is None:
            return {}
        study._storage.set_trial_system_attr(
            trial._trial_id,
            PROPOSAL,
            {"tokens": proposal.tokens, "log_probs": proposal.log_probs},
        )
        return proposal.params

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a parameter that is not the controller's to decide, at random."""
        entropy = (self._learner.seed, trial.number, *param_name.encode())
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        return RandomSampler(seed).sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Learn from a trial that has just finished."""
        finished = FrozenTrial(
            number=trial.number,
            state=state,
            value=None,
            values=values,
            datetime_start=trial.datetime_start,
            datetime_complete=None,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs=trial.user_attrs,
            system_attrs=trial.system_attrs,
            intermediate_values=trial.intermediate_values,
            trial_id=trial._trial_id,
        )
        with self._lock:
            self._learn(study, finished)

    def recover(self, study: Study) -> None:
        """Learn from all finished trials of the study that the controller has not seen.

        A process killed between writing the study and the controller's state loses nothing: this
        ends in the very same state as if it had not been killed. So does starting anew without
        any saved state.
        """
        with self._lock:
            trials = study.get_trials(deepcopy=False)
            if self._learner.seen.end > len(trials):
                # The study lost its last trials, as a power failure may take them: forget them.
                self._learner = Learner(self._learner.seed, self._learner.settings)
            seen = self._learner.seen
            unseen = [
                t for t in trials[seen.below :] if t.state.is_finished() and t.number not in seen
            ]
            for trial in sorted(unseen, key=_order_of_completion):
                self._learn(study, trial)

    def save(self, path: Path) -> None:
        """Write the whole state, so that `load` gives the very same next proposals.

        Raises:
            OSError: the file cannot be written; what was there before is left.
        """
        with self._lock:
            self._learner.save(path)

    def load(self, path: Path) -> None:
        """Take over a state that `save` has written.

        Raises:
            RunError: the file cannot be read, or is of a controller with another seed or other
                settings.
        """
        learner = Learner.load(path, self._learner.settings)
        if self._given_seed not in (None, learner.seed):
            raise RunError(
                f"'{path}' is of a controller with seed {learner.seed}, not {self._given_seed}"
            )
        with self._lock:
            self._learner = learner

    def _learn(self, study: Study, trial: FrozenTrial) -> None:
        reward = self._reward_of(study, trial)
        self._learner.learn(trial, reward, trial.system_attrs.get(PROPOSAL))

    def _reward_of(self, study: Study, trial: FrozenTrial) -> float | None:
        """The reward of a finished trial; None if it teaches nothing."""
        if trial.state == TrialState.FAIL:
            return None
        if self._reward is not None:
            reward = self._reward(trial)
            if reward is None:
                return 0.0 if trial.state == TrialState.PRUNED else None
            if not math.isfinite(reward):
                raise UsageError(
                    f"the reward of trial {trial.number} is {reward}: give a finite number, or "
                    "None for a trial that the controller shall not learn from"
                )
            return float(reward)
        if trial.value is not None and math.isfinite(trial.value):
            minimize = study.direction == StudyDirection.MINIMIZE
            return -trial.value if minimize else trial.value
        return self._learner.worst_reward


def _order_of_completion(trial: FrozenTrial) -> tuple[float, int]:
    """Sorts trials as they finished, which with parallel trials is not as they began."""
    completed = trial.datetime_complete
    return (completed.timestamp() if completed else 0.0, trial.number)
