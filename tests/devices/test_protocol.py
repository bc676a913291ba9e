"""The measuring protocol on sample sequences whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pocketnas.devices.host import size_round
from pocketnas.devices.protocol import FIRST_LOOK, Round, Settled, settle
from pocketnas.errors import DeviceError


class FakeMachine:
    """Rounds from a formula, on a clock that only they move."""

    def __init__(
        self,
        level: Callable[[int], float],
        seconds: float = 0.1,
        interrupted: Callable[[int], float | None] = lambda turn: 0.0,
    ) -> None:
        self.level = level
        self.seconds = seconds
        self.interrupted = interrupted
        self.turn = 0
        self.now = 100.0
        self.generator = np.random.default_rng(0)

    def run_round(self) -> Round:
        noise = 1 + 0.002 * self.generator.standard_normal(25)
        samples = tuple(float(value) for value in self.level(self.turn) * noise)
        one = Round(samples, self.interrupted(self.turn))
        self.turn += 1
        self.now += self.seconds
        return one

    def settle(self, limit_s: float = 10.0) -> Settled:
        return settle(
            self.run_round,
            model="model.tflite",
            relative_interval=0.02,
            limit_s=limit_s,
            clock=lambda: self.now,
        )


def test_a_steady_model_settles_at_the_first_look() -> None:
    machine = FakeMachine(lambda turn: 0.5)
    settled = machine.settle()
    assert settled.complaint is None
    assert machine.turn == FIRST_LOOK
    assert settled.interval.median == pytest.approx(0.5, rel=0.002)
    assert len(settled.samples_ms) == FIRST_LOOK * 25
    assert settled.samples_per_round == 25


def test_a_disturbed_start_takes_more_rounds_and_settles() -> None:
    machine = FakeMachine(lambda turn: 0.8 if turn < 4 else 0.5)
    settled = machine.settle()
    assert settled.complaint is None
    assert machine.turn > FIRST_LOOK
    assert settled.interval.median == pytest.approx(0.5, rel=0.005)


def test_a_model_that_grows_slower_is_never_called_stable() -> None:
    machine = FakeMachine(lambda turn: 0.5 * 1.02**turn)
    settled = machine.settle()
    assert settled.complaint is not None
    assert "wider than +-2 %" in settled.complaint
    assert machine.now <= 110.0


def test_a_model_of_two_speeds_is_never_called_stable() -> None:
    settled = FakeMachine(lambda turn: 0.5 if (turn // 3) % 2 else 0.7).settle()
    assert settled.complaint is not None


def test_a_narrow_interval_on_a_shared_core_is_not_stable_and_wastes_no_time() -> None:
    """Time slices double every inference alike: the interval is narrow, and wrong."""
    machine = FakeMachine(lambda turn: 1.0, interrupted=lambda turn: 0.9)
    settled = machine.settle()
    assert settled.complaint == "other work interrupted 90 % of the inferences on its core"
    assert machine.turn == FIRST_LOOK


def test_a_few_interrupted_inferences_do_not_matter_to_the_median() -> None:
    settled = FakeMachine(lambda turn: 1.0, interrupted=lambda turn: 0.04 * (turn % 3)).settle()
    assert settled.complaint is None
    assert settled.interrupted == pytest.approx(0.04 * 9 / 10)


def test_unknown_interruptions_stay_unknown() -> None:
    settled = FakeMachine(lambda turn: 1.0, interrupted=lambda turn: None).settle()
    assert settled.interrupted is None
    assert settled.complaint is None


def test_a_slow_model_takes_what_rounds_the_limit_allows() -> None:
    machine = FakeMachine(lambda turn: 1200.0, seconds=1.2)
    settled = machine.settle(limit_s=10.0)
    assert machine.turn == 8
    assert machine.now <= 110.0
    assert settled.interval.median == pytest.approx(1200, rel=0.005)


def test_a_model_too_slow_for_the_limit_is_an_error_that_says_so() -> None:
    with pytest.raises(DeviceError, match=r"'model.tflite' is too slow to time within 10 s"):
        FakeMachine(lambda turn: 3000.0, seconds=3.0).settle(limit_s=10.0)


@pytest.mark.parametrize("inference_ms", [0.004, 0.1, 0.99, 1.5, 15.0, 50.0, 99.0, 400.0])
def test_rounds_take_a_tenth_of_a_second_but_at_least_one_inference(inference_ms: float) -> None:
    samples, every = size_round(inference_ms)
    assert 1 <= samples <= 100
    assert samples * every * inference_ms <= max(100.0, inference_ms)
    assert samples * every * inference_ms > 40.0
    assert every == 1 or samples == 100
