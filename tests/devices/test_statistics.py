"""The interval of the median: what it covers, and what it refuses to be sure of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketnas.devices.protocol import FIRST_LOOK
from pocketnas.devices.statistics import median_interval


def rounds_with_levels(
    generator: np.random.Generator, levels: np.ndarray, samples: int = 21
) -> np.ndarray:
    """Rounds of samples that spread by 1 % around their round's level."""
    return levels[:, None] * (1 + 0.01 * generator.standard_normal((len(levels), samples)))


def levels_that_resemble(
    generator: np.random.Generator, count: int, resemblance: float
) -> np.ndarray:
    """Levels around 1 that spread by 1 %, each correlated with the one before."""
    level = generator.standard_normal()
    levels = []
    for _ in range(count):
        noise = np.sqrt(1 - resemblance**2) * generator.standard_normal()
        level = resemblance * level + noise
        levels.append(1 + 0.01 * level)
    return np.array(levels)


def covered(resemblance: float, relative_interval: float, trials: int = 400) -> float:
    """How often the interval holds the true median, with the protocol's rule of stopping."""
    generator = np.random.default_rng(1)
    hits = 0
    for _ in range(trials):
        levels = levels_that_resemble(generator, 60, resemblance)
        rounds = rounds_with_levels(generator, levels, 5)
        for count in range(FIRST_LOOK, len(rounds) + 1):
            interval = median_interval(rounds[:count])
            if interval.relative_half_width <= relative_interval:
                break
        hits += interval.low <= 1 <= interval.high
    return hits / trials


def test_the_interval_of_independent_rounds_holds_the_median_in_95_cases_of_100() -> None:
    assert covered(resemblance=0.0, relative_interval=0.01) >= 0.94


def test_rounds_that_resemble_their_neighbours_still_hold_it_in_nearly_nine_of_ten() -> None:
    assert covered(resemblance=0.5, relative_interval=0.01) >= 0.85


def test_the_interval_over_single_samples_would_have_claimed_far_too_much() -> None:
    """The control of the two tests above: 21 alike samples a round, taken for independent."""
    generator = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        levels = levels_that_resemble(generator, 20, 0.5)
        samples = np.sort(rounds_with_levels(generator, levels, 21).ravel())
        reach = 1.96 / 2 * np.sqrt(len(samples))
        low = samples[int(len(samples) / 2 - reach)]
        high = samples[int(len(samples) / 2 + reach)]
        hits += low <= 1 <= high
    assert hits / 400 < 0.7


def test_a_drift_makes_the_interval_the_whole_range_of_the_rounds() -> None:
    levels = np.linspace(1.0, 1.2, 12)
    interval = median_interval(levels[:, None] * np.ones((12, 9)))
    assert (interval.low, interval.high) == (pytest.approx(1.0), pytest.approx(1.2))
    assert interval.effective_rounds < 2


def test_a_drift_within_the_noise_of_single_samples_is_still_seen() -> None:
    generator = np.random.default_rng(3)
    interval = median_interval(rounds_with_levels(generator, np.linspace(1.0, 1.1, 14), 101))
    assert interval.relative_half_width > 0.04


def test_two_speeds_are_not_averaged_into_one_sure_number() -> None:
    """As when the clock switches between two steps."""
    levels = np.array([1.0, 1.5] * 6)
    interval = median_interval(levels[:, None] * np.ones((12, 9)))
    assert (interval.low, interval.high) == (1.0, 1.5)


def test_a_lone_disturbed_round_does_not_widen_the_interval() -> None:
    levels = np.ones(12)
    levels[4] = 3.0
    interval = median_interval(levels[:, None] * np.ones((12, 9)))
    assert (interval.low, interval.high) == (1.0, 1.0)


def test_equal_samples_have_an_interval_of_no_width() -> None:
    interval = median_interval([[2.0, 2.0]] * 6)
    assert (interval.median, interval.low, interval.high) == (2.0, 2.0, 2.0)
    assert interval.effective_rounds == 6


@given(
    st.integers(6, 20).flatmap(
        lambda count: st.integers(1, 5).flatmap(
            lambda samples: st.lists(
                st.lists(st.floats(1e-3, 1e3), min_size=samples, max_size=samples),
                min_size=count,
                max_size=count,
            )
        )
    )
)
def test_the_interval_always_holds_the_median_of_all_samples(rounds: list[list[float]]) -> None:
    interval = median_interval(rounds)
    assert interval.median == np.median(np.array(rounds))
    assert interval.low <= interval.median <= interval.high
    assert interval.low >= np.min(rounds)
    assert interval.high <= np.max(rounds)


@pytest.mark.parametrize("rounds", [[], [[1.0]] * 5, [[]] * 6])
def test_too_few_rounds_have_no_interval(rounds: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="at least 6 rounds"):
        median_interval(rounds)
