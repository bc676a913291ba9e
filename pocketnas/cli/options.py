"""Options that several commands share, spelled and explained alike everywhere."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

Command = TypeVar("Command", bound=Callable[..., Any])
NARROWEST = 80


def json_option(command: Command) -> Command:
    """`--json`: one JSON object on standard output and nothing else there."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object on standard output, and nothing else there.",
    )(command)


def device_options(command: Command) -> Command:
    """`--device`, `--runtime`, `--threads` and `--measure-limit-s`."""
    for option in (
        click.option(
            "--measure-limit-s",
            type=float,
            default=10.0,
            show_default=True,
            metavar="S",
            help="Seconds that one measuring attempt may take at most.",
        ),
        click.option(
            "--threads", type=int, default=1, show_default=True, help="Inference threads."
        ),
        click.option(
            "--runtime",
            type=click.Choice(["litert", "onnx"]),
            default="litert",
            show_default=True,
            help="What runs the model: LiteRT (TFLite) or ONNX Runtime.",
        ),
        click.option(
            "--device",
            default="auto",
            show_default=True,
            help="Where to time: host (this machine's CPU), or auto for the best there is.",
        ),
    ):
        command = option(command)
    return command


def shape_options(command: Command) -> Command:
    """`--resolution`, `--channels`, `--classes`: the task of an arch that stands alone."""
    for option in (
        click.option(
            "--classes",
            type=click.IntRange(1, 1_000_000),
            help="Number of classes.  [default: the arch file's, else 1000]",
        ),
        click.option(
            "--channels",
            type=click.IntRange(1, 1024),
            help="Channels of an image.  [default: the arch file's, else 3]",
        ),
        click.option(
            "--resolution",
            type=click.IntRange(1, 4096),
            help="Height and width of an image in pixels.  [default: the arch file's, else 224]",
        ),
    ):
        command = option(command)
    return command


def print_json(value: Any) -> None:
    """Write one JSON object to standard output."""
    click.echo(json_module.dumps(value, indent=2, allow_nan=False))


def output() -> Console:
    """Standard output for tables: as wide as the terminal, or as the table where there is none.

    A terminal that is too narrow breaks the lines, which is better than cutting the numbers off.
    """
    from rich.console import Console

    width = max(Console().width, NARROWEST) if sys.stdout.isatty() else 200
    return Console(highlight=False, width=width)


def quiet_optuna() -> None:
    """Keep Optuna's own notes off the screen; what matters of them the commands say themselves."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
