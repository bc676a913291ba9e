"""Every network that can be searched exports, and its files agree with torch.

Each export checks its files against torch in LiteRT and in ONNX Runtime, to 1e-4; the tests hold
it to much less than that.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketnas.export import Exported, export_network
from pocketnas.export.fuse import fuse
from pocketnas.export.onnx import write_onnx
from pocketnas.export.tflite import write_tflite
from pocketnas.export.trace import trace
from pocketnas.searchspace import PUBLISHED, Arch, load_space, parse_arch
from pocketnas.searchspace.published import published
from tests.export.networks import (
    ALLOWED_ONNX,
    ALLOWED_TFLITE,
    built,
    onnx_ops,
    runs_whole_in_xnnpack,
    tflite_ops,
)
from tests.searchspace.strategies import small_archs


def assert_good(exported: Exported) -> None:
    assert exported.parity.tflite_relative_error < 2e-5
    assert exported.parity.onnx_relative_error < 2e-5
    assert set(tflite_ops(exported.tflite)) <= ALLOWED_TFLITE  # and so no TRANSPOSE, no RESHAPE
    assert set(onnx_ops(exported.onnx)) <= ALLOWED_ONNX


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_samples_of_the_whole_mnasnet_space_export(seed: int) -> None:
    space = load_space("mnasnet")
    generator = np.random.default_rng(seed)
    for _ in range(25):
        arch = space.decode(space.sample(generator))
        assert_good(export_network(built(arch, seed=seed), (32, 32, 3)))


@pytest.mark.parametrize(
    ("name", "shape"), [("mnasnet-cifar", (32, 32, 3)), ("mnasnet-mini", (8, 8, 1))]
)
def test_samples_of_the_small_spaces_export(name: str, shape: tuple[int, int, int]) -> None:
    space = load_space(name)
    generator = np.random.default_rng(0)
    for _ in range(10):
        exported = export_network(built(space.decode(space.sample(generator)), shape), shape)
        assert_good(exported)
        assert runs_whole_in_xnnpack(exported.tflite)


@pytest.mark.parametrize("name", [*PUBLISHED, "mnasnet_a1@0.5", "mobilenet_v2@1.4"])
def test_published_networks_export_and_run_whole_in_xnnpack(name: str) -> None:
    exported = export_network(built(published(name), (96, 96, 3), 1000), (96, 96, 3))
    assert_good(exported)
    assert runs_whole_in_xnnpack(exported.tflite)


@settings(deadline=None, max_examples=40)
@given(small_archs(), st.integers(1, 33), st.integers(1, 33), st.integers(1, 4))
def test_any_arch_exports_at_any_image_size(
    arch: Arch, height: int, width: int, channels: int
) -> None:
    shape = (height, width, channels)
    assert_good(export_network(built(arch, shape), shape))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 15])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_every_kind_of_shortcut_activation_and_padding_exports(size: int, kernel: int) -> None:
    arch = parse_arch(
        f"stem_c8_s2_nhs,cn_r2_k{kernel}_s1_c8_se0.5_pool,ds_r2_k{kernel}_s2_c8_nhs_pool,"
        f"ir_r2_k{kernel}_s2_e3_c8_se0.25_nr6,ir_r2_k{kernel}_s1_e2_c8_nhs_noskip,"
        f"cn_r2_k{kernel}_s2_c8_nr6,head_c24_nhs"
    )
    exported = export_network(built(arch, (size, size + 1, 3)), (size, size + 1, 3))
    assert_good(exported)
    assert runs_whole_in_xnnpack(exported.tflite)


def test_mobilenet_v2_is_written_in_a_tenth_of_a_second_each() -> None:
    network = built(published("mobilenet_v2"), (224, 224, 3), 1000).eval()
    seconds: dict[str, list[float]] = {"tflite": [], "onnx": []}
    for _ in range(5):
        for name, write in (("tflite", write_tflite), ("onnx", write_onnx)):
            started = time.thread_time()
            write(fuse(trace(network, (224, 224, 3))), "{}")
            seconds[name].append(time.thread_time() - started)
    assert min(seconds["tflite"]) < 0.1
    assert min(seconds["onnx"]) < 0.1


def test_batch_norms_activations_and_flattening_leave_no_operator_of_their_own() -> None:
    arch = parse_arch("stem_c8_s1,ir_r2_k3_s1_e2_c8_se0.5,head_c16")
    exported = export_network(built(arch), (32, 32, 3))
    squeeze = ["MEAN", "CONV_2D", "CONV_2D", "LOGISTIC", "MUL"]
    layer = ["CONV_2D", "DEPTHWISE_CONV_2D", *squeeze, "CONV_2D", "ADD"]
    assert tflite_ops(exported.tflite) == [
        *["CONV_2D", *layer, *layer],
        *["CONV_2D", "MEAN", "FULLY_CONNECTED"],
    ]
