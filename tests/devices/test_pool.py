"""The pool: models go to free devices, and a device's trouble costs no reading."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pocketnas.devices import DeviceInfo, MeasureSettings, Reading
from pocketnas.devices import pool as pool_module
from pocketnas.devices.lease import is_leased, lease
from pocketnas.devices.pool import Pool
from pocketnas.errors import DeviceError, NoDeviceError, UsageError
from tests.steady import FakeSteadyDevice


class FakeMoodyDevice(FakeSteadyDevice):
    """Fails as often as it is told to, then works; notes who uses it at the same time."""

    def __init__(self, failures: int = 0, identity: str = "moody", seconds: float = 0.0) -> None:
        super().__init__()
        self.failures = failures
        self.identity = identity
        self.seconds = seconds
        self.inside = 0
        self.most_inside = 0
        self.calls = 0
        self.error: type[DeviceError] = NoDeviceError

    def describe(self) -> DeviceInfo:
        return replace(super().describe(), identity=self.identity, beside=1)

    def measure(self, model_path: Path, settings: MeasureSettings) -> Reading:
        self.calls += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        time.sleep(self.seconds)
        self.inside -= 1
        if self.failures:
            self.failures -= 1
            raise self.error("device 'moody' is offline: plug it in, then run again")
        return super().measure(model_path, settings)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POCKETNAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pool_module, "FIRST_BACK_OFF_S", 0.02)
    monkeypatch.setattr(pool_module, "QUARANTINE_S", 0.1)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(b"x" * 1000)
    return path


def test_devices_work_side_by_side_and_never_on_two_models_at_once(model: Path) -> None:
    devices = [FakeMoodyDevice(seconds=0.05) for _ in range(3)]
    pool = Pool([(d, str(i)) for i, d in enumerate(devices)], wait_s=5)
    with ThreadPoolExecutor(6) as threads:
        readings = list(threads.map(lambda _: pool.measure(model, MeasureSettings()), range(12)))
    assert len(readings) == 12
    assert [d.most_inside for d in devices] == [1, 1, 1]
    assert min(d.calls for d in devices) >= 2
    assert pool.describe().beside == 3


def test_what_one_device_cannot_measure_another_does(model: Path) -> None:
    broken, well = FakeMoodyDevice(failures=1000), FakeMoodyDevice()
    told: list[str] = []
    pool = Pool([(broken, "a"), (well, "b")], wait_s=5, on_trouble=told.append)
    for _ in range(5):
        assert pool.measure(model, MeasureSettings()).stable
    assert well.calls == 5
    assert "offline" in told[0]


def test_a_device_that_fails_is_quarantined_and_comes_back(model: Path) -> None:
    device = FakeMoodyDevice(failures=4)
    told: list[str] = []
    pool = Pool([(device, "a")], wait_s=5, on_trouble=told.append)
    assert pool.measure(model, MeasureSettings()).stable
    assert device.calls == 5
    assert [("quarantine" in sentence) for sentence in told] == [False, False, True, True, False]
    assert told[-1] == "device 'a' works again"


def test_waiting_has_an_end_and_says_what_is_wrong(model: Path) -> None:
    pool = Pool([(FakeMoodyDevice(failures=1000), "a")], wait_s=0.3)
    began = time.monotonic()
    with pytest.raises(NoDeviceError, match=r"no device was usable for 0\.3 s.*offline"):
        pool.measure(model, MeasureSettings())
    assert time.monotonic() - began < 2


def test_a_model_that_is_at_fault_is_not_tried_elsewhere(model: Path) -> None:
    devices = [FakeMoodyDevice(failures=1), FakeMoodyDevice()]
    devices[0].error = DeviceError
    pool = Pool([(d, str(i)) for i, d in enumerate(devices)], wait_s=5)
    with pytest.raises(DeviceError):
        pool.measure(model, MeasureSettings())
    assert [d.calls for d in devices] == [1, 0]


def test_unlike_devices_are_refused() -> None:
    with pytest.raises(UsageError, match="'one' and 'other' are unlike devices"):
        Pool([(FakeMoodyDevice(identity="one"), "a"), (FakeMoodyDevice(identity="other"), "b")],
             wait_s=1)  # fmt: skip
    with pytest.raises(UsageError, match="at least one"):
        Pool([], wait_s=1)


def test_a_device_that_another_process_has_is_waited_for(model: Path) -> None:
    program = (
        "import time\nfrom pocketnas.devices.lease import lease\n"
        "with lease('phone') as held:\n    print(held, flush=True)\n    time.sleep(60)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert is_leased("phone")
        device = FakeMoodyDevice()
        pool = Pool([(device, "phone")], wait_s=30)
        threading.Timer(0.5, other.kill).start()
        assert pool.measure(model, MeasureSettings()).stable
        assert other.wait() != 0
        assert device.calls == 1
    finally:
        other.kill()
        other.wait()
    assert not is_leased("phone")


def test_a_lease_is_one_threads_at_a_time() -> None:
    with lease("a") as first, lease("a") as second, lease("b") as another:
        assert (first, second, another) == (True, False, True)
    with lease("a") as again:
        assert again
