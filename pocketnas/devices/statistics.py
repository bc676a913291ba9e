"""The median of a latency with a 95 % interval that does not believe its samples independent.

Consecutive inferences resemble each other: a clock that drops or a neighbour that wakes moves
hundreds of them at once, and an interval over single samples would shrink all the same. So samples
come in rounds that lie apart in time, and the interval is taken over the medians of the rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Below six rounds not even the whole range covers the median with 95 % (2 x 0.5^6 = 3.1 %).
LEAST_ROUNDS = 6
_Z_95 = 1.959964


@dataclass(frozen=True)
class MedianInterval:
    """A median with its 95 % interval.

    Attributes:
        median: of all samples, in their unit.
        low, high: the ends of the interval; it always holds the median.
        effective_rounds: how many independent rounds the rounds are worth.
    """

    median: float
    low: float
    high: float
    effective_rounds: float

    @property
    def relative_half_width(self) -> float:
        """Half the interval's width as a fraction of the median."""
        return (self.high - self.low) / 2 / self.median


def median_interval(rounds: Sequence[Sequence[float]]) -> MedianInterval:
    """The median of all samples, and its interval from the medians of the rounds.

    The ends are order statistics of the round medians: the binomial interval of a median, which
    assumes no distribution (Conover, Practical Nonparametric Statistics, section 3.2). Where
    neighbouring rounds resemble each other the count of rounds is first reduced to
    n (1 - r) / (1 + r), r being their lag-one rank autocorrelation, corrected for its bias in
    short series (Kendall 1954; Marriott and Pope 1954). Rounds that drift are then worth little
    more than one, and the interval is their whole range.

    Args:
        rounds: at least six rounds of samples, all of one length, in the order of measurement.

    Raises:
        ValueError: fewer rounds than six, or rounds of unlike or no length.
    """
    table: NDArray[np.float64] = np.array(rounds, dtype=np.float64)
    if table.ndim != 2 or len(table) < LEAST_ROUNDS or table.shape[1] == 0:
        raise ValueError(
            f"a 95 % interval needs at least {LEAST_ROUNDS} rounds of equal length but got "
            f"{[len(samples) for samples in rounds]} samples"
        )
    median = float(np.median(table))
    medians = np.median(table, axis=1)
    count = len(medians)
    resemblance = _lag_one_autocorrelation(medians)
    effective = count * (1 - resemblance) / (1 + resemblance)
    reach = _Z_95 / 2 / np.sqrt(effective)
    ordered = np.sort(medians)
    low = ordered[max(int(np.floor(count * (0.5 - reach))), 0)]
    high = ordered[min(int(np.ceil(count * (0.5 + reach))) - 1, count - 1)]
    return MedianInterval(
        median, min(float(low), median), max(float(high), median), float(effective)
    )


def _lag_one_autocorrelation(values: NDArray[np.float64]) -> float:
    """Of the ranks (a lone outlier must not hide a drift), unbiased, held within [0, 0.99]."""
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    centred = ranks - ranks.mean()
    variance = float(centred @ centred)
    if variance == 0:
        return 0.0
    raw = float(centred[1:] @ centred[:-1]) / variance
    return min(max(raw + (1 + 3 * raw) / len(values), 0.0), 0.99)
