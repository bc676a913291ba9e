"""How much each habit of the trainer is worth on this CPU: ratios from one interleaved run.

Each variant trains in a process of its own (kept memory cannot be given up again) on one thread,
and the variants take turns for several rounds. What is compared is CPU time, workers included:
other load on the machine disturbs that far less than it does the clock.

    python benchmarks/training.py [--rounds 5] [--images 512]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Generator, Iterable

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from pocketnas.nas.batches import Batches, Normalizer
from pocketnas.nas.data import Dataset, Split, load_data
from pocketnas.nas.memory import keep_freed_memory
from pocketnas.searchspace import build_network, load_space

TASKS = {"mnasnet-mini": 28, "mnasnet-cifar": 32}
VARIANTS = {
    "as PocketNAS trains": {},
    "default layout": {"channels_last": False},
    "freed memory given back": {"keep_memory": False},
    "DataLoader, no workers": {"workers": 0},
    "DataLoader, 2 workers": {"workers": 2},
}
BATCH, WARM_UP_STEPS = 32, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=512, help="timed per variant and round")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(cpu_ms_per_image(*options.child, options.images)))
        return
    for space, side in TASKS.items():
        costs: dict[str, list[float]] = {name: [] for name in VARIANTS}
        for _ in range(options.rounds):
            for name in VARIANTS:
                costs[name].append(run_child(space, name, options.images))
        print(f"\n{space} base network, {side} x {side} pixels, one thread, batch {BATCH}")
        print(f"{'':26}{'CPU ms/image':>14}{'ours = 1':>11}   (rounds)")
        ours = costs["as PocketNAS trains"]
        for name, values in costs.items():
            ratios = [value / own for own, value in zip(ours, values, strict=True)]
            print(
                f"{name:26}{statistics.median(values):14.3f}{statistics.median(ratios):11.2f}"
                f"   ({min(ratios):.2f} to {max(ratios):.2f})"
            )


def run_child(space: str, variant: str, images: int) -> float:
    command = [sys.executable, __file__, "--images", str(images), "--child", space, variant]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def cpu_ms_per_image(space: str, variant: str, images: int) -> float:
    """Train for a while as a variant does, and count without its start."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    choices = {"channels_last": True, "keep_memory": True, "workers": None, **VARIANTS[variant]}
    if choices["keep_memory"]:
        keep_freed_memory()
    dataset = load_data("digits", resolution=TASKS[space])
    network = build_network(load_space(space).base, dataset.input_shape, dataset.classes)
    layout = torch.channels_last if choices["channels_last"] else torch.contiguous_format
    network = network.to(memory_format=layout)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    seen, started = 0, 0.0
    batches = endless(source(dataset, choices["workers"]))
    for step, (batch, labels) in enumerate(batches):
        if step == WARM_UP_STEPS:
            seen, started = 0, cpu_seconds()
        if not choices["channels_last"]:
            # `contiguous()` would do nothing to one channel, whose strides could be of either.
            batch = batch.clone(memory_format=torch.contiguous_format)
        loss = functional.cross_entropy(network(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(labels)
        if started and seen >= images:
            break
    batches.close()  # Ends the workers; what they computed counts from then on.
    return 1000 * (cpu_seconds() - started) / seen


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def source(dataset: Dataset, workers: int | None) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
    """Batches in memory, or those of a `DataLoader` that normalizes image by image."""
    normalizer = Normalizer(dataset.mean, dataset.std, torch.device("cpu"))
    if workers is None:
        generator = torch.Generator().manual_seed(0)
        return Batches(dataset.train, normalizer, BATCH, "none", generator)
    return DataLoader(
        Normalized(dataset.train, normalizer), BATCH, shuffle=True, num_workers=workers
    )


class Normalized(TensorDataset):
    """Single normalized images, as a `DataLoader` takes them."""

    def __init__(self, split: Split, normalizer: Normalizer) -> None:
        super().__init__(torch.from_numpy(split.images), torch.from_numpy(split.labels))
        self.normalizer = normalizer

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        image, label = super().__getitem__(index)
        return self.normalizer(image[None])[0], label


def endless(batches: Iterable) -> Generator:
    while True:
        yield from batches


if __name__ == "__main__":
    main()
