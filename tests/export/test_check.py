"""No file that disagrees with torch is handed on, and accuracy is that of the file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from pocketnas.errors import ExportError
from pocketnas.export import Exported, Parity, evaluate_file, export_network, tflite
from pocketnas.export.check import check_parity
from pocketnas.export.graph import Add, AveragePool, Conv, Graph, Op
from pocketnas.export.onnx import write_onnx
from pocketnas.export.tflite import write_tflite
from pocketnas.searchspace import parse_arch
from tests.export.networks import built, small

SHAPE = (12, 12, 3)
ARCH = parse_arch("stem_c8_s2,ir_r2_k3_s2_e3_c8_se0.25,ds_r1_k3_s2_c8_pool,head_c16")


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return built(ARCH, SHAPE, 3).eval()


@pytest.fixture(scope="module")
def exported(network: nn.Module) -> Exported:
    return export_network(network, SHAPE)


def check(network: nn.Module, graph: Graph, exported: Exported) -> Parity:
    """Check what a changed graph gives; both files must be refused alike."""
    with pytest.raises(ExportError, match="TFLite file disagrees with torch"):
        check_parity(network, SHAPE, write_tflite(graph, "{}"), exported.onnx)
    return check_parity(network, SHAPE, exported.tflite, write_onnx(graph, "{}"))


def changed(graph: Graph, number: int, op: Op) -> Graph:
    return replace(graph, ops=(*graph.ops[:number], op, *graph.ops[number + 1 :]))


def test_weights_that_are_off_by_a_hundredth_are_seen_in_either_file(
    network: nn.Module, exported: Exported
) -> None:
    for number, op in enumerate(exported.graph.ops):
        if isinstance(op, Conv) and op.shape[1] > 1:
            graph = changed(exported.graph, number, replace(op, weight=op.weight * 1.01))
            with pytest.raises(ExportError, match="ONNX file disagrees with torch by"):
                check(network, graph, exported)


@pytest.mark.parametrize("kind", [Conv, Add, AveragePool])
def test_a_wrong_activation_is_seen(
    network: nn.Module, exported: Exported, kind: type[Conv | Add | AveragePool]
) -> None:
    number, op = next(
        (number, op)
        for number, op in reversed(list(enumerate(exported.graph.ops)))
        if isinstance(op, kind) and op.activation is None
    )
    graph = changed(exported.graph, number, replace(op, activation="relu6"))
    with pytest.raises(ExportError, match="ONNX file disagrees with torch by"):
        check(network, graph, exported)


def test_padding_on_the_wrong_side_is_seen(
    network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tflite, "is_same_padding", lambda window, size: True)
    with pytest.raises(ExportError, match="TFLite file disagrees with torch by"):
        export_network(network, SHAPE)


def test_faint_logits_are_no_excuse(network: nn.Module, exported: Exported) -> None:
    faint = built(ARCH, SHAPE, 3).eval()
    with torch.no_grad():
        faint.classifier.weight.mul_(1e-6)
    assert export_network(faint, SHAPE).parity.scale < 1e-4
    with pytest.raises(ExportError, match="TFLite file disagrees with torch by"):
        check_parity(faint, SHAPE, exported.tflite, exported.onnx)


def test_a_classifier_of_zeros_exports() -> None:
    network = small(nn.ReLU(), channels=3)
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    assert export_network(network, SHAPE).parity == Parity(0, 0, 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("blocks.0.1.conv_pw.weight", r"blocks\.0\.1\.conv_pw"),
        ("blocks.0.0.bn2.running_var", r"blocks\.0\.0\.bn2"),
        ("classifier.bias", "classifier"),
    ],
)
def test_diverged_weights_are_named(name: str, module: str, value: float) -> None:
    network = built(ARCH, SHAPE, 3)
    network.state_dict()[name].view(-1)[0] = value
    with pytest.raises(ExportError, match=f"'{module}' .*weights are not finite, .*diverged"):
        export_network(network, SHAPE)


def test_logits_that_overflow_are_refused() -> None:
    network = built(ARCH, SHAPE, 3)
    with torch.no_grad():
        network.bn2.bias.fill_(1e30)
        network.classifier.weight.fill_(1e30)
    with pytest.raises(ExportError, match="logits are not finite"):
        export_network(network, SHAPE)


@pytest.mark.parametrize("runtime", ["LiteRT", "ONNX Runtime"])
def test_files_that_a_runtime_refuses_are_an_export_error(
    network: nn.Module, exported: Exported, runtime: str
) -> None:
    files = [exported.tflite, exported.onnx]
    number = 0 if runtime == "LiteRT" else 1
    files[number] = files[number][: len(files[number]) // 2]
    with pytest.raises(ExportError, match=f"{runtime} refuses the exported file"):
        check_parity(network, SHAPE, *files)


@dataclass(frozen=True)
class Split:
    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Data:
    name: str
    labels: tuple[str, ...]
    test: Split


def test_accuracy_is_that_of_the_file_on_normalized_test_images(tmp_path: Path) -> None:
    network = built(ARCH, SHAPE, 3).eval()
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    images = np.random.default_rng(0).integers(0, 256, (300, *SHAPE), np.uint8)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    with torch.inference_mode():
        logits = network(
            (pixels - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
        )
    labels = logits.argmax(1).numpy().copy()
    assert len(set(labels)) > 1
    labels[:60] = (labels[:60] + 1) % 3
    data = Data("noise", ("a", "b", "c"), Split(images, labels))
    exported = export_network(network, SHAPE, labels=data.labels, normalization=(mean, std))
    for path in exported.write(tmp_path):
        assert evaluate_file(path, data) == pytest.approx(0.8, abs=0.004)

    with pytest.raises(ExportError, match=r"knows the classes a, b, c, .* data set letters"):
        evaluate_file(path, replace(data, name="letters", labels=("x", "y", "z")))
    bare = export_network(network, SHAPE).write(tmp_path)[0]
    with pytest.raises(ExportError, match="does not say how its images are normalized"):
        evaluate_file(bare, data)
