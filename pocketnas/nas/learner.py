"""The learner: all that a controller knows of a search, and its state as a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from optuna.trial import FrozenTrial, TrialState

from pocketnas.errors import RunError
from pocketnas.files import write_atomic
from pocketnas.nas.decisions import Decisions
from pocketnas.nas.ppo import PPO, Experience, PPOSettings, Update

_METADATA = "pocketnas_controller"
_FORMAT = 1
_ADVICE = "without the file the controller learns its trials again from the study"


@dataclass(frozen=True)
class Proposal:
    """What the controller would have a trial be.

    Attributes:
        params: the choice of each decision.
        tokens: the same as indices.
        log_probs: the log-probability of each token under the policy that drew it.
    """

    params: dict[str, Any]
    tokens: list[int]
    log_probs: list[float]


class Learner:
    """A controller from its first trial on: what it decides on, and what it has learned.

    Its state depends on the seed and the trials it has seen only, in their order.

    Args:
        seed: decides the first weights and all proposals.
        settings: how the controller is built and learns.

    Attributes:
        decisions: what it decides on: the discrete parameters of the first completed trial;
            None before that.
        updates: how often it has learned.
        last_update: what the last of these did; None before the first, and after `load`.
        worst_reward: the lowest so far.
    """

    def __init__(self, seed: int, settings: PPOSettings) -> None:
        self.seed = seed
        self.settings = settings
        self.decisions: Decisions | None = None
        self.updates = 0
        self.last_update: Update | None = None
        self.worst_reward: float | None = None
        self.seen = SeenTrials()
        self._ppo: PPO | None = None
        self._pending: list[Experience] = []

    @property
    def proposals_before_update(self) -> int:
        """How many trials may be proposed before one of them can lead to an update."""
        if self.decisions is None:
            return 1
        return self.settings.batch_size - len(self._pending)

    def propose(self, number: int) -> Proposal | None:
        """The proposal for the trial of that number; None where there is nothing to decide."""
        if self.decisions is None or self._ppo is None:
            return None
        rng = np.random.default_rng((self.seed, number))
        uniforms = torch.from_numpy(rng.random((1, len(self.decisions.choices))))
        tokens, log_probs = self._ppo.controller.sample(uniforms)
        drawn: list[int] = tokens[0].tolist()
        return Proposal(self.decisions.decode(drawn), drawn, log_probs[0].tolist())

    def learn(
        self, trial: FrozenTrial, reward: float | None, proposal: dict[str, Any] | None
    ) -> None:
        """Take in a finished trial, and update the controller when a batch is full.

        Args:
            trial: any finished trial; one seen before is passed over.
            reward: what it was worth; None if it teaches nothing.
            proposal: tokens and log_probs of the trial's `Proposal`; None if it had none.
        """
        if trial.number in self.seen:
            return
        self.seen.add(trial.number)
        if self.decisions is None and trial.state == TrialState.COMPLETE:
            self._decide_on(Decisions.among(trial.distributions))
        if reward is None or self.decisions is None or self._ppo is None:
            return
        tokens = self.decisions.encode(trial)
        if tokens is None:
            return
        # A trial that a user enqueued may differ from what was proposed for it.
        as_proposed = proposal is not None and proposal["tokens"] == tokens
        log_probs = tuple(proposal["log_probs"]) if proposal and as_proposed else None
        self._pending.append(Experience(tuple(tokens), reward, log_probs))
        worst = self.worst_reward
        self.worst_reward = reward if worst is None else min(worst, reward)
        if len(self._pending) >= self.settings.batch_size:
            self.last_update = self._ppo.update(self._pending)
            self.updates += 1
            self._pending = []

    def _decide_on(self, decisions: Decisions) -> None:
        """Make the controller for these decisions; there is none where nothing is discrete."""
        self.decisions = decisions
        if decisions.choices:
            self._ppo = PPO(decisions.choices, self.settings, self.seed)

    def save(self, path: Path) -> None:
        """Write the whole state, so that a loaded learner goes on in the very same way.

        The file is in safetensors' format: the weights and the optimizer's moments, and as
        metadata the seed, the settings, the baseline, the pending batch and which trials have
        been seen.

        Raises:
            OSError: the file cannot be written; what was there before is left.
        """
        state = {
            "format": _FORMAT,
            "seed": self.seed,
            "settings": asdict(self.settings),
            "decisions": self.decisions.to_json() if self.decisions else None,
            "updates": self.updates,
            "baseline": self._ppo.baseline if self._ppo else None,
            "worst_reward": self.worst_reward,
            "pending": [vars(experience) for experience in self._pending],
            "seen_below": self.seen.below,
            "seen_others": sorted(self.seen.others),
        }
        tensors = self._ppo.tensors() if self._ppo else {}
        # One entry only: the order of several would differ from one file to the next.
        metadata = {_METADATA: json.dumps(state)}
        write_atomic(path, safetensors.torch.save(tensors, metadata))

    @classmethod
    def load(cls, path: Path, settings: PPOSettings) -> Learner:
        """The learner that `save` has written.

        Raises:
            RunError: the file cannot be read, or is of a learner with other settings.
        """
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, safetensors.SafetensorError) as error:
            raise RunError(
                f"'{path}' cannot be read as a controller's state: {error}; {_ADVICE}"
            ) from error
        try:
            return cls._from_state(
                path, json.loads(metadata.get(_METADATA, "{}")), tensors, settings
            )
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise RunError(
                f"'{path}' is damaged: {str(error).splitlines()[0]}; {_ADVICE}"
            ) from error

    @classmethod
    def _from_state(
        cls, path: Path, state: Any, tensors: dict[str, torch.Tensor], settings: PPOSettings
    ) -> Learner:
        """The learner of a file's metadata and tensors, which may be anything.

        Raises:
            RunError: it is of something else, or of a learner with other settings.
            KeyError, TypeError, ValueError, RuntimeError, AttributeError: it is damaged.
        """
        if state.get("format") != _FORMAT:
            raise RunError(f"'{path}' is not the state of a controller; {_ADVICE}")
        for name, value in asdict(settings).items():
            saved = state["settings"].get(name)
            if saved != value:
                raise RunError(
                    f"'{path}' is of a controller with {name} {saved}, not {value}; {_ADVICE}"
                )
        learner = cls(state["seed"], settings)
        if state["decisions"] is not None:
            learner._decide_on(Decisions.from_json(state["decisions"]))
        if learner._ppo is not None:
            learner._ppo.load_tensors(tensors)
            learner._ppo.baseline = state["baseline"]
        learner.updates = state["updates"]
        learner.worst_reward = state["worst_reward"]
        learner._pending = [Experience.from_dict(pending) for pending in state["pending"]]
        learner.seen = SeenTrials(state["seen_below"], set(state["seen_others"]))
        return learner


class SeenTrials:
    """A set of trial numbers that stays small while they come nearly in order.

    Args:
        below: all numbers less than this are in the set.
        others: and so are these.
    """

    def __init__(self, below: int = 0, others: set[int] | None = None) -> None:
        self.below = below
        self.others = others or set()

    def __contains__(self, number: int) -> bool:
        return number < self.below or number in self.others

    @property
    def end(self) -> int:
        """One more than the largest number in the set; 0 if it is empty."""
        return max(self.others, default=self.below - 1) + 1

    def add(self, number: int) -> None:
        """Add a number."""
        self.others.add(number)
        while self.below in self.others:
            self.others.remove(self.below)
            self.below += 1
