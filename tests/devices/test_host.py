"""The host times real models in real runtimes, and outlives whatever they do."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pocketnas.devices import HostDevice, MeasureSettings, Reading, host_worker
from pocketnas.devices.cpu import usable_cpus
from pocketnas.devices.runtimes import LoadedModel, load_model
from pocketnas.errors import DeviceError, NoDeviceError, UsageError
from tests.conftest import require
from tests.devices.models import (
    crashing_tflite_model,
    failing_tflite_model,
    hanging_onnx_model,
    int8_onnx_model,
    onnx_model,
    tflite_model,
)

# The machine that runs the tests is seldom quiet: what is not about stability is satisfied with
# any interval, once.
QUICK = MeasureSettings(limit_s=2.0, warmup_s=0.02, relative_interval=10.0, attempts=1)
QUICK_ONNX = replace(QUICK, runtime="onnx")
LONG = MeasureSettings(limit_s=60.0, relative_interval=1e-9, attempts=1)

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of model files."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "small.tflite").write_bytes(tflite_model())
    (folder / "large.tflite").write_bytes(tflite_model(width=1024, batch=16))
    (folder / "small.onnx").write_bytes(onnx_model())
    (folder / "large.onnx").write_bytes(onnx_model(channels=32, size=96, layers=3))
    return folder


@pytest.fixture(scope="module")
def host() -> Iterator[HostDevice]:
    """One host for many tests: what one test does to its child must not reach the next."""
    with HostDevice() as device:
        yield device


@pytest.mark.parametrize(
    ("name", "settings"), [("small.tflite", QUICK), ("small.onnx", QUICK_ONNX)]
)
def test_a_reading_holds_everything_needed_to_repeat_it(
    host: HostDevice, models: Path, name: str, settings: MeasureSettings
) -> None:
    reading = host.measure(models / name, settings)
    low, high = reading.latency_ci95_ms
    assert 0.0001 < low <= reading.latency_ms <= high < 10
    assert reading.stable
    assert reading.runtime == settings.runtime
    assert reading.runtime_version[0].isdigit()
    assert (reading.threads, reading.precision, reading.emulated) == (1, "float32", False)
    assert reading.model_sha256 == hashlib.sha256((models / name).read_bytes()).hexdigest()
    assert reading.device == "host"
    assert reading.device_info == host.describe().to_dict()
    assert reading.cpus is not None
    assert len(reading.cpus) == 1
    assert reading.warmup_runs >= 10
    assert reading.attempts == 1
    assert len(reading.latency_samples_ms) >= 10 * reading.samples_per_round
    assert reading.conditions["complaint"] is None
    assert Reading.from_dict(json.loads(json.dumps(reading.to_dict()))) == reading


def test_a_large_model_takes_longer_than_a_small_one(host: HostDevice, models: Path) -> None:
    for settings, suffix in ((QUICK, "tflite"), (QUICK_ONNX, "onnx")):
        small = host.measure(models / f"small.{suffix}", settings)
        large = host.measure(models / f"large.{suffix}", settings)
        assert large.latency_ms > 10 * small.latency_ms


def test_a_quantized_file_is_not_called_float32(host: HostDevice, tmp_path: Path) -> None:
    """And a batch that the file leaves open is one image."""
    (tmp_path / "int8.onnx").write_bytes(int8_onnx_model())
    assert host.measure(tmp_path / "int8.onnx", QUICK_ONNX).precision == "int8"


def test_a_host_whose_child_cannot_start_is_no_usable_device(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with HostDevice() as host, pytest.raises(NoDeviceError, match=r"cannot start .* exit code 7"):
        host.measure(models / "small.tflite", QUICK)


def test_the_model_runs_on_the_pinned_core_and_on_no_other(models: Path) -> None:
    require(sys.platform == "linux", "/proc")
    for number in usable_cpus():
        seen = _cpus_while_measuring(models / "small.tflite", replace(LONG, cpus=(number,)))
        assert seen == {number}


def test_every_round_is_timed_on_a_load_of_its_own(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a load puts its buffers moves the latency: it belongs into the interval."""
    loads = []

    def count(runtime: str, content: bytes, threads: int) -> LoadedModel:
        loads.append(runtime)
        return load_model(runtime, content, threads)

    monkeypatch.setattr(host_worker, "load_model", count)
    worker = host_worker.Worker()
    path = str(models / "small.tflite")
    worker.answer({"do": "load", "path": path, "runtime": "litert", "threads": 1, "cpus": None})
    for _ in range(3):
        answer = worker.answer({"do": "round", "samples": 7, "every": 2})
        assert len(answer["samples_ns"]) == 7
    assert len(loads) == 1 + 3


def test_two_threads_run_on_the_two_pinned_cores(host: HostDevice, models: Path) -> None:
    require(len(usable_cpus()) >= 2, "a second CPU")
    reading = host.measure(models / "large.tflite", replace(QUICK, threads=2))
    assert reading.threads == 2
    assert reading.cpus is not None
    assert len(set(reading.cpus)) == 2
    assert reading.conditions["interrupted_share"] is None


def test_an_unpinned_reading_says_so_and_frees_the_child(host: HostDevice, models: Path) -> None:
    host.measure(models / "small.tflite", replace(QUICK, cpus=(usable_cpus()[0],)))
    reading = host.measure(models / "small.tflite", replace(QUICK, cpus=None))
    assert reading.cpus is None
    assert host.child_pid is not None
    if sys.platform == "linux":
        assert os.sched_getaffinity(host.child_pid) == set(usable_cpus())


def test_impossible_settings_are_refused_before_anything_starts(models: Path) -> None:
    with HostDevice() as host:
        with pytest.raises(UsageError, match="threads must be from 1 to"):
            host.measure(models / "small.tflite", replace(QUICK, threads=4096))
        with pytest.raises(UsageError, match="cannot pin to CPU 4095"):
            host.measure(models / "small.tflite", replace(QUICK, cpus=(4095,)))
        with pytest.raises(UsageError, match="unknown runtime 'coreml'"):
            host.check("coreml", 1)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("none.tflite", None, "there is no model file"),
        ("empty.tflite", b"", "cannot be timed on the host"),
        ("garbage.tflite", b"garbage" * 100, "is not a model that litert can run"),
        ("truncated.tflite", tflite_model()[:300], "is not a model that litert can run"),
        ("other.tflite", onnx_model(), "is not a model that litert can run"),
        ("fails.tflite", failing_tflite_model(), "gather index out of bounds"),
        ("empty.onnx", b"", "cannot be timed on the host"),
        ("garbage.onnx", b"garbage" * 100, "is not a model that onnx can run"),
        ("truncated.onnx", onnx_model()[:200], "is not a model that onnx can run"),
        ("other.onnx", tflite_model(), "is not a model that onnx can run"),
    ],
)
def test_a_file_that_is_no_model_is_an_error_that_names_it(
    host: HostDevice, tmp_path: Path, name: str, content: bytes | None, complaint: str
) -> None:
    settings = QUICK if name.endswith(".tflite") else QUICK_ONNX
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DeviceError, match=complaint) as caught:
        host.measure(tmp_path / name, settings)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_after_a_bad_file_the_next_is_timed_in_the_same_child(
    host: HostDevice, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "garbage.tflite").write_bytes(b"garbage" * 100)
    host.measure(models / "small.tflite", QUICK)
    pid = host.child_pid
    with pytest.raises(DeviceError):
        host.measure(tmp_path / "garbage.tflite", QUICK)
    assert host.measure(models / "small.tflite", QUICK).latency_ms > 0
    assert host.child_pid == pid


def test_a_folder_is_no_model_file(host: HostDevice, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="there is no model file"):
        host.measure(tmp_path, QUICK)


def test_a_model_that_crashes_the_runtime_costs_one_error(
    host: HostDevice, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "crash.tflite").write_bytes(crashing_tflite_model())
    with pytest.raises(DeviceError, match=r"'crash.tflite' crashed LiteRT .* signal 11"):
        host.measure(tmp_path / "crash.tflite", QUICK)
    assert host.measure(models / "small.tflite", QUICK).latency_ms > 0


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_child_killed_in_the_middle_of_a_run_costs_one_error(
    models: Path, number: signal.Signals
) -> None:
    with HostDevice() as host:
        failed = _measure_and(host, models / "small.tflite", lambda pid: os.kill(pid, number))
        assert f"killed by signal {number.value}" in str(failed)
        assert host.child_pid is None
        assert host.measure(models / "small.tflite", QUICK).latency_ms > 0


def test_a_child_killed_between_two_models_costs_nothing(models: Path) -> None:
    with HostDevice() as host:
        host.measure(models / "small.tflite", QUICK)
        assert host.child_pid is not None
        os.kill(host.child_pid, signal.SIGKILL)
        _wait_until(lambda: host.child_pid is None)
        assert host.measure(models / "small.tflite", QUICK).latency_ms > 0


def test_a_model_that_never_ends_is_stopped_at_the_limit(
    host: HostDevice, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "hang.onnx").write_bytes(hanging_onnx_model())
    started = time.monotonic()
    with pytest.raises(DeviceError, match=r"'hang.onnx' hung ONNX Runtime"):
        host.measure(tmp_path / "hang.onnx", replace(QUICK_ONNX, limit_s=0.5))
    assert time.monotonic() - started < 10
    assert host.measure(models / "small.onnx", QUICK_ONNX).latency_ms > 0


def test_a_child_that_falls_silent_is_stopped_at_the_limit(models: Path) -> None:
    with HostDevice() as host:
        stopped: list[int] = []

        def silence(pid: int) -> None:
            stopped.append(pid)
            os.kill(pid, signal.SIGSTOP)

        settings = replace(LONG, limit_s=1.5)
        failed = _measure_and(host, models / "small.tflite", silence, settings, after_s=0.6)
        assert "hung LiteRT" in str(failed)
        assert _is_gone(stopped[0])
        assert host.measure(models / "small.tflite", QUICK).latency_ms > 0


def test_what_libraries_print_is_never_taken_for_an_answer(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise from before the first answer to after the last, in the very form of an answer."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, threading, time\n"
        "def shout():\n"
        "    while True:\n"
        '        os.write(1, b\'{"samples_ns": [1], "interrupted": 0.0}\\n{half a li\')\n'
        "        os.write(2, b'noise')\n"
        "        time.sleep(0.001)\n"
        "print('hello from a library')\n"
        "threading.Thread(target=shout, daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with HostDevice() as host:
        reading = host.measure(models / "small.tflite", QUICK)
        assert len(reading.latency_samples_ms) > 100
        assert reading.latency_ms > 0.0001
        assert host.measure(models / "small.onnx", QUICK_ONNX).runtime == "onnx"


def test_a_users_folder_does_not_shadow_the_libraries(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("numpy.py", "json.py", "statistics.py", "onnxruntime.py"):
        (tmp_path / name).write_text("raise SystemExit('shadowed')\n")
    monkeypatch.chdir(tmp_path)
    with HostDevice() as host:
        assert host.measure(models / "small.onnx", QUICK_ONNX).latency_ms > 0


def test_a_relative_path_is_found(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HostDevice() as host:
        host.measure(models / "small.tflite", QUICK)
        monkeypatch.chdir(models)
        assert host.measure(Path("small.tflite"), QUICK).latency_ms > 0


def test_an_unstable_reading_is_measured_again_and_marked(host: HostDevice, models: Path) -> None:
    """No interval is as narrow as a billionth: every attempt fails, none is dropped."""
    settings = replace(QUICK, relative_interval=1e-9, limit_s=1.0, attempts=2)
    reading = host.measure(models / "large.tflite", settings)
    assert not reading.stable
    assert reading.attempts == 2
    assert "wider than" in str(reading.conditions["complaint"])
    assert "UNSTABLE after 2 attempts" in str(reading)


@linux
def test_a_model_that_shares_its_core_is_never_called_stable(
    host: HostDevice, models: Path
) -> None:
    """However narrow the interval: time slices stretch all inferences alike."""
    number = usable_cpus()[-1]
    code = f"import os\nos.sched_setaffinity(0, [{number}])\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as spinner:
        assert spinner.stdout is not None
        spinner.stdout.readline()
        try:
            settings = replace(QUICK_ONNX, cpus=(number,), limit_s=5.0)
            reading = host.measure(models / "large.onnx", settings)
        finally:
            spinner.kill()
    assert not reading.stable
    assert "other work interrupted" in str(reading.conditions["complaint"])
    assert float(str(reading.conditions["interrupted_share"])) > 0.25


def test_a_device_goes_on_after_the_thread_that_started_it(models: Path) -> None:
    """(Linux's own death signal, the usual way, comes when the thread ends.)"""
    with HostDevice() as host:
        worker = threading.Thread(target=host.measure, args=(models / "small.tflite", QUICK))
        worker.start()
        worker.join()
        assert host.measure(models / "small.tflite", QUICK).latency_ms > 0


def test_closing_ends_the_child_and_may_be_done_twice(models: Path) -> None:
    host = HostDevice()
    host.measure(models / "small.tflite", QUICK)
    pid = host.child_pid
    assert pid is not None
    host.close()
    host.close()
    assert _is_gone(pid)
    assert host.child_pid is None


SCRIPT = """
import sys, threading, time
from pathlib import Path
from pocketnas.devices import HostDevice, MeasureSettings

host = HostDevice()
def tell():
    while host.child_pid is None:
        time.sleep(0.01)
    time.sleep(0.5)
    print(host.child_pid, flush=True)
threading.Thread(target=tell, daemon=True).start()
settings = MeasureSettings(runtime="onnx", limit_s=60.0, relative_interval=1e-9)
try:
    host.measure(Path(sys.argv[1]), settings)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def _measuring_parent(model: Path) -> tuple[subprocess.Popen[str], int]:
    """A process in the middle of a measurement, and its child's process id."""
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


@pytest.mark.parametrize("name", ["large.onnx", "hang.onnx"])
def test_a_parent_killed_in_the_middle_leaves_no_orphan(models: Path, name: str) -> None:
    (models / "hang.onnx").write_bytes(hanging_onnx_model())
    parent, child = _measuring_parent(models / name)
    with parent:
        assert not _is_gone(child)
        parent.kill()
        parent.wait()
        _wait_until(lambda: _is_gone(child))


def test_ctrl_c_reaches_the_parent_only_and_leaves_no_traceback(models: Path) -> None:
    parent, child = _measuring_parent(models / "large.onnx")
    os.killpg(parent.pid, signal.SIGINT)
    out, error = parent.communicate(timeout=30)
    assert out == "interrupted\n"
    assert error == ""
    assert parent.returncode == 0
    assert _is_gone(child)


def _measure_and(
    host: HostDevice,
    model: Path,
    act: object,
    settings: MeasureSettings = LONG,
    after_s: float = 0.5,
) -> DeviceError:
    """Measure, do something to the child while it runs rounds, and return the error."""
    assert callable(act)
    host.measure(model, QUICK)
    pid = host.child_pid
    timer = threading.Timer(after_s, act, [pid])
    timer.start()
    with pytest.raises(DeviceError) as caught:
        host.measure(model, settings)
    timer.join()
    return caught.value


def _cpus_while_measuring(model: Path, settings: MeasureSettings) -> set[int]:
    """The CPUs on which the child's threads were seen to run once it was pinned."""
    with HostDevice() as host:
        host.measure(model, QUICK)
        pid = host.child_pid
        assert pid is not None
        worker = threading.Thread(
            target=host.measure, args=(model, replace(settings, limit_s=1.5)), daemon=True
        )
        worker.start()
        assert settings.cpus is not None
        _wait_until(lambda: os.sched_getaffinity(pid) == set(settings.cpus or ()))
        time.sleep(0.1)
        seen = set()
        for _ in range(100):
            stat = Path(f"/proc/{pid}/stat").read_text()
            # Field 39, counted from the process's name, which ends with the last bracket.
            seen.add(int(stat.rpartition(")")[2].split()[36]))
            time.sleep(0.005)
        worker.join()
        return seen


def _is_gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has, though nobody collected it yet)."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip() == "" or done.stdout.startswith("Z")


def _wait_until(condition: object, limit_s: float = 10.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
