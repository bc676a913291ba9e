"""Optuna's distributions as decisions: a fixed sequence of names, each with its choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)
from optuna.trial import FrozenTrial

MAX_CHOICES = 1024
"""A distribution with more values than this is not a decision: a policy over it learns nothing."""


class Decisions:
    """The decisions that a controller makes, in their order.

    Attributes:
        distributions: the distribution of each decision, by its name.
        choices: how many choices each decision has.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(distributions)
        self.choices = tuple(len(_values(d)) for d in self.distributions.values())
        self._values = [_values(d) for d in self.distributions.values()]

    @classmethod
    def among(cls, distributions: Mapping[str, BaseDistribution]) -> Decisions:
        """Those of the distributions that are decisions: discrete, with 2 to 1,024 values.

        Categorical, integer and stepped float distributions are discrete. What has one value
        needs no deciding, and Optuna never asks a sampler for it.
        """
        return cls({n: d for n, d in distributions.items() if 2 <= _size(d) <= MAX_CHOICES})

    def decode(self, tokens: Sequence[int]) -> dict[str, Any]:
        """The params that the tokens (one index of a choice per decision) stand for."""
        return {
            name: values[token]
            for name, values, token in zip(self.distributions, self._values, tokens, strict=True)
        }

    def encode(self, trial: FrozenTrial) -> list[int] | None:
        """The tokens of a trial, or None if it lacks a decision or has another choice there."""
        tokens = []
        for name, distribution in self.distributions.items():
            token = _token(distribution, trial.params[name]) if name in trial.params else None
            if token is None:
                return None
            tokens.append(token)
        return tokens

    def to_json(self) -> list[list[str]]:
        """Pairs of name and distribution, in a form that JSON keeps."""
        return [[name, distribution_to_json(d)] for name, d in self.distributions.items()]

    @classmethod
    def from_json(cls, pairs: Sequence[Sequence[str]]) -> Decisions:
        """The decisions of `to_json`."""
        return cls({name: json_to_distribution(text) for name, text in pairs})


def _size(distribution: BaseDistribution) -> int:
    """How many values a distribution has; 0 if it is continuous."""
    match distribution:
        case CategoricalDistribution():
            return len(distribution.choices)
        case IntDistribution():
            return (distribution.high - distribution.low) // distribution.step + 1
        case FloatDistribution(step=float(step)):
            return round((distribution.high - distribution.low) / step) + 1
    return 0


def _values(distribution: BaseDistribution) -> list[Any]:
    """All values of a discrete distribution, as trials have them in their params."""
    match distribution:
        case CategoricalDistribution():
            return list(distribution.choices)
        case IntDistribution(low=low, step=step):
            return [low + step * i for i in range(_size(distribution))]
        case FloatDistribution(low=lowest, step=float(width)):
            return [lowest + width * i for i in range(_size(distribution))]
    raise ValueError(f"{distribution} is not discrete")


def _token(distribution: BaseDistribution, value: Any) -> int | None:
    """Which of a discrete distribution's values this is; None if it is none of them."""
    match distribution:
        case CategoricalDistribution():
            try:
                return int(distribution.to_internal_repr(value))
            except ValueError:
                return None
        case IntDistribution(low=low, step=step) | FloatDistribution(low=low, step=float(step)):
            steps = (value - low) / step
            token = round(steps)
            # A stepped float is on its grid up to rounding.
            on_grid = abs(steps - token) < 1e-6 and 0 <= token < _size(distribution)
            return token if on_grid else None
    raise ValueError(f"{distribution} is not discrete")
