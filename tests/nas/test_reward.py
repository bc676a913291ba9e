from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketnas.errors import DeviceError, UsageError
from pocketnas.nas.reward import Reward

latencies = st.floats(1e-3, 1e5)
accuracies = st.floats(0, 1)


def test_at_the_target_the_reward_is_the_accuracy():
    for reward in (Reward.soft(75.0), Reward.hard(75.0)):
        assert reward(0.75, 75.0) == 0.75


def test_soft_doubling_the_latency_is_worth_about_five_percent_of_accuracy():
    reward = Reward.soft(75.0)
    assert reward(0.75, 150.0) == pytest.approx(0.75 * 2**-0.07)
    assert reward(0.75 * 1.05, 150.0) == pytest.approx(reward(0.75, 75.0), rel=2e-3)
    assert reward(0.75, 37.5) == pytest.approx(0.75 * 2**0.07)


def test_hard_gives_nothing_for_speed_below_the_target_and_punishes_above():
    reward = Reward.hard(10.0)
    assert reward(0.8, 1.0) == 0.8
    assert reward(0.8, 20.0) == pytest.approx(0.4)


def test_exponents_can_be_chosen():
    reward = Reward(10.0, alpha=-0.02, beta=-0.5)
    assert reward(0.8, 5.0) == pytest.approx(0.8 * 0.5**-0.02)
    assert reward(0.8, 40.0) == pytest.approx(0.4)


@given(accuracies, accuracies, latencies, latencies)
def test_more_accurate_and_faster_is_never_worth_less(accuracy, other, latency, slower):
    for reward in (Reward.soft(3.0), Reward.hard(3.0)):
        low, high = sorted((accuracy, other))
        fast, slow = sorted((latency, slower))
        assert reward(low, slow) <= reward(high, fast)
        assert reward(accuracy, latency) <= reward.upper_bound(latency)


@pytest.mark.parametrize("latency_ms", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_latency_that_was_not_measured_is_refused(latency_ms):
    reward = Reward.soft(75.0)
    with pytest.raises(DeviceError, match=f"got {latency_ms}"):
        reward(0.5, latency_ms)
    with pytest.raises(DeviceError):
        reward.upper_bound(latency_ms)


@pytest.mark.parametrize("target_ms", [0.0, -75.0, math.nan, math.inf])
def test_an_impossible_target_is_refused(target_ms):
    with pytest.raises(UsageError, match="target latency"):
        Reward.soft(target_ms)


@pytest.mark.parametrize("accuracy", [-0.1, 1.1, 97.0, math.nan])
def test_an_accuracy_that_is_not_a_fraction_is_refused(accuracy):
    with pytest.raises(UsageError, match="fraction"):
        Reward.soft(75.0)(accuracy, 75.0)


@pytest.mark.parametrize("exponents", [{"alpha": 0.1}, {"beta": 1.0}, {"beta": math.nan}])
def test_an_exponent_that_would_reward_slowness_is_refused(exponents):
    with pytest.raises(UsageError, match=next(iter(exponents))):
        Reward(75.0, **exponents)


def test_hopeless_is_what_breaks_a_constraint_beyond_repair():
    hard = Reward.hard(10.0)
    assert hard.is_hopeless(20.0, best_reward=0.6)  # at best 0.5
    assert not hard.is_hopeless(20.0, best_reward=0.4)
    assert not hard.is_hopeless(20.0, best_reward=None)
    assert not hard.is_hopeless(9.0, best_reward=0.9)


def test_under_the_soft_reward_no_latency_is_hopeless_for_it_may_be_on_the_front():
    assert not Reward.soft(10.0).is_hopeless(1e4, best_reward=0.99)


def test_a_reward_beyond_all_numbers_is_refused_with_its_exponent():
    reward = Reward(1e300, alpha=-300.0)
    with pytest.raises(UsageError, match=r"no number is large enough .* exponent of -300\.0"):
        reward(0.5, 1.0)
