"""Choosing cores, and reading /proc and /sys as phones, servers and bare containers have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketnas.devices import cpu
from pocketnas.devices.cpu import CpuState, choose_cpus


def core(speed: float = 1.0, busy: float = 0.0, siblings: tuple[int, ...] = ()) -> CpuState:
    return CpuState(speed, busy, siblings)


def alone(states: dict[int, tuple[float, float]]) -> dict[int, CpuState]:
    """CPUs that share no core, from (speed, busy)."""
    return {n: CpuState(speed, busy, (n,)) for n, (speed, busy) in states.items()}


def test_a_big_core_is_taken_even_when_small_ones_are_idle() -> None:
    states = alone({0: (446, 0), 1: (446, 0), 2: (1024, 0.3), 3: (446, 0)})
    assert choose_cpus(1, states) == (2,)
    assert choose_cpus(2, states) == (2, 3)


def test_of_equal_cores_the_least_busy_is_taken() -> None:
    assert choose_cpus(1, alone({0: (1, 0.1), 1: (1, 0.9), 2: (1, 0.0), 3: (1, 0.8)})) == (2,)


def test_a_core_that_is_rated_a_little_faster_is_no_better_than_an_idle_one() -> None:
    assert choose_cpus(1, alone({0: (5300, 0.9), 1: (5200, 0.0)})) == (1,)


def test_the_first_cpu_is_left_to_the_systems_chores() -> None:
    assert choose_cpus(1, alone({0: (1, 0.0), 1: (1, 0.0)})) == (1,)


def test_two_threads_get_two_cores_and_not_one_cores_two_halves() -> None:
    states = {
        0: core(siblings=(0, 2)),
        1: core(siblings=(1, 3)),
        2: core(siblings=(0, 2)),
        3: core(siblings=(1, 3)),
    }
    assert choose_cpus(2, states) == (0, 1)
    assert choose_cpus(4, states) == (0, 1, 2, 3)


def test_a_core_whose_other_half_is_busy_is_busy() -> None:
    states = {
        0: core(siblings=(0, 2)),
        1: core(siblings=(1, 3)),
        2: core(siblings=(0, 2)),
        3: core(siblings=(1, 3), busy=0.9),
    }
    assert choose_cpus(1, states) == (0,)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /proc and /sys/devices/system/cpu."""
    monkeypatch.setattr(cpu, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cpu, "CPU_FOLDER", tmp_path / "cpu")
    (tmp_path / "proc").mkdir()
    (tmp_path / "cpu/cpu1/cpufreq").mkdir(parents=True)
    (tmp_path / "cpu/cpu1/topology").mkdir()
    return tmp_path


def test_an_x86_virtual_machine_is_read(machine: Path) -> None:
    (machine / "proc/cpuinfo").write_text(
        "processor\t: 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2596.1\nflags\t: fpu hypervisor\n"
        "\nprocessor\t: 1\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 3100.5\nflags\t: fpu hypervisor\n"
    )
    assert cpu.cpu_model() == "AMD EPYC"
    assert cpu.is_virtual() is True
    assert cpu.clock_mhz(1) == 3100.5
    assert cpu.governor(1) is None


def test_cpufreq_is_believed_before_cpuinfo(machine: Path) -> None:
    (machine / "proc/cpuinfo").write_text("processor\t: 1\nHardware\t: Tensor G2\n")
    folder = machine / "cpu/cpu1/cpufreq"
    (folder / "scaling_cur_freq").write_text("1803000\n")
    (folder / "cpuinfo_max_freq").write_text("2850000\n")
    (folder / "scaling_governor").write_text("schedutil\n")
    assert cpu.cpu_model() == "Tensor G2"
    assert cpu.is_virtual() is None
    assert cpu.clock_mhz(1) == 1803.0
    assert cpu.highest_clock_mhz(1) == 2850.0
    assert cpu.governor(1) == "schedutil"


def test_a_machine_that_tells_nothing_is_unknown_and_not_an_error(machine: Path) -> None:
    assert cpu.cpu_model()
    assert cpu.is_virtual() is None
    assert cpu.clock_mhz(0) is None
    assert cpu.stolen_ticks(0) is None
    assert cpu.watch_cpus([0], 0.0) == {0: CpuState(1.0, 0.0, (0,))}


def test_stolen_time_and_siblings_are_read(machine: Path) -> None:
    (machine / "proc/stat").write_text("cpu  9 9\ncpu1 10 0 20 60 5 0 0 5 7 0\nintr 1\n")
    (machine / "cpu/cpu1/topology/thread_siblings_list").write_text("1,9-10\n")
    (machine / "cpu/cpu1/cpu_capacity").write_text("1024\n")
    assert cpu.stolen_ticks(1) == (5, 100)
    assert cpu.watch_cpus([1], 0.0) == {1: CpuState(1024.0, 0.0, (1, 9, 10))}
