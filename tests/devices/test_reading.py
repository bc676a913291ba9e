"""A reading holds together, says what it is, and survives JSON; anything else is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from pocketnas.devices import Reading
from pocketnas.errors import DeviceError

READING = Reading(
    latency_ms=0.4217,
    latency_ci95_ms=(0.4189, 0.4251),
    latency_samples_ms=(0.4189, 0.4217, 0.4251, 0.42, 0.43, 0.4217),
    stable=True,
    device="host",
    device_info={"kind": "host", "model": "a CPU", "identity": "a CPU, 2 CPUs", "virtual": None},
    runtime="litert",
    runtime_version="2.3.0",
    threads=1,
    precision="float32",
    emulated=False,
    cpus=(1,),
    warmup_runs=400,
    attempts=2,
    model_sha256="ab" * 32,
    measured_at="2026-12-01T05:00:00+00:00",
    samples_per_round=3,
    conditions={"load_average_before": 0.25, "governor": None},
)


def test_a_reading_survives_json() -> None:
    text = json.dumps(READING.to_dict(), allow_nan=False)
    assert Reading.from_dict(json.loads(text)) == READING


def test_an_unpinned_reading_survives_json() -> None:
    reading = replace(READING, cpus=None)
    assert Reading.from_dict(json.loads(json.dumps(reading.to_dict()))) == reading


def test_a_reading_shows_in_one_line() -> None:
    assert str(READING) == (
        "0.4217 ms (95 % 0.4189 to 0.4251): host, LiteRT 2.3.0, 1 thread on CPU 1, float32"
    )


def test_a_reading_that_did_not_settle_or_is_emulated_says_so() -> None:
    text = str(replace(READING, stable=False, emulated=True, cpus=(2, 3), threads=2))
    assert "UNSTABLE after 2 attempts" in text
    assert "emulated estimate" in text
    assert "2 threads on CPU 2+3" in text


@pytest.mark.parametrize("sample", [0.0, -0.1, math.nan, math.inf, -math.inf])
def test_no_time_is_zero_negative_or_not_a_number(sample: float) -> None:
    with pytest.raises(DeviceError, match="finite and above zero"):
        replace(READING, latency_samples_ms=(*READING.latency_samples_ms[:5], sample))
    with pytest.raises(DeviceError, match="finite and above zero"):
        replace(READING, latency_ms=sample)
    with pytest.raises(DeviceError, match="finite and above zero"):
        replace(READING, latency_ci95_ms=(sample, 0.5))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"latency_samples_ms": ()}, "no latency samples"),
        ({"latency_ms": 0.3}, "the median of its samples is 0.4217"),
        ({"latency_ci95_ms": (0.5, 0.6)}, "outside of its own interval"),
        ({"latency_ci95_ms": (0.6, 0.2)}, "outside of its own interval"),
        ({"samples_per_round": 4}, "not rounds of 4"),
        ({"samples_per_round": 0}, "not rounds of 0"),
    ],
)
def test_a_latency_that_its_samples_do_not_bear_out_is_refused(
    change: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(DeviceError, match=complaint):
        replace(READING, **change)


@pytest.mark.parametrize("name", list(READING.to_dict()))
def test_a_missing_key_is_named(name: str) -> None:
    values = READING.to_dict()
    del values[name]
    with pytest.raises(DeviceError, match=f"lacks '{name}'"):
        Reading.from_dict(values)


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(DeviceError, match="unknown key 'latency'"):
        Reading.from_dict({**READING.to_dict(), "latency": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("latency_ms", "0.4"),
        ("latency_ms", True),
        ("latency_ms", None),
        ("latency_ci95_ms", [0.4]),
        ("latency_ci95_ms", 0.4),
        ("latency_samples_ms", [0.4, "0.5"]),
        ("stable", 1),
        ("device", None),
        ("device_info", []),
        ("device_info", {"nested": {}}),
        ("threads", 1.0),
        ("threads", -1),
        ("cpus", [True]),
        ("measured_at", 5),
        ("conditions", "none"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(name: str, value: object) -> None:
    with pytest.raises(DeviceError, match=name):
        Reading.from_dict({**READING.to_dict(), name: value})


@pytest.mark.parametrize("value", [None, [], "reading", 3])
def test_what_is_no_object_is_no_reading(value: object) -> None:
    with pytest.raises(DeviceError, match="must be a JSON object"):
        Reading.from_dict(value)


def test_nan_written_by_hand_into_json_is_refused() -> None:
    text = json.dumps(READING.to_dict()).replace("0.43", "NaN")
    with pytest.raises(DeviceError, match="finite and above zero"):
        Reading.from_dict(json.loads(text))
