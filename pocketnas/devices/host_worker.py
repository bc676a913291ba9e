"""The child process in which `HostDevice` times models; a runtime that crashes crashes only this.

Run as `python -m pocketnas.devices.host_worker REPLY_FD LIFELINE_FD`. One JSON object a line comes
in on standard input, and one answer to each goes out on REPLY_FD: what runtimes and libraries
print goes to standard output and error, and is never taken for an answer.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import hashlib
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from pocketnas.devices.runtimes import LoadedModel, UnloadableModel, load_model

# An inference counts as interrupted when its thread was off the CPU for longer than this: shorter
# ones, such as the kernel's own chores, are lost within the interval that is aimed at.
_INTERRUPTED_FRACTION = 0.02
_INTERRUPTED_LEAST_NS = 5_000


# Untimed inferences at the start of a round; the first after a load also makes its buffers.
_ROUND_WARM_UP_S = 0.02


class Worker:
    """Answers the parent's requests: load, warm_up, round, unload."""

    def __init__(self) -> None:
        self._model: LoadedModel | None = None
        self._load_again: Callable[[], LoadedModel] | None = None
        self._usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        # Where the clock of a thread's CPU time is coarse, or the runtime's threads do the work,
        # nothing is known of interruptions.
        self._sees_interruptions = False

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do one request and return its answer."""
        handlers: dict[str, Callable[..., dict[str, Any]]] = {
            "load": self._load,
            "warm_up": self._warm_up,
            "round": self._round,
            "unload": self._unload,
        }
        arguments = dict(request)
        return handlers[arguments.pop("do")](**arguments)

    def _load(
        self, path: str, runtime: str, threads: int, cpus: list[int] | None
    ) -> dict[str, Any]:
        """Pin, then load: the runtime's own threads inherit the CPUs of their starter."""
        self._unload()
        pinned = None
        if hasattr(os, "sched_setaffinity"):
            try:
                os.sched_setaffinity(0, cpus if cpus is not None else self._usable)
            except OSError as error:
                return {"refused": f"CPUs {cpus} cannot be pinned to: {error.strerror}"}
            pinned = None if cpus is None else sorted(os.sched_getaffinity(0))
        try:
            with open(path, "rb") as file:
                content = file.read()
            self._load_again = functools.partial(load_model, runtime, content, threads)
            self._model = self._load_again()
        except OSError as error:
            return {"refused": f"it cannot be read: {error.strerror}"}
        except UnloadableModel as error:
            return {"refused": f"it is not a model that {runtime} can run: {error}"}
        resolution_s = time.get_clock_info("thread_time").resolution
        self._sees_interruptions = threads == 1 and resolution_s <= 1e-6
        return {
            "runtime_version": self._model.version,
            "precision": self._model.precision,
            "model_sha256": hashlib.sha256(content).hexdigest(),
            "cpus": pinned,
        }

    def _warm_up(self, seconds: float, runs: int) -> dict[str, Any]:
        """Run untimed until both time and count are reached, or ten times the time is over.

        The answer's `inference_ms` is a rough median of the last half, to size rounds by.
        """
        assert self._model is not None, "a model is loaded before it is run"
        run = self._model.run
        times: list[int] = []
        started = time.perf_counter_ns()
        while True:
            before = time.perf_counter_ns()
            run()
            after = time.perf_counter_ns()
            times.append(after - before)
            elapsed_s = (after - started) / 1e9
            if elapsed_s >= 10 * seconds or (elapsed_s >= seconds and len(times) >= runs):
                break
        last_half = times[len(times) // 2 :]
        return {"runs": len(times), "inference_ms": statistics.median(last_half) / 1e6}

    def _round(self, samples: int, every: int) -> dict[str, Any]:
        """Load anew, run `samples * every` inferences, and time each `every`-th.

        Where a load happens to put its buffers can move a latency by more than the interval of
        many inferences of one load, so that every round has a load of its own. The untimed
        inferences spread the samples over the round, and keep caches and clocks as they are in
        use.
        """
        assert self._load_again is not None, "a model is loaded before it is timed"
        self._model = self._load_again()
        self._warm_up(_ROUND_WARM_UP_S, 1)
        run = self._model.run
        wall, thread_cpu = time.perf_counter_ns, time.thread_time_ns
        times: list[int] = []
        interrupted = 0
        untimed = range(every - 1)
        for _ in range(samples):
            for _ in untimed:
                run()
            cpu_before = thread_cpu()
            before = wall()
            run()
            after = wall()
            off_cpu = (after - before) - (thread_cpu() - cpu_before)
            times.append(after - before)
            limit = max(_INTERRUPTED_FRACTION * (after - before), _INTERRUPTED_LEAST_NS)
            interrupted += off_cpu > limit
        share = interrupted / samples if self._sees_interruptions else None
        return {"samples_ns": times, "interrupted": share}

    def _unload(self) -> dict[str, Any]:
        """Drop the model; garbage is collected here only, never inside a timed inference."""
        self._model = self._load_again = None
        gc.collect()
        return {}


def main(reply_fd: int, lifeline_fd: int) -> None:
    """Answer requests until standard input ends, as it does when the parent goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(lifeline_fd)
    gc.disable()
    worker = Worker()
    with os.fdopen(reply_fd, "w", encoding="utf-8") as replies:
        print(json.dumps({"ready": os.getpid()}), file=replies, flush=True)
        for line in sys.stdin:
            print(json.dumps(worker.answer(json.loads(line))), file=replies, flush=True)


def _die_with(lifeline_fd: int) -> None:
    """Have the kernel end this process when the parent's end of the pipe closes.

    The parent can be killed while an inference runs that takes long, or for ever, and lets no
    Python code run. Nothing is ever written to this pipe, so the first and only SIGIO is that of
    its end; and SIGIO, unhandled, is deadly. (Linux's death signal would do the same, but it also
    comes when merely the thread ends that started this process.)
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, os.O_ASYNC)


if __name__ == "__main__":
    main(reply_fd=int(sys.argv[1]), lifeline_fd=int(sys.argv[2]))
