"""One command, `pocketnas`, thin over the Python API."""

from __future__ import annotations

import errno
import os
import signal
import sys
from types import FrameType

import click

from pocketnas import __version__
from pocketnas.cli.benchmark import benchmark
from pocketnas.cli.describe import describe
from pocketnas.cli.export import export
from pocketnas.cli.front import front
from pocketnas.cli.search import search
from pocketnas.errors import PocketNASError

INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 99})
@click.version_option(__version__, prog_name="pocketnas")
def command() -> None:
    """Hardware-aware neural architecture search with the phone in the loop.

    \b
    pocketnas search --space mnasnet-mini --data digits    search, and show the front
    pocketnas front RUN                                    show the front of a run
    pocketnas export RUN --out DIR                         ship the front as bundles

    An ARCH is a published name (mobilenet_v2, mnasnet_a1@0.75, ...), a path to an arch.json or a
    bundle, or block strings separated by commas.

    Exit codes: 0 done, 1 failed, 2 bad usage, 3 no usable device, 130 interrupted.
    """


for subcommand in (search, front, export, describe, benchmark):
    command.add_command(subcommand)


def main() -> None:
    """Run the command line; errors that a user can cause are one sentence, never a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    _open_standard_streams()
    try:
        command.main(standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the end has begun: a second Ctrl-C is no news
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except PocketNASError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        # What is still to be flushed as Python exits would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno != errno.EPIPE:  # a reader that has gone (`| head`) needs no telling
            where = f"'{error.filename}'" if error.filename else "standard output"
            click.echo(f"error: cannot read or write {where}: {error.strerror}", err=True)
        sys.exit(1)


def _open_standard_streams() -> None:
    """Let a closed standard stream lead nowhere.

    Otherwise the next file to be opened takes its number, and what a runtime prints lands in it:
    in the study, say.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
