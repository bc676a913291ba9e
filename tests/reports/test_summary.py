import io

import pandas
from hypothesis import given
from hypothesis import strategies as st

from pocketnas.reports.summary import Model, pareto_front
from pocketnas.reports.tables import interval, quantity, to_csv


def model(trial: int, accuracy: float, latency_ms: float) -> Model:
    return Model(
        trial=trial,
        key=f"{trial:016x}",
        arch="cn_r1_k3_s1_c8,ds_r1_k3_s1_c8",
        accuracy=accuracy,
        latency_ms=latency_ms,
        latency_ci95_ms=(latency_ms * 0.99, latency_ms * 1.01),
        reward=accuracy,
        params=1234,
        madds=5_678_901,
        peak_activation_bytes=4096,
    )


MODELS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=30).map(
    lambda pairs: [model(i, a / 4, float(t)) for i, (a, t) in enumerate(pairs)]
)


@given(MODELS)
def test_front_is_exactly_what_nothing_dominates(models: list[Model]) -> None:
    def dominates(a: Model, b: Model) -> bool:
        return (
            a.accuracy >= b.accuracy
            and a.latency_ms <= b.latency_ms
            and (a.accuracy, a.latency_ms) != (b.accuracy, b.latency_ms)
        )

    front = pareto_front(models)
    points = {(m.accuracy, m.latency_ms) for m in models}
    best = {(m.accuracy, m.latency_ms) for m in models if not any(dominates(o, m) for o in models)}
    assert {(m.accuracy, m.latency_ms) for m in front} == best <= points
    assert len(front) == len(best)
    assert list(front) == sorted(front, key=lambda m: m.latency_ms)


def test_of_equal_models_the_first_found_stays() -> None:
    assert [m.trial for m in pareto_front([model(1, 0.9, 1.0), model(0, 0.9, 1.0)])] == [0]


def test_no_models_no_front() -> None:
    assert pareto_front([]) == ()


def test_csv_is_read_back_by_pandas() -> None:
    text = to_csv((model(3, 0.9, 1.25), model(4, 0.95, 2.0)))
    table = pandas.read_csv(io.StringIO(text), dtype={"key": str})
    assert list(table["latency_ms"]) == [1.25, 2.0]
    assert list(table["key"]) == ["0000000000000003", "0000000000000004"]
    assert table["arch"][0] == "cn_r1_k3_s1_c8,ds_r1_k3_s1_c8"


def test_numbers_read_well() -> None:
    assert quantity(3_504_872) == "3.50 M"
    assert quantity(928) == "928"
    assert quantity(1_500_000_000) == "1.50 G"
    assert interval((0.41234, 0.4219)) == "0.4123 to 0.4219"
