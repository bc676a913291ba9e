"""Settings that make no sense, and devices by name."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

from pocketnas.devices import (
    Device,
    DeviceKind,
    HostDevice,
    MeasureSettings,
    open_device,
    register_device,
    registry,
)
from pocketnas.errors import NoDeviceError, UsageError


def absent(address: str, reason: str) -> Device:
    raise NoDeviceError("no phone is plugged in")


PHONE = DeviceKind("phone", absent, takes_address=True)
HOST = DeviceKind("host", lambda address, reason: HostDevice(reason))


def test_the_host_is_opened_by_name_and_says_why() -> None:
    with open_device("host") as device:
        assert device.name == "host"
        assert device.reason.startswith("host (")
        assert device.reason.endswith("as asked")


def test_auto_takes_the_first_usable_kind_and_says_what_it_passed() -> None:
    with open_device("auto", (PHONE, HOST)) as device:
        assert device.name == "host"
        assert device.reason.endswith("no phone (no phone is plugged in)")


def test_auto_without_any_usable_device_says_why() -> None:
    with pytest.raises(NoDeviceError, match="no phone is plugged in"):
        open_device("auto", (PHONE,))


@pytest.mark.parametrize("spec", ["hosst", "", "adb:", "HOST", "host:", "host:1", "phone:"])
def test_an_unknown_device_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="unknown device"):
        open_device(spec, (PHONE, HOST))


def test_a_misspelt_device_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean 'host'"):
        open_device("hots")


def test_an_address_is_handed_to_the_kind() -> None:
    seen = []

    def remember(address: str, reason: str) -> Device:
        seen.append(address)
        return HostDevice(reason)

    open_device("phone:127.0.0.1:5555", (DeviceKind("phone", remember, True),)).close()
    assert seen == ["127.0.0.1:5555"]


@pytest.fixture
def _forgets_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))


@pytest.mark.usefixtures("_forgets_kinds")
def test_a_registered_kind_is_opened_by_name_but_never_before_the_host() -> None:
    with pytest.raises(UsageError, match="unknown device 'phone:1': choose one of auto, host"):
        open_device("phone:1")
    for _ in range(2):
        register_device(PHONE)
    with pytest.raises(NoDeviceError, match="no phone is plugged in"):
        open_device("phone:1")
    with open_device("auto") as device:
        assert device.name == "host"


@pytest.mark.parametrize("name", ["host", "auto", "", "my:phone"])
def test_a_kind_that_nobody_could_ask_for_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be called|already"):
        register_device(DeviceKind(name, absent))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"runtime": "tensorrt"}, "unknown runtime 'tensorrt'"),
        ({"threads": 0}, "threads must be at least 1 but got 0"),
        ({"attempts": 0}, "attempts must be at least 1 but got 0"),
        ({"limit_s": 0.0}, "limit_s must be above zero and finite but got 0.0"),
        ({"limit_s": math.nan}, "limit_s must be above zero"),
        ({"limit_s": math.inf}, "limit_s must be above zero"),
        ({"warmup_s": -1.0}, "warmup_s must be above zero"),
        ({"relative_interval": 0.0}, "relative_interval must be above zero"),
        ({"cpus": ()}, "1 threads need as many CPUs"),
        ({"cpus": (0,), "threads": 2}, "2 threads need as many CPUs"),
    ],
)
def test_settings_that_no_device_could_follow_are_refused(
    change: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        MeasureSettings(**change)


def test_importing_devices_brings_neither_torch_nor_a_runtime() -> None:
    code = (
        "import sys, pocketnas.devices, pocketnas.devices.registry\n"
        "print([name for name in ('torch', 'optuna', 'onnx', 'onnxruntime', 'ai_edge_litert', "
        "'pocketnas.nas', 'pocketnas.export', 'pocketnas.searchspace') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
