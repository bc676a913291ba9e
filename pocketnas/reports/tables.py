"""Tables for the terminal, and the same rows as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketnas.files import write_atomic, write_json, writing
from pocketnas.reports.summary import Model, RunSummary, model_to_dict

if TYPE_CHECKING:
    from rich.console import RenderableType


def front_table(summary: RunSummary) -> RenderableType:
    """The front, fastest first; the model with the best reward is marked."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("trial", "accuracy", "latency", "95 % interval", "reward", "params", "MAdds"):
        table.add_column(name, justify="right", no_wrap=True)
    best = summary.best
    for model in summary.front:
        marked = best is not None and model.key == best.key
        table.add_row(
            f"{'* ' if marked else ''}{model.trial}",
            f"{100 * model.accuracy:.2f} %",
            f"{model.latency_ms:.4g} ms",
            interval(model.latency_ci95_ms),
            f"{model.reward:.4f}",
            quantity(model.params),
            quantity(model.madds),
            style="bold" if marked else None,
        )
    return table


def conditions_line(summary: RunSummary) -> str:
    """Under which conditions the numbers of a run hold, in one line."""
    at = summary.conditions
    threads = "1 thread" if at["threads"] == 1 else f"{at['threads']} threads"
    emulated = ", emulated estimate" if at["emulated"] else ""
    return f"{at['device']}{emulated}, {at['runtime']}, {threads}, {at['precision']}"


def outcome_line(summary: RunSummary) -> str:
    """How many trials there were, and what became of them."""
    parts = [
        f"{count} {what}"
        for count, what in (
            (summary.trials_infeasible, "infeasible"),
            (summary.trials_failed, "failed"),
            (summary.trials_repeated, "repeated"),
        )
        if count
    ]
    inside = f" ({', '.join(parts)})" if parts else ""
    return f"{summary.trials_finished} of {summary.config.trials} trials{inside}"


def to_csv(models: tuple[Model, ...]) -> str:
    """Models as CSV, a row each; the arch is one cell."""
    import pandas

    rows = []
    for model in models:
        row = model_to_dict(model)
        row["latency_low_ms"], row["latency_high_ms"] = row.pop("latency_ci95_ms")
        row["arch"] = model.arch
        rows.append(row)
    columns = [
        "trial",
        "key",
        "accuracy",
        "latency_ms",
        "latency_low_ms",
        "latency_high_ms",
        "reward",
        "params",
        "madds",
        "peak_activation_bytes",
        "arch",
    ]
    return str(pandas.DataFrame(rows, columns=columns).to_csv(index=False))


def write_front(summary: RunSummary) -> None:
    """Write `front.json` and `front.csv` into the run folder.

    Raises:
        RunError: they cannot be written.
    """
    with writing(
        summary.folder, "free some space; `pocketnas front` shows the front all the same"
    ):
        write_json(summary.folder / "front.json", summary.to_dict())
        write_atomic(summary.folder / "front.csv", to_csv(summary.front))


def interval(ci95_ms: tuple[float, float]) -> str:
    """A 95 % interval in ms, with as many digits as tell its ends apart."""
    low, high = ci95_ms
    return f"{low:.4g} to {high:.4g}"


def quantity(number: int) -> str:
    """A count with a metric suffix: 3504872 is 3.50 M."""
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.2f}{suffix}"
    return str(number)


def kibibytes(number: int) -> str:
    """Bytes in KiB: 6021120 is 5,880.0."""
    return f"{number / 1024:,.1f}"
