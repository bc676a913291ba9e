"""The CPUs of a Linux machine as /proc and /sys tell of them; elsewhere, what Python knows."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
CPU_FOLDER = Path("/sys/devices/system/cpu")
# Speeds this close are one kind of core: some CPUs rate their best core a little above its equals.
_EQUAL_SPEED = 0.9


@dataclass(frozen=True)
class CpuState:
    """One CPU when cores are chosen.

    Attributes:
        speed: highest clock or capacity, in any unit that compares CPUs of this machine.
        busy: the fraction of time that it was not idle just now.
        siblings: the CPUs (hardware threads) that share its core, itself included.
    """

    speed: float
    busy: float
    siblings: tuple[int, ...]


def usable_cpus() -> tuple[int, ...]:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def can_pin() -> bool:
    """Whether this system lets a process choose its CPUs."""
    return hasattr(os, "sched_setaffinity")


def cpu_model() -> str:
    """What the CPU calls itself."""
    values = dict(_fields(_read(PROC / "cpuinfo") or ""))
    for name in ("model name", "Hardware", "Model"):
        if values.get(name):
            return values[name]
    return platform.processor() or platform.machine() or "unknown CPU"


def is_virtual() -> bool | None:
    """Whether a hypervisor runs below; None where that cannot be seen."""
    flags = dict(_fields(_read(PROC / "cpuinfo") or "")).get("flags")
    return None if flags is None else "hypervisor" in flags.split()


def governor(cpu: int) -> str | None:
    """The CPU's frequency governor, where the system has one."""
    return _read(CPU_FOLDER / f"cpu{cpu}/cpufreq/scaling_governor")


def clock_mhz(cpu: int) -> float | None:
    """The CPU's clock now, in MHz."""
    khz = _read(CPU_FOLDER / f"cpu{cpu}/cpufreq/scaling_cur_freq")
    if khz is not None and khz.isdigit():
        return int(khz) / 1000
    blocks = (_read(PROC / "cpuinfo") or "").split("\n\n")
    for block in blocks:
        values = dict(_fields(block))
        if values.get("processor") == str(cpu) and "cpu MHz" in values:
            return float(values["cpu MHz"])
    return None


def highest_clock_mhz(cpu: int) -> float | None:
    """The CPU's rated clock, in MHz."""
    khz = _read(CPU_FOLDER / f"cpu{cpu}/cpufreq/cpuinfo_max_freq")
    return int(khz) / 1000 if khz is not None and khz.isdigit() else None


def choose_cpus(count: int, states: Mapping[int, CpuState]) -> tuple[int, ...]:
    """The CPUs to pin `count` threads to, best first.

    The fastest kind of core first; of those the least busy, a core being as busy as its busiest
    hardware thread; one hardware thread a core before any second; then the highest number, since
    systems leave their own chores to the first.

    Args:
        count: at most the number of `states`.
        states: of the CPUs to choose from.
    """
    fastest = max(state.speed for state in states.values())

    def badness(cpu: int) -> tuple[bool, int, float, int]:
        state = states[cpu]
        mates = [mate for mate in state.siblings if mate in states]
        busy = max(states[mate].busy for mate in mates)
        slow = state.speed < _EQUAL_SPEED * fastest
        return slow, mates.index(cpu), round(busy, 1), -cpu

    return tuple(sorted(sorted(states, key=badness)[:count]))


def watch_cpus(cpus: Iterable[int], seconds: float) -> dict[int, CpuState]:
    """The state of some CPUs, having watched for `seconds` how busy they are."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    states = {}
    for cpu in cpus:
        total = busy = 0
        if cpu in before and cpu in after:
            total = after[cpu].total - before[cpu].total
            busy = total - (after[cpu].idle - before[cpu].idle)
        states[cpu] = CpuState(
            speed=_speed(cpu), busy=busy / total if total > 0 else 0.0, siblings=_siblings(cpu)
        )
    return states


def stolen_ticks(cpu: int) -> tuple[int, int] | None:
    """Clock ticks that a hypervisor gave to others, and all ticks, since the system's start."""
    ticks = _ticks().get(cpu)
    return None if ticks is None else (ticks.steal, ticks.total)


@dataclass(frozen=True)
class _Ticks:
    total: int
    idle: int
    steal: int


def _ticks() -> dict[int, _Ticks]:
    """Per CPU, from /proc/stat: user nice system idle iowait irq softirq steal (guest, ...)."""
    found = {}
    for line in (_read(PROC / "stat") or "").splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and len(values) >= 8:
            # Guest time, after steal, is part of user time already.
            numbers = [int(value) for value in values[:8]]
            found[int(name[3:])] = _Ticks(sum(numbers), numbers[3] + numbers[4], numbers[7])
    return found


def _speed(cpu: int) -> float:
    """Capacity where the kernel rates it (unlike cores), else the rated clock."""
    capacity = _read(CPU_FOLDER / f"cpu{cpu}/cpu_capacity")
    if capacity is not None and capacity.isdigit():
        return float(capacity)
    return highest_clock_mhz(cpu) or 1.0


def _siblings(cpu: int) -> tuple[int, ...]:
    """Hardware threads of the CPU's core, from a list such as `0,8` or `0-1`."""
    text = _read(CPU_FOLDER / f"cpu{cpu}/topology/thread_siblings_list")
    found: set[int] = {cpu}
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def _fields(block: str) -> Iterable[tuple[str, str]]:
    for line in block.splitlines():
        name, _, value = line.partition(":")
        yield name.strip(), value.strip()


def _read(path: Path) -> str | None:
    """A small system file's text, stripped; None where there is none or it may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
