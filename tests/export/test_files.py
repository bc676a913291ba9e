"""What is in the files, what they say about themselves, and what an export leaves untouched."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

import pocketnas.export
from pocketnas.errors import ExportError
from pocketnas.export import Exported, export_network, read_metadata
from pocketnas.searchspace import build_network, parse_arch
from tests.export.networks import built

SHAPE = (10, 12, 3)
ARCH = parse_arch("stem_c8_s2,ir_r2_k3_s2_e3_c8_se0.25,head_c16")
LABELS = ("Katze", "猫", 'a "cat"')
NORMALIZATION = ((0.5, 0.25, 0.125), (0.1, 0.2, 0.3))


@pytest.fixture(scope="module")
def exported() -> Exported:
    return export_network(
        built(ARCH, SHAPE, 3),
        SHAPE,
        labels=LABELS,
        normalization=NORMALIZATION,
        metadata={"license": "CC0", "data": "cats"},
    )


@pytest.fixture(scope="module")
def files(exported: Exported, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return exported.write(tmp_path_factory.mktemp("files"))


def test_both_files_have_named_ends_and_agree_when_an_app_runs_them(
    files: tuple[Path, Path],
) -> None:
    images = np.random.default_rng(1).standard_normal((1, *SHAPE), dtype=np.float32)
    with torch.inference_mode():
        expected = built(ARCH, SHAPE, 3).eval()(torch.from_numpy(images).permute(0, 3, 1, 2))

    interpreter = Interpreter(str(files[0]))
    assert interpreter.get_signature_list() == {
        "serving_default": {"inputs": ["image"], "outputs": ["logits"]}
    }
    (image,) = interpreter.get_input_details()
    (logits,) = interpreter.get_output_details()
    assert (image["name"], image["dtype"], image["shape"].tolist()) == (
        *("image", np.float32),
        [1, 10, 12, 3],
    )
    assert (logits["name"], logits["dtype"], logits["shape"].tolist()) == (
        *("logits", np.float32),
        [1, 3],
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(image["index"], images)
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(logits["index"]), expected, atol=1e-5)

    session = onnxruntime.InferenceSession(str(files[1]))
    (image,), (logits,) = session.get_inputs(), session.get_outputs()
    assert (image.name, image.type, image.shape) == ("image", "tensor(float)", [1, 3, 10, 12])
    assert (logits.name, logits.type, logits.shape) == ("logits", "tensor(float)", [1, 3])
    got = session.run(["logits"], {"image": images.transpose(0, 3, 1, 2)})[0]
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_metadata_reads_back_from_both_files(files: tuple[Path, Path]) -> None:
    for path in files:
        metadata = read_metadata(path)
        assert metadata.labels == LABELS
        assert (metadata.mean, metadata.std) == NORMALIZATION
        assert metadata.notes == {"data": "cats", "license": "CC0"}


def test_metadata_can_be_read_without_pocketnas(files: tuple[Path, Path]) -> None:
    model = schema.ModelT.InitFromPackedBuf(files[0].read_bytes())
    (entry,) = model.metadata
    assert entry.name == b"pocketnas"
    in_tflite = json.loads(bytes(model.buffers[entry.buffer].data))
    (prop,) = onnx.load(files[1]).metadata_props
    assert prop.key == "pocketnas"
    assert in_tflite == json.loads(prop.value)
    assert in_tflite["labels"] == list(LABELS)
    assert in_tflite["normalization"] == {"mean": [0.5, 0.25, 0.125], "std": [0.1, 0.2, 0.3]}


def test_normalization_is_of_pixels_between_0_and_1(files: tuple[Path, Path]) -> None:
    images = np.array([[[[0, 51, 255]]]], np.uint8)
    normalized = read_metadata(files[0]).normalize(images)
    assert normalized.dtype == np.float32
    expected = [(0 - 0.5) / 0.1, (0.2 - 0.25) / 0.2, (1 - 0.125) / 0.3]
    np.testing.assert_allclose(normalized[0, 0, 0], expected, rtol=1e-5)


def test_files_without_metadata_say_nothing(exported: Exported, tmp_path: Path) -> None:
    model = schema.ModelT.InitFromPackedBuf(exported.tflite)
    model.metadata = None
    builder = pocketnas.export.tflite._AlignedBuilder()
    builder.Finish(model.Pack(builder), b"TFL3")
    (tmp_path / "plain.tflite").write_bytes(bytes(builder.Output()))
    plain = onnx.load_model_from_string(exported.onnx)
    del plain.metadata_props[:]
    onnx.save(plain, tmp_path / "plain.onnx")
    for name in ("plain.tflite", "plain.onnx"):
        metadata = read_metadata(tmp_path / name)
        assert (metadata.labels, metadata.mean, metadata.std) == (None, None, None)


def test_other_files_are_refused(exported: Exported, tmp_path: Path) -> None:
    path = tmp_path / "model"
    with pytest.raises(ExportError, match="cannot be read: No such file"):
        read_metadata(path)
    for content in (b"", b"<html>", b"\x00\x00\x00\x00TFL3", os.urandom(5000), exported.onnx[1:]):
        path.write_bytes(content)
        with pytest.raises(ExportError, match=r"neither a TFLite nor an ONNX|damaged"):
            read_metadata(path)
    for content in (exported.tflite, exported.onnx):
        path.write_bytes(content.replace(b'"format": 1', b'"format": 2'))
        with pytest.raises(ExportError, match=r"damaged: .*not of format 1"):
            read_metadata(path)


def test_a_damaged_tflite_file_never_ends_in_a_traceback(
    exported: Exported, tmp_path: Path
) -> None:
    generator = np.random.default_rng(0)
    path = tmp_path / "model.tflite"
    refused = 0
    for _ in range(200):
        content = bytearray(exported.tflite[: generator.integers(8, len(exported.tflite))])
        for place in generator.integers(8, len(content), 20) if len(content) > 8 else []:
            content[place] = generator.integers(256)
        path.write_bytes(content)
        try:
            read_metadata(path)
        except ExportError:
            refused += 1
    assert refused > 100


def test_the_onnx_file_is_valid_and_old_runtimes_can_read_it(exported: Exported) -> None:
    model = onnx.load_model_from_string(exported.onnx)
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 8
    assert [entry.version for entry in model.opset_import] == [17]


def test_buffers_of_the_tflite_file_are_aligned_as_its_schema_asks(exported: Exported) -> None:
    model = schema.Model.GetRootAs(exported.tflite)
    for number in range(1, model.BuffersLength()):
        buffer = model.Buffers(number)
        start = buffer._tab.Vector(buffer._tab.Offset(4))
        assert start % 16 == 0
    for number in range(model.OperatorCodesLength()):
        code = model.OperatorCodes(number)
        assert code.DeprecatedBuiltinCode() == min(code.BuiltinCode(), 127)


def test_the_same_network_gives_the_same_bytes_in_another_process(exported: Exported) -> None:
    program = (
        "import hashlib\n"
        "from tests.export.test_files import *\n"
        "again = export_network(built(ARCH, SHAPE, 3), SHAPE, labels=LABELS,\n"
        "    normalization=NORMALIZATION, metadata={'data': 'cats', 'license': 'CC0'})\n"
        "print([hashlib.sha256(b).hexdigest() for b in (again.tflite, again.onnx)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=os.environ | {"PYTHONHASHSEED": "123"},
        cwd=Path(__file__).parents[2],
    )
    hashes = [hashlib.sha256(content).hexdigest() for content in (exported.tflite, exported.onnx)]
    assert done.stdout.strip() == str(hashes)


def test_the_graphs_hash_depends_on_the_structure_and_on_nothing_else(exported: Exported) -> None:
    def graph_sha256(text: str = str(ARCH), shape: tuple[int, int, int] = SHAPE) -> str:
        return export_network(built(parse_arch(text), shape, 3, seed=9), shape).graph_sha256

    assert graph_sha256() == exported.graph_sha256
    others = {
        graph_sha256(str(ARCH).replace("_k3", "_k5")),
        graph_sha256(str(ARCH).replace("_s2_e3", "_s1_e3")),
        graph_sha256(str(ARCH).replace("stem_c8_s2", "stem_c8_s2_nr6")),
        graph_sha256(str(ARCH) + "_nhs"),
        graph_sha256(str(ARCH).replace("_se0.25", "")),
        graph_sha256(str(ARCH).replace("_se0.25", "_se0.25_noskip")),
        graph_sha256(shape=(10, 14, 3)),
    }
    assert len(others - {exported.graph_sha256}) == 7


def test_an_export_leaves_the_network_and_torch_as_they_were() -> None:
    network = build_network(ARCH, SHAPE, 3, dropout=0.5).train()
    network.bn1.eval()  # as where a batch norm is frozen
    modes = [module.training for module in network.modules()]
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    torch.manual_seed(5)
    try:
        exported = export_network(network, SHAPE)
        with pytest.raises(ExportError):
            export_network(network, (10, 12, 4))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert [module.training for module in network.modules()] == modes
    assert all(torch.equal(state[name], tensor) for name, tensor in network.state_dict().items())
    assert torch.initial_seed() == 5
    with torch.no_grad():
        network.classifier.weight.fill_(7)
    linear = exported.graph.ops[-1]
    assert not (getattr(linear, "weight") == 7).any()  # noqa: B009 - only a Linear has one


def test_memory_layout_makes_no_difference() -> None:
    network = built(ARCH, SHAPE, 3)
    plain = export_network(network, SHAPE)
    other = export_network(network.to(memory_format=torch.channels_last), SHAPE)
    assert (plain.tflite, plain.onnx) == (other.tflite, other.onnx)


def test_written_files_are_what_was_checked_and_replace_older_ones(
    exported: Exported, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        tflite, onnx_path = exported.write(folder)
        assert tflite.read_bytes() == exported.tflite
        assert onnx_path.read_bytes() == exported.onnx
    assert sorted(path.name for path in folder.iterdir()) == ["model.onnx", "model.tflite"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"labels": ["a", "b"]}, "2 labels were given for a network of 3 classes"),
        ({"normalization": ([0.5], [0.5] * 3)}, "mean has 1 values, but the images have 3"),
        ({"normalization": ([0.5] * 3, [0.5, 0.0, 0.5])}, "std must be positive"),
        ({"normalization": ([0.5, math.nan, 0], [0.5] * 3)}, "mean is not finite"),
        ({"normalization": ([0.5] * 3, [0.5, math.inf, 0.5])}, "std is not finite"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(ExportError, match=named):
        export_network(built(ARCH, SHAPE, 3), SHAPE, **arguments)  # type: ignore[arg-type]


def test_importing_the_package_is_cheap_and_every_public_name_is_there() -> None:
    heavy = "print(sorted({'torch', 'onnx', 'onnxruntime', 'ai_edge_litert'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, pocketnas.export; {heavy}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"
    for name in pocketnas.export.__all__:
        assert getattr(pocketnas.export, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pocketnas.export.nothing
