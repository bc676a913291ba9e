"""The card (`README.md`) of a bundle: what the model is, what it claims, how to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pocketnas.devices.reading import Reading
from pocketnas.reports.tables import interval, kibibytes, quantity


@dataclass(frozen=True)
class Claims:
    """All that a card says about a model.

    Attributes:
        accuracy: of each exported file on the test split, a fraction, by file name.
        validation_accuracy: of the candidate after proxy training, a fraction.
        search_latency_ms: the latency that the search saw, measured on fresh weights.
        mean, std: per channel, of images in [0, 1].
    """

    name: str
    data: str
    license: str | None
    labels: Sequence[str]
    input_shape: tuple[int, int, int]
    mean: Sequence[float]
    std: Sequence[float]
    arch: Sequence[str]
    accuracy: Mapping[str, float]
    test_images: int
    validation_accuracy: float
    reading: Reading
    search_latency_ms: float
    params: int
    madds: int
    peak_activation_bytes: int
    size_bytes: int
    epochs: int


def card(claims: Claims) -> str:
    """The text of the card, in Markdown."""
    height, width, channels = claims.input_shape
    reading = claims.reading
    threads = "1 thread" if reading.threads == 1 else f"{reading.threads} threads"
    licence = claims.license or "unknown"
    accuracies = "\n".join(
        f"| accuracy of `{file}`, test split ({claims.test_images} images) | {100 * value:.2f} % |"
        for file, value in claims.accuracy.items()
    )
    emulated = " (emulated estimate)" if reading.emulated else ""
    return f"""# {claims.name}

Image classification on {claims.data} ({len(claims.labels)} classes), found by PocketNAS.

| claim | value |
|---|---|
{accuracies}
| accuracy, validation split | {100 * claims.validation_accuracy:.2f} % |
| latency{emulated} | {reading.latency_ms:.4g} ms |
| its 95 % interval | {interval(reading.latency_ci95_ms)} ms |
| latency that the search saw | {claims.search_latency_ms:.4g} ms |
| measured on | {reading.device}, {reading.runtime} {reading.runtime_version}, {threads}, \
{reading.precision} |
| MAdds | {quantity(claims.madds)} |
| params | {quantity(claims.params)} |
| peak activation memory | {kibibytes(claims.peak_activation_bytes)} KiB |
| size of `model.tflite` | {claims.size_bytes / 1e6:.3f} MB |

The weights are those of proxy training ({claims.epochs} epochs from scratch). Each accuracy was
measured on the named file in its runtime, and the latency on the file in this folder; the raw
samples and all conditions are in `reading.json`.

## Architecture

```
{chr(10).join(claims.arch)}
```

## Running it

Input: one image of {height} x {width} x {channels}, float32. Scale pixels to [0, 1], subtract the
mean {_numbers(claims.mean)} and divide by the deviation {_numbers(claims.std)}, per channel.
TFLite takes it as (1, {height}, {width}, {channels}), ONNX as (1, {channels}, {height}, {width}).
Output: `logits`, (1, {len(claims.labels)}); the labels are stored inside both files.

```python
import numpy as np
from ai_edge_litert.interpreter import Interpreter

image = np.zeros((1, {height}, {width}, {channels}), np.float32)  # your normalized image
model = Interpreter("model.tflite").get_signature_runner("serving_default")
logits = model(image=image)["logits"]
print(int(logits.argmax()))
```

## Licence

Of the data: {licence}.
"""


def _numbers(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.4f}" for value in values) + "]"
