"""The measuring protocol, whatever the device: rounds until the interval is narrow, or a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pocketnas.devices.statistics import LEAST_ROUNDS, MedianInterval, median_interval
from pocketnas.errors import DeviceError

# Ten rounds before the first look: enough for a drift to show, and a second at 0.1 s each.
FIRST_LOOK = 10
# With a quarter of the samples prolonged by other work, the median is still the 67th percentile
# of the undisturbed ones; beyond that it tells more of the other work than of the model.
MOST_INTERRUPTED = 0.25


@dataclass(frozen=True)
class Round:
    """Some inferences timed close together.

    Attributes:
        samples_ms: one time an inference.
        interrupted: the fraction of them during which the core did other work; None: not known.
    """

    samples_ms: tuple[float, ...]
    interrupted: float | None = None


@dataclass(frozen=True)
class Settled:
    """What the rounds of one attempt came to.

    Attributes:
        interval: the median in ms, with its interval.
        samples_ms: of all rounds, in order.
        interrupted: as in `Round`, over all rounds.
        complaint: why this is not a stable reading; None where it is one.
    """

    interval: MedianInterval
    samples_ms: tuple[float, ...]
    samples_per_round: int
    interrupted: float | None
    complaint: str | None


def settle(
    run_round: Callable[[], Round],
    *,
    model: str,
    relative_interval: float,
    limit_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Settled:
    """Run rounds until the interval of the median is narrow enough, or the time is up.

    Looking again after every round stops somewhat too soon, as every sequential rule does: with
    independent rounds the interval still holds the median in 95 % of cases, with rounds that
    resemble their neighbours (correlation 0.5) in 90 % (`tests/devices/test_statistics.py`).

    Args:
        run_round: times one round; all rounds are of one length.
        model: what is being timed, for messages.
        relative_interval: half the interval's width, as a fraction of the median, to reach.
        limit_s: seconds for all rounds together.
        clock: seconds that only grow.

    Raises:
        DeviceError: the time was up before there were enough rounds for an interval.
    """
    rounds: list[Round] = []
    started = clock()
    while True:
        began = clock()
        rounds.append(run_round())
        now = clock()
        time_is_up = now - started + (now - began) > limit_s
        if len(rounds) >= FIRST_LOOK or (time_is_up and len(rounds) >= LEAST_ROUNDS):
            settled = _judge(rounds, relative_interval)
            narrow = settled.interval.relative_half_width <= relative_interval
            # A narrow interval on a shared core will not improve here: give the core up at once.
            if narrow or time_is_up:
                return settled
        if time_is_up:
            raise DeviceError(
                f"'{model}' is too slow to time within {limit_s:.3g} s: {len(rounds)} rounds of "
                f"{len(rounds[0].samples_ms)} inferences took {now - started:.3g} s, and an "
                f"interval needs {LEAST_ROUNDS}; allow more time for it"
            )


def _judge(rounds: list[Round], relative_interval: float) -> Settled:
    """The statistics of the rounds so far, and what speaks against them."""
    interval = median_interval([one.samples_ms for one in rounds])
    shares = [one.interrupted for one in rounds if one.interrupted is not None]
    interrupted = sum(shares) / len(shares) if shares else None
    complaint = None
    if interval.relative_half_width > relative_interval:
        complaint = (
            f"the interval stayed at +-{100 * interval.relative_half_width:.2g} %, "
            f"wider than +-{100 * relative_interval:.2g} %"
        )
    elif interrupted is not None and interrupted > MOST_INTERRUPTED:
        complaint = (
            f"other work interrupted {100 * interrupted:.0f} % of the inferences on its core"
        )
    return Settled(
        interval=interval,
        samples_ms=tuple(sample for one in rounds for sample in one.samples_ms),
        samples_per_round=len(rounds[0].samples_ms),
        interrupted=interrupted,
        complaint=complaint,
    )
