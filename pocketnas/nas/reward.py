"""The reward: one number for how accurate and how fast a candidate is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pocketnas.errors import DeviceError, UsageError


@dataclass(frozen=True)
class Reward:
    """accuracy x (latency / target)^w (Tan et al. 2019, "MnasNet", section 3, equation 2).

    w is `alpha` for a latency up to the target and `beta` above it. With equal exponents
    (`soft`) speed is worth something everywhere, and one search spreads along the front around
    the target: -0.07 says that twice the latency must bring about 5 % more accuracy. With
    alpha 0 and beta -1 (`hard`) the target is a constraint.

    Attributes:
        target_ms: the target latency T in ms.
        alpha: the exponent w where latency <= T; zero or negative.
        beta: the exponent w where latency > T; zero or negative.

    Raises:
        UsageError: the target is not a positive number, or an exponent not zero or negative.
    """

    target_ms: float
    alpha: float = -0.07
    beta: float = -0.07

    def __post_init__(self) -> None:
        if not (math.isfinite(self.target_ms) and self.target_ms > 0):
            raise UsageError(
                f"the target latency must be a positive number of ms but got {self.target_ms}"
            )
        for name, exponent in (("alpha", self.alpha), ("beta", self.beta)):
            if not (math.isfinite(exponent) and exponent <= 0):
                raise UsageError(f"{name} must be zero or negative but got {exponent}")

    @classmethod
    def soft(cls, target_ms: float) -> Reward:
        """The paper's soft form: alpha = beta = -0.07."""
        return cls(target_ms, alpha=-0.07, beta=-0.07)

    @classmethod
    def hard(cls, target_ms: float) -> Reward:
        """The paper's hard form: alpha = 0, beta = -1."""
        return cls(target_ms, alpha=0.0, beta=-1.0)

    def __call__(self, accuracy: float, latency_ms: float) -> float:
        """The reward of a candidate.

        Args:
            accuracy: a fraction, 0 to 1.
            latency_ms: the median latency of its reading in ms.

        Raises:
            UsageError: the accuracy is not a fraction, or the reward is beyond all numbers.
            DeviceError: the latency is zero, negative, infinite or NaN: no reading gives that.
        """
        if not 0 <= accuracy <= 1:
            raise UsageError(f"an accuracy is a fraction from 0 to 1 but got {accuracy}")
        if not (math.isfinite(latency_ms) and latency_ms > 0):
            raise DeviceError(
                f"a latency is a positive number of ms but got {latency_ms}: it was not measured"
            )
        exponent = self.alpha if latency_ms <= self.target_ms else self.beta
        try:
            factor = math.exp(exponent * (math.log(latency_ms) - math.log(self.target_ms)))
        except OverflowError:
            raise UsageError(
                f"no number is large enough for the reward of {latency_ms} ms at a target of "
                f"{self.target_ms} ms with an exponent of {exponent}: choose a gentler one"
            ) from None
        return accuracy * factor

    def upper_bound(self, latency_ms: float) -> float:
        """The reward that a perfect accuracy would have at this latency in ms."""
        return self(1.0, latency_ms)

    def is_hopeless(self, latency_ms: float, best_reward: float | None) -> bool:
        """Whether training such a candidate can be spared: it breaks a constraint beyond repair.

        That takes a target which is a constraint (a latency above it costs more than one below
        it gains: beta < alpha). Under the soft form nothing is hopeless: a slow and accurate
        network may belong to the front without having the best reward.

        Args:
            latency_ms: the candidate's latency in ms.
            best_reward: the best reward of the study so far; None while there is none.
        """
        return (
            best_reward is not None
            and self.beta < self.alpha
            and latency_ms > self.target_ms
            and self.upper_bound(latency_ms) <= best_reward
        )
