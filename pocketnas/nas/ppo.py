"""Proximal policy optimization: how the controller learns from a batch of rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pocketnas.errors import UsageError
from pocketnas.nas.controller import Controller
from pocketnas.threads import torch_threads

_WEIGHTS = "controller."


@dataclass(frozen=True)
class PPOSettings:
    """How the controller is built and learns; the defaults are the paper's.

    MnasNet (Tan et al. 2019, section 4.2) takes its controller from NASNet (Zoph et al. 2018,
    appendix A.1), which gives all of these but the clip range and the number of epochs: those
    are of the paper on PPO (Schulman et al. 2017, sections 3 and 6.1).

    Attributes:
        learning_rate: of Adam.
        entropy_weight: weight of the entropy bonus, which keeps the policy from settling early.
        baseline_decay: decay of the moving average of the batches' mean rewards.
        batch_size: finished trials an update.
        clip: probability ratios further than this from 1 give no gradient.
        epochs: gradient steps an update.
        hidden: units of the LSTM.
        embedding: length of the embeddings.
        init_range: weights begin uniform in [-init_range, init_range].

    Raises:
        UsageError: a value that cannot be.
    """

    learning_rate: float = 0.00035
    entropy_weight: float = 0.00001
    baseline_decay: float = 0.95
    batch_size: int = 20
    clip: float = 0.2
    epochs: int = 10
    hidden: int = 100
    embedding: int = 32
    init_range: float = 0.1

    def __post_init__(self) -> None:
        for name in ("learning_rate", "clip", "init_range"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be positive but got {getattr(self, name)}")
        for name in ("batch_size", "epochs", "hidden", "embedding"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1 but got {getattr(self, name)}")
        if not self.entropy_weight >= 0:
            raise UsageError(f"entropy_weight cannot be negative but got {self.entropy_weight}")
        if not 0 <= self.baseline_decay < 1:
            raise UsageError(f"baseline_decay must be in [0, 1) but got {self.baseline_decay}")


@dataclass(frozen=True)
class Experience:
    """A finished trial, as the controller sees it.

    Attributes:
        tokens: one per decision.
        reward: what it was worth.
        log_probs: of each token under the policy that drew it; None if no policy did (the first
            trial, or one that a user asked for): it then counts as drawn by the present one.
    """

    tokens: tuple[int, ...]
    reward: float
    log_probs: tuple[float, ...] | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Experience:
        """The experience of its attributes, also after a way through JSON."""
        log_probs = values["log_probs"]
        return cls(
            tokens=tuple(values["tokens"]),
            reward=values["reward"],
            log_probs=None if log_probs is None else tuple(log_probs),
        )


@dataclass(frozen=True)
class Update:
    """What an update did.

    Attributes:
        mean_reward: of the batch.
        baseline: what the batch was compared with.
        entropy: of the policy over a whole sequence, in nats, before the update.
        first_ratio: mean probability ratio at the first step: 1 unless the policy has changed
            since the batch was drawn.
        kl: estimated divergence of the new policy from that of the first step, in nats.
        clip_fraction: how many of the ratios were beyond the clip range at the last step.
    """

    mean_reward: float
    baseline: float
    entropy: float
    first_ratio: float
    kl: float
    clip_fraction: float


class PPO:
    """A controller, its optimizer and its baseline.

    Args:
        choices: how many choices each decision has.
        settings: how the controller is built and learns.
        seed: decides the controller's first weights.
    """

    def __init__(self, choices: Sequence[int], settings: PPOSettings, seed: int) -> None:
        self.settings = settings
        self.controller = Controller(
            choices,
            hidden=settings.hidden,
            embedding=settings.embedding,
            init_range=settings.init_range,
            seed=seed,
        )
        self.optimizer = torch.optim.Adam(
            self.controller.parameters(), lr=settings.learning_rate, foreach=True
        )
        self.baseline: float | None = None

    # As for `Controller.sample`: the same sums, whatever else the process does.
    @torch_threads(1)
    def update(self, batch: Sequence[Experience]) -> Update:
        """Learn from a batch of trials.

        Every decision is a step with a probability ratio of its own; all of a trial share its
        advantage, the reward less the baseline (the clipped surrogate objective of Schulman et
        al. 2017, equation 7, plus the entropy bonus of equation 9).
        """
        settings, controller = self.settings, self.controller
        tokens = torch.tensor([experience.tokens for experience in batch])
        rewards = torch.tensor([experience.reward for experience in batch], dtype=torch.float64)
        mean = rewards.mean().item()
        baseline = mean if self.baseline is None else self.baseline
        self.baseline = settings.baseline_decay * baseline + (1 - settings.baseline_decay) * mean
        advantages = (rewards - baseline).float()[:, None]

        with torch.no_grad():
            before, entropy = controller.evaluate(tokens)
        drawn = before.clone()
        for row, experience in zip(drawn, batch, strict=True):
            if experience.log_probs is not None:
                row.copy_(torch.tensor(experience.log_probs))
        for _ in range(settings.epochs):
            log_probs, entropies = controller.evaluate(tokens)
            gains, _ = _surrogate(log_probs - drawn, advantages, settings.clip)
            loss = -(gains + settings.entropy_weight * entropies).sum(1).mean()
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        with torch.no_grad():
            after, _ = controller.evaluate(tokens)
            _, beyond = _surrogate(after - drawn, advantages, settings.clip)
        return Update(
            mean_reward=mean,
            baseline=baseline,
            entropy=entropy.sum(1).mean().item(),
            first_ratio=(before - drawn).exp().mean().item(),
            kl=(before - after).sum(1).mean().item(),
            clip_fraction=beyond.float().mean().item(),
        )

    def tensors(self) -> dict[str, Tensor]:
        """The weights and the optimizer's state, by name."""
        tensors = {_WEIGHTS + name: t for name, t in self.controller.state_dict().items()}
        for name, weights in self.controller.named_parameters():
            for key, value in self.optimizer.state.get(weights, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value
        return tensors

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take over what `tensors` gave.

        Raises:
            KeyError, RuntimeError: the tensors are not those of such a controller.
        """
        self.controller.load_state_dict(
            {n.removeprefix(_WEIGHTS): t for n, t in tensors.items() if n.startswith(_WEIGHTS)}
        )
        self.optimizer.state.clear()
        for name, weights in self.controller.named_parameters():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                saved = tensors.get(f"optimizer.{key}.{name}")
                if saved is not None:
                    self.optimizer.state[weights][key] = saved.clone()


def _surrogate(log_ratios: Tensor, advantages: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """The clipped objective of each decision, and whether its ratio is beyond the clip range.

    Args:
        log_ratios: (N, decisions), log-probability now less that when the token was drawn.
        advantages: (N, 1).
        clip: half the width of the range.
    """
    ratios = log_ratios.exp()
    clipped = ratios.clamp(1 - clip, 1 + clip)
    return torch.minimum(ratios * advantages, clipped * advantages), ratios != clipped
