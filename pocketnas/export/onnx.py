"""Write a graph as an ONNX file, in ONNX's own layout (N, C, H, W)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper

from pocketnas import __version__
from pocketnas.errors import ExportError
from pocketnas.export.graph import (
    INPUT_NAME,
    OUTPUT_NAME,
    Activation,
    Add,
    AveragePool,
    Conv,
    Flatten,
    Fusable,
    Graph,
    Linear,
    Mean,
    Mul,
    Op,
    Shape,
    Window,
)
from pocketnas.export.metadata import KEY

OPSET = 17
IR_VERSION = 8  # the oldest for that opset: runtimes refuse files that are newer than they are
_MAX_BYTES = 2**31 - 2**20  # protobuf's limit, less a megabyte for all that is no weight

_ACTIVATIONS = {"relu": "Relu", "hswish": "HardSwish", "sigmoid": "Sigmoid"}


def write_onnx(graph: Graph, metadata: str) -> bytes:
    """The bytes of an ONNX file, the same ones for the same graph and metadata.

    Args:
        graph: A fused graph.
        metadata: Text to keep in the file's properties, under its key.
    """
    return _Writer(graph).write(metadata)


class _Writer:
    """Collects a model's nodes and constants."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self.bytes = 0

    def write(self, metadata: str) -> bytes:
        for op in self.graph.ops:
            _EMITTERS[type(op)](self, op)
        if self.bytes > _MAX_BYTES:
            raise ExportError(
                f"the network has {self.bytes / 1e9:.1f} GB of weights, more than fit into an "
                "ONNX file: use fewer channels or layers"
            )
        graph = helper.make_graph(
            self.nodes,
            "main",
            [self.end(INPUT_NAME)],
            [self.end(OUTPUT_NAME)],
            list(self.constants.values()),
        )
        model: ModelProto = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="PocketNAS",
            producer_version=__version__,
        )
        helper.set_model_props(model, {KEY: metadata})
        serialized: bytes = model.SerializeToString(deterministic=True)
        return serialized

    def end(self, name: str) -> Any:
        shape = _channels_first(self.graph.shapes[name])
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def constant(self, name: str, array: npt.NDArray[np.float32]) -> str:
        if name not in self.constants:
            data = np.ascontiguousarray(array).tobytes()
            self.constants[name] = helper.make_tensor(
                name, TensorProto.FLOAT, array.shape, data, raw=True
            )
            self.bytes += len(data)
        return name

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        node = helper.make_node(kind, inputs, [output], name=output, **attributes)
        self.nodes.append(node)

    def fusable(self, op: Fusable, kind: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Append a node and, behind it, its activation: ONNX has that as a node of its own."""
        if op.activation is None:
            self.node(kind, inputs, op.output, **attributes)
            return
        before = f"{op.output}/before_{op.activation}"
        self.node(kind, inputs, before, **attributes)
        self.activation(op.activation, before, op.output)

    def activation(self, function: str, source: str, output: str) -> None:
        if function == "relu6":
            low = self.constant("relu6/low", np.array(0, np.float32))
            high = self.constant("relu6/high", np.array(6, np.float32))
            self.node("Clip", [source, low, high], output)
        else:
            self.node(_ACTIVATIONS[function], [source], output)


def _conv(writer: _Writer, op: Conv) -> None:
    inputs = [
        op.inputs[0],
        writer.constant(f"{op.output}/weight", op.weight),
        writer.constant(f"{op.output}/bias", op.bias),
    ]
    dilations = list(op.window.dilation)
    writer.fusable(
        op, "Conv", inputs, group=op.groups, dilations=dilations, **_attributes(op.window)
    )


def _linear(writer: _Writer, op: Linear) -> None:
    inputs = [
        op.inputs[0],
        writer.constant(f"{op.output}/weight", op.weight),
        writer.constant(f"{op.output}/bias", op.bias),
    ]
    writer.fusable(op, "Gemm", inputs, transB=1)


def _average_pool(writer: _Writer, op: AveragePool) -> None:
    attributes = _attributes(op.window)
    writer.fusable(op, "AveragePool", op.inputs, count_include_pad=0, **attributes)


def _mean(writer: _Writer, op: Mean) -> None:
    if op.keep_dims:
        writer.node("GlobalAveragePool", op.inputs, op.output)
        return
    pooled = f"{op.output}/pooled"
    writer.node("GlobalAveragePool", op.inputs, pooled)
    writer.node("Flatten", [pooled], op.output, axis=1)


_EMITTERS: dict[type[Op], Callable[[_Writer, Any], None]] = {
    Conv: _conv,
    Linear: _linear,
    Add: lambda writer, op: writer.fusable(op, "Add", op.inputs),
    Mul: lambda writer, op: writer.fusable(op, "Mul", op.inputs),
    AveragePool: _average_pool,
    Mean: _mean,
    Flatten: lambda writer, op: writer.node("Flatten", op.inputs, op.output, axis=1),
    Activation: lambda writer, op: writer.activation(op.function, op.inputs[0], op.output),
}


def _attributes(window: Window) -> dict[str, list[int]]:
    padding = window.padding
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.stride),
        "pads": [padding.top, padding.left, padding.bottom, padding.right],
    }


def _channels_first(shape: Shape) -> list[int]:
    if len(shape) == 2:
        return list(shape)
    images, height, width, channels = shape
    return [images, channels, height, width]
