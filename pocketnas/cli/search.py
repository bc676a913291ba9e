"""`pocketnas search`: a new search, or `--resume` of an old one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pocketnas.cli.options import device_options, json_option, print_json, quiet_optuna
from pocketnas.errors import UsageError
from pocketnas.nas.recipe import AUGMENTATIONS, TrainSettings

if TYPE_CHECKING:
    from pocketnas.nas.events import OnEvent

RECIPE = TrainSettings()
PROXY_OPTIONS = (
    "epochs",
    "batch_size",
    "learning_rate",
    "label_smoothing",
    "augment",
    "train_images",
)


@click.command()
@click.option(
    "--space",
    default="mnasnet-mini",
    show_default=True,
    help="Search space: mnasnet, mnasnet-cifar, mnasnet-mini, or a TOML file of your own.",
)
@click.option(
    "--data",
    default="digits",
    show_default=True,
    help="Data set: digits, fashion-mnist, or a path (class folders with images, IDX files, "
    "a MedMNIST .npz, CIFAR-10/100 python folder).",
)
@device_options
@click.option(
    "--target-ms",
    type=float,
    metavar="MS",
    help="Latency target T.  [default: the latency of the space's base network, measured first]",
)
@click.option(
    "--reward",
    type=click.Choice(["soft", "hard"]),
    default="soft",
    show_default=True,
    help="accuracy x (latency / T)^w: soft takes w = -0.07 on both sides of T; hard takes 0 "
    "below and -1 above.",
)
@click.option("--alpha", type=float, help="Exponent w up to the target, in place of --reward's.")
@click.option("--beta", type=float, help="Exponent w above the target, in place of --reward's.")
@click.option("--trials", type=int, default=100, show_default=True, help="Trials in all.")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of choices, weights, data order and validation split.",
)
@click.option(
    "--sampler",
    default="ppo",
    show_default=True,
    help="What proposes candidates: ppo (the RNN controller), or Optuna's random, tpe, nsga2, "
    "nsga3 or gp.",
)
@click.option(
    "--epochs",
    type=int,
    default=RECIPE.epochs,
    show_default=True,
    help="Epochs of proxy training.",
)
@click.option(
    "--batch-size",
    type=int,
    default=RECIPE.batch_size,
    show_default=True,
    help="Images in a batch of proxy training.",
)
@click.option(
    "--learning-rate",
    type=float,
    default=RECIPE.learning_rate,
    show_default=True,
    help="Learning rate of proxy training after warm-up; a cosine takes it down to zero.",
)
@click.option(
    "--label-smoothing",
    type=float,
    default=RECIPE.label_smoothing,
    show_default=True,
    help="Share of each label that is spread over all classes.",
)
@click.option(
    "--augment",
    type=click.Choice(AUGMENTATIONS),
    default=RECIPE.augment,
    show_default=True,
    help="Augmentation: none, light (shifts), or mirror (shifts, and half of the images "
    "mirrored).",
)
@click.option(
    "--train-images",
    type=int,
    metavar="N",
    help="Learn from N of the training images only, a stratified choice.  [default: all]",
)
@click.option(
    "--train-threads",
    type=int,
    default=RECIPE.threads,
    show_default=True,
    help="CPU threads of proxy training; more help large networks on an idle machine.",
)
@click.option(
    "--resolution",
    type=click.IntRange(4, 1024),
    help="Height and width of images in pixels.  [default: the data's own, but at most the "
    "space's; for class folders the space's]",
)
@click.option(
    "--max-size-mb",
    type=float,
    metavar="MB",
    help="Refuse candidates whose exported file is larger.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="The run folder to make.  [default: a new one under runs/]",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Continue a run. Of the other options only --trials (the new total) may be given.",
)
@json_option
@click.pass_context
def search(context: click.Context, /, as_json: bool, **options: Any) -> None:
    """Search a space for networks that are accurate and fast.

    Proposes, exports, times and trains candidates, and ends with the front. Interrupt it whenever
    you like: every finished trial is kept, and --resume RUN goes on.
    """
    from rich.console import Console

    from pocketnas.cli.front import print_front
    from pocketnas.cli.progress import SearchProgress
    from pocketnas.reports.summary import read_run
    from pocketnas.reports.tables import write_front

    quiet_optuna()
    given = {
        name
        for name in options
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    console = Console(stderr=True)
    run, start = _prepare(options, given)
    try:
        with SearchProgress(console) as progress:
            start(progress)
    except KeyboardInterrupt:
        if (run / "study.db").exists():
            finished = read_run(run).trials_finished
            click.echo(
                f"stopped after {finished} trials; continue with: pocketnas search --resume {run}",
                err=True,
            )
        raise
    summary = read_run(run)
    write_front(summary)
    if as_json:
        print_json(summary.to_dict())
    else:
        print_front(summary)


def _prepare(options: dict[str, Any], given: set[str]) -> tuple[Path, Callable[[OnEvent], Path]]:
    """The run folder, and what starts or resumes its search, as the options say."""
    from pocketnas.nas.config import SearchConfig
    from pocketnas.nas.run import default_folder
    from pocketnas.nas.search import resume, search

    resumed, out = options.pop("resume"), options.pop("out")
    if resumed is not None:
        extra = sorted(given - {"resume", "trials", "as_json"})
        if extra:
            names = ", ".join("--" + name.replace("_", "-") for name in extra)
            raise UsageError(f"a resumed run keeps its own settings: leave out {names}")
        trials = options["trials"] if "trials" in given else None
        return resumed, lambda on_event: resume(resumed, trials, on_event)
    proxy = TrainSettings(
        threads=options.pop("train_threads"),
        **{name: options.pop(name) for name in PROXY_OPTIONS},
    )
    config = SearchConfig(**options, proxy=proxy)
    run = out or default_folder(config)
    return run, lambda on_event: search(config, run, on_event)
