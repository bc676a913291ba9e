"""How long an export takes, and how fast its files run; ratios hold better than times.

    python benchmarks/export.py [ARCH] [--resolution 224] [--classes 1000] [--rounds 15]

Everything runs on one thread, whose CPU time is taken, and what is compared takes turns: other
programs on the machine disturb that least. Where the package litert-torch can be imported, our
TFLite file is timed against the one that it makes of the same network.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from ai_edge_litert.interpreter import Interpreter
from torch import nn

from pocketnas.export.check import check_parity
from pocketnas.export.fuse import fuse
from pocketnas.export.onnx import write_onnx
from pocketnas.export.tflite import write_tflite
from pocketnas.export.trace import trace
from pocketnas.searchspace import build_network, resolve_arch

RUNS_PER_ROUND = 10


def main() -> None:
    parser = argparse.ArgumentParser(description="How long an export takes, and how fast it runs.")
    parser.add_argument("arch", nargs="?", default="mobilenet_v2")
    parser.add_argument("--resolution", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = (options.resolution, options.resolution, 3)
    network = build_network(resolve_arch(options.arch), shape, options.classes).eval()
    print(f"{options.arch} at {shape[0]} x {shape[1]}, {options.classes} classes\n")
    tflite = time_export(network, shape, options.rounds)
    if importlib.util.find_spec("litert_torch"):
        time_inference(network, shape, tflite, options.rounds)
    else:
        print("\nlitert-torch cannot be imported here: no comparison with its file")


def time_export(network: nn.Module, shape: tuple[int, int, int], rounds: int) -> bytes:
    """Print what each step of an export takes; returns the TFLite file."""
    graph = fuse(trace(network, shape))
    tflite, onnx = write_tflite(graph, "{}"), write_onnx(graph, "{}")
    rows = {
        "TFLite: trace, fuse, write": lambda: write_tflite(fuse(trace(network, shape)), "{}"),
        "ONNX: trace, fuse, write": lambda: write_onnx(fuse(trace(network, shape)), "{}"),
        "trace and fuse alone": lambda: fuse(trace(network, shape)),
        "check in both runtimes": lambda: check_parity(network, shape, tflite, onnx),
        "torch.onnx.export, TorchScript": lambda: torch_export(network, shape, dynamo=False),
    }
    if importlib.util.find_spec("onnxscript"):
        rows["torch.onnx.export, dynamo"] = lambda: torch_export(network, shape, dynamo=True)
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, step in rows.items():
            seconds[name].append(timed(step))
    print(f"{'step':<32} {'median s':>9} {'best s':>9} {'times ONNX':>11}")
    ours = statistics.median(seconds["ONNX: trace, fuse, write"])
    for name, samples in seconds.items():
        median = statistics.median(samples)
        print(f"{name:<32} {median:9.3f} {min(samples):9.3f} {median / ours:10.1f}x")
    return tflite


def torch_export(network: nn.Module, shape: tuple[int, int, int], *, dynamo: bool) -> None:
    image = torch.zeros(1, shape[2], shape[0], shape[1])
    with warnings.catch_warnings():  # the TorchScript exporter is deprecated
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (image,), io.BytesIO(), dynamo=dynamo, verbose=False)


def time_inference(
    network: nn.Module, shape: tuple[int, int, int], tflite: bytes, rounds: int
) -> None:
    """Print our file's latency in LiteRT as a fraction of that of litert-torch's file."""
    import litert_torch  # type: ignore[import-not-found]

    image = np.random.default_rng(0).standard_normal((1, *shape), dtype=np.float32)
    started = time.perf_counter()
    channels_last = litert_torch.to_channel_last_io(network, args=[0])
    converted = litert_torch.convert(channels_last, (torch.from_numpy(image),))
    seconds = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        converted.export(str(path))
        other = path.read_bytes()
    contents = {"ours": tflite, "litert-torch": other}
    interpreters = {name: loaded(content, image) for name, content in contents.items()}
    logits = [
        interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        for interpreter in interpreters.values()
    ]
    samples: dict[str, list[float]] = {name: [] for name in interpreters}
    for number in range(rounds):
        # Each is the first in every other round.
        for name, interpreter in sorted(interpreters.items(), reverse=number % 2 == 1):
            times = [timed(interpreter.invoke) for _ in range(RUNS_PER_ROUND)]
            samples[name].append(1000 * statistics.median(times))
    print(f"\n{'TFLite file':<14} {'median ms':>10} {'best ms':>9} {'operators':>10}  transposes")
    for name, interpreter in interpreters.items():
        names = [op["op_name"] for op in interpreter._get_ops_details()]
        names = [op for op in names if op != "DELEGATE"]
        print(
            f"{name:<14} {statistics.median(samples[name]):10.3f} {min(samples[name]):9.3f} "
            f"{len(names):10}  {names.count('TRANSPOSE')}"
        )
    ratios = sorted(a / b for a, b in zip(samples["ours"], samples["litert-torch"], strict=True))
    print(
        f"ours / litert-torch, round by round: {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f})"
    )
    print(f"largest difference of a logit: {np.abs(logits[0] - logits[1]).max():.1e}")
    print(f"litert-torch took {seconds:.1f} s to convert")


def loaded(content: bytes, image: np.ndarray) -> Interpreter:
    """An interpreter that has run the image."""
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return interpreter


def timed(step: Callable[[], object]) -> float:
    """CPU time of this thread, in seconds."""
    started = time.thread_time()
    step()
    return time.thread_time() - started


if __name__ == "__main__":
    main()
