"""What a search shows while it runs: one live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pocketnas.nas.events import Event, Stage, Started, TrialDone

if TYPE_CHECKING:
    from rich.console import Console

STAGES = {"export": "exporting", "time": "timing", "train": "training"}


class SearchProgress:
    """Prints the events of a search to standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._status = console.status("setting up") if self._live else None
        self._began = time.monotonic()
        self._finished_before = 0
        self._finished = 0
        self._trials = 0
        self._best: float | None = None

    def __enter__(self) -> SearchProgress:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, Started):
            self._start(event)
        elif isinstance(event, Stage):
            self._stage(event)
        else:
            self._done(event)

    def _start(self, event: Started) -> None:
        self._finished_before = self._finished = event.finished
        self._trials = event.trials
        self._began = time.monotonic()
        origin = "base network, measured" if event.target_measured else "as asked"
        self._print(f"run      {event.folder}")
        self._print(f"space    {event.space} ({event.space_size:.3g} archs) on {event.data}")
        self._print(f"device   {event.device}")
        self._print(f"target   {event.target_ms:.4g} ms ({origin})")
        if event.finished:
            self._print(f"resumed  {event.finished} of {event.trials} trials are finished")

    def _stage(self, event: Stage) -> None:
        if self._status is None:
            return
        who = "base network" if event.trial is None else f"trial {event.trial}"
        parts = [f"{who}: {STAGES.get(event.stage, event.stage)} {event.detail}".strip()]
        if self._trials:
            parts.append(f"{self._finished}/{self._trials} done")
        if self._best is not None:
            parts.append(f"best reward {self._best:.4f}")
        if eta := self._eta():
            parts.append(f"{eta} left")
        self._status.update("  |  ".join(parts))

    def _done(self, event: TrialDone) -> None:
        self._finished, self._best = event.finished, event.best_reward
        head = f"[{event.finished:>{len(str(event.trials))}}/{event.trials}] "
        if event.verdict == "finished":
            repeat = f", repeat of {event.repeat_of}" if event.repeat_of is not None else ""
            best = " *" if event.reward == event.best_reward and not repeat else ""
            text = (
                f"{100 * (event.accuracy or 0):6.2f} %  {event.latency_ms:8.4g} ms  "
                f"reward {event.reward:.4f}{best}{repeat}"
            )
        else:
            text = f"{event.verdict}: {event.reason}"
        tail = "" if self._live else f"  ({event.seconds:.1f} s, {self._eta() or '0 s'} left)"
        self._print(head + text + tail)

    def _eta(self) -> str | None:
        """The time left, from the mean of this session's trials."""
        done = self._finished - self._finished_before
        left = self._trials - self._finished
        if not done or not left:
            return None
        seconds = (time.monotonic() - self._began) / done * left
        return duration(seconds)

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Seconds as a person would say them: `8 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
