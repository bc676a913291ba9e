"""Small model files, written by hand, so that these tests need no exporter."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper


def onnx_model(channels: int = 4, size: int = 8, layers: int = 1) -> bytes:
    """A stack of 3x3 convolutions, (1, 3, size, size) to (1, channels, size, size)."""
    generator = np.random.default_rng(0)
    nodes, weights = [], []
    before, width = "image", 3
    for layer in range(layers):
        shape = (channels, width, 3, 3)
        weight = generator.standard_normal(shape).astype(np.float32) / np.sqrt(9 * width)
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"weight{layer}"))
        after = "logits" if layer == layers - 1 else f"layer{layer}"
        nodes.append(helper.make_node("Conv", [before, f"weight{layer}"], [after], pads=[1] * 4))
        before, width = after, channels
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, channels, size, size])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(onnx.ModelProto.SerializeToString(model))


def int8_onnx_model() -> bytes:
    """A matrix product with int8 weights, kept as a float graph around a DequantizeLinear."""
    weights = [
        numpy_helper.from_array(np.ones((4, 4), np.int8), "weights"),
        numpy_helper.from_array(np.float32(0.1), "scale"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["weights", "scale"], ["dequantized"]),
            helper.make_node("MatMul", ["image", "dequantized"], ["logits"]),
        ],
        "int8",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(onnx.ModelProto.SerializeToString(model))


def hanging_onnx_model() -> bytes:
    """A valid model whose loop never ends."""
    forever = helper.make_tensor("forever", TensorProto.BOOL, [], [True])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["go_on_after"]),
            helper.make_node("Identity", ["state"], ["state_after"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("go_on_after", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state_after", TensorProto.FLOAT, [1]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "forever", "image"], ["logits"], body=body)],
        "hangs",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1])],
        [forever],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(onnx.ModelProto.SerializeToString(model))


def tflite_model(width: int = 8, batch: int = 1) -> bytes:
    """One linear layer, (batch, width) to (batch, width)."""
    weights = np.random.default_rng(0).standard_normal((width, width)).astype(np.float32)
    tensors = [
        _tensor("image", [batch, width], 0),
        _tensor("weights", [width, width], 1),
        _tensor("logits", [batch, width], 0),
    ]
    options = (schema.BuiltinOptions.FullyConnectedOptions, schema.FullyConnectedOptionsT())
    return _tflite(schema.BuiltinOperator.FULLY_CONNECTED, options, tensors, [0, 1, -1], weights)


def crashing_tflite_model() -> bytes:
    """A well-formed file that kills LiteRT 2.3.0 with signal 11: a split into no parts."""
    tensors = [
        _tensor("axis", [1], 0, schema.TensorType.INT32),
        _tensor("image", [4, 4], 0),
        _tensor("logits", [4, 4], 0),
    ]
    options = (schema.BuiltinOptions.SplitOptions, schema.SplitOptionsT())
    return _tflite(schema.BuiltinOperator.SPLIT, options, tensors, [0, 1], np.zeros(1, np.float32))


def failing_tflite_model() -> bytes:
    """A model that loads, and raises at its first inference: a gather far out of bounds."""
    tensors = [
        _tensor("image", [4, 4], 0),
        _tensor("rows", [4], 1, schema.TensorType.INT32),
        _tensor("logits", [4, 4], 0),
    ]
    options = (schema.BuiltinOptions.GatherOptions, schema.GatherOptionsT())
    rows = np.full(4, 10**9, np.int32)
    return _tflite(schema.BuiltinOperator.GATHER, options, tensors, [0, 1], rows)


def _tflite(
    code: int,
    options: tuple[int, Any],
    tensors: list[Any],
    inputs: list[int],
    constant: np.ndarray[Any, Any],
) -> bytes:
    """A file of one operator, whose last tensor is the output and whose buffer 1 is `constant`."""
    model = schema.ModelT()
    model.version = 3
    model.buffers = [schema.BufferT(), schema.BufferT()]
    model.buffers[1].data = constant.view(np.uint8).ravel()
    operator_code = schema.OperatorCodeT()
    operator_code.builtinCode = operator_code.deprecatedBuiltinCode = code
    operator = schema.OperatorT()
    operator.opcodeIndex = 0
    operator.inputs, operator.outputs = inputs, [len(tensors) - 1]
    operator.builtinOptionsType, operator.builtinOptions = options
    graph = schema.SubGraphT()
    graph.tensors, graph.operators = tensors, [operator]
    graph.inputs = [next(i for i in inputs if tensors[i].name == b"image")]
    graph.outputs = [len(tensors) - 1]
    model.operatorCodes, model.subgraphs = [operator_code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _tensor(name: str, shape: list[int], buffer: int, kind: int = 0) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.buffer, tensor.type = name.encode(), shape, buffer, kind
    return tensor
