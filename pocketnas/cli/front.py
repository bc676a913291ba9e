"""`pocketnas front`: the Pareto-optimal models of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pocketnas.cli.options import json_option, output, print_json
from pocketnas.errors import UsageError

if TYPE_CHECKING:
    from pocketnas.reports.summary import RunSummary


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--csv", "as_csv", is_flag=True, help="Print the front as CSV.")
@click.option("--all", "everything", is_flag=True, help="With --csv: every finished model.")
@json_option
def front(run: Path, as_csv: bool, everything: bool, as_json: bool) -> None:
    """Show the front of RUN, also while its search goes on.

    Accuracy is that of the validation split after proxy training; the model with the best reward
    is marked with *.
    """
    from pocketnas.reports.summary import read_run
    from pocketnas.reports.tables import to_csv

    if as_csv and as_json:
        raise UsageError("choose one of --csv and --json")
    if everything and not as_csv:
        raise UsageError("--all goes with --csv")
    summary = read_run(run)
    if as_json:
        print_json(summary.to_dict())
    elif as_csv:
        click.echo(to_csv(summary.models if everything else summary.front), nl=False)
    else:
        print_front(summary)


def print_front(summary: RunSummary) -> None:
    """The front as a table, with what it was measured on."""
    from pocketnas.reports.tables import conditions_line, front_table, outcome_line

    console = output()
    target = "" if summary.target_ms is None else f", target {summary.target_ms:.4g} ms"
    console.print(f"{summary.folder}: {outcome_line(summary)}", markup=False)
    console.print(
        f"{summary.conditions['data']} on {conditions_line(summary)}{target}", markup=False
    )
    if summary.front:
        console.print(front_table(summary))
        for model in summary.front:
            console.print(f"{model.trial}: {model.arch}", markup=False, soft_wrap=True)
    else:
        console.print("no candidate has finished yet, so there is no front")
