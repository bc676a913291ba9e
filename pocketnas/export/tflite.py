"""Write a graph as a TFLite file: a FlatBuffer of the schema that ships with LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

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
    Window,
)
from pocketnas.export.metadata import KEY
from pocketnas.export.windows import is_same_padding

IDENTIFIER = b"TFL3"
SIGNATURE = "serving_default"
_MAX_BYTES = 2**31 - 2**20  # FlatBuffers' limit, less a megabyte for all that is no weight

_Code = schema.BuiltinOperator
_FUSED = {
    None: schema.ActivationFunctionType.NONE,
    "relu": schema.ActivationFunctionType.RELU,
    "relu6": schema.ActivationFunctionType.RELU6,
}
_STANDALONE = {
    "relu": _Code.RELU,
    "relu6": _Code.RELU6,
    "hswish": _Code.HARD_SWISH,
    "sigmoid": _Code.LOGISTIC,
}


def write_tflite(graph: Graph, metadata: str) -> bytes:
    """The bytes of a TFLite file, the same ones for the same graph and metadata.

    Args:
        graph: A fused graph.
        metadata: Text to keep in the file's metadata, under its key.
    """
    return _Writer(graph).write(metadata)


class _Writer:
    """Collects a model's buffers, tensors and operators."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = "PocketNAS"
        self.model.operatorCodes = []
        self.model.buffers = [schema.BufferT()]  # number 0 is that of tensors without data
        self.subgraph = schema.SubGraphT()
        self.subgraph.name = "main"
        self.subgraph.tensors, self.subgraph.operators = [], []
        self.codes: dict[tuple[int, int], int] = {}
        self.tensors: dict[str, int] = {}

    def write(self, metadata: str) -> bytes:
        self.value(INPUT_NAME)
        for op in self.graph.ops:
            _EMITTERS[type(op)](self, op)
        image, logits = self.tensors[INPUT_NAME], self.tensors[OUTPUT_NAME]
        self.subgraph.inputs, self.subgraph.outputs = [image], [logits]
        self.model.subgraphs = [self.subgraph]
        self.model.signatureDefs = [_signature(image, logits)]
        entry = schema.MetadataT()
        entry.name = KEY
        entry.buffer = self.buffer(np.frombuffer(metadata.encode(), np.uint8))
        self.model.metadata = [entry]
        return self.pack()

    def pack(self) -> bytes:
        data = sum(buffer.data.nbytes + 64 for buffer in self.model.buffers[1:])
        if data > _MAX_BYTES:
            raise ExportError(
                f"the network has {data / 1e9:.1f} GB of weights, more than fit into a TFLite "
                "file: use fewer channels or layers"
            )
        entries = len(self.subgraph.tensors) + len(self.subgraph.operators)
        builder = _AlignedBuilder(data + 1024 * entries + 65536)
        builder.Finish(self.model.Pack(builder), IDENTIFIER)
        return bytes(memoryview(builder.Bytes)[builder.Head() :])

    def buffer(self, array: npt.NDArray[Any]) -> int:
        buffer = schema.BufferT()
        buffer.data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1

    def tensor(self, name: str, shape: Sequence[int], kind: int, buffer: int) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name, list(shape), kind
        tensor.buffer, tensor.hasRank = buffer, True
        self.subgraph.tensors.append(tensor)
        return len(self.subgraph.tensors) - 1

    def value(self, name: str, shape: Sequence[int] | None = None) -> int:
        """The tensor of a value that is computed; its shape is the graph's unless given."""
        if name not in self.tensors:
            shape = self.graph.shapes[name] if shape is None else shape
            self.tensors[name] = self.tensor(name, shape, schema.TensorType.FLOAT32, 0)
        return self.tensors[name]

    def constant(self, name: str, array: npt.NDArray[Any]) -> int:
        integers = array.dtype == np.int32
        kind = schema.TensorType.INT32 if integers else schema.TensorType.FLOAT32
        return self.tensor(name, array.shape, kind, self.buffer(array))

    def operator(
        self,
        code: int,
        inputs: Sequence[int],
        output: int,
        options: Any = None,
        *,
        version: int = 1,
    ) -> None:
        """Append an operator; `options` is an object of the schema's, whose kind has its name."""
        operator = schema.OperatorT()
        operator.opcodeIndex = self.code(code, version)
        operator.inputs, operator.outputs = list(inputs), [output]
        if options is not None:
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
            operator.builtinOptions = options
        self.subgraph.operators.append(operator)

    def code(self, code: int, version: int) -> int:
        if (code, version) not in self.codes:
            entry = schema.OperatorCodeT()
            entry.builtinCode, entry.version = code, version
            entry.deprecatedBuiltinCode = min(code, 127)  # what old runtimes read
            self.codes[code, version] = len(self.model.operatorCodes)
            self.model.operatorCodes.append(entry)
        return self.codes[code, version]

    def read(self, op: Op) -> list[int]:
        return [self.value(name) for name in op.inputs]

    def padded(self, op: Op, window: Window) -> tuple[int, int]:
        """The tensor that an operator's window moves over, and the name of its padding.

        TFLite knows SAME and no padding at all. Every other padding is an operator of its own,
        which XNNPACK folds into the convolution behind it.
        """
        source = self.value(op.inputs[0])
        _, height, width, channels = self.graph.shapes[op.inputs[0]]
        if is_same_padding(window, (height, width)):
            return source, schema.Padding.SAME
        padding = window.padding
        if padding.is_empty:
            return source, schema.Padding.VALID
        rows, columns = padding.top + padding.bottom, padding.left + padding.right
        name = f"{op.output}/padded"
        amounts = [[0, 0], [padding.top, padding.bottom], [padding.left, padding.right], [0, 0]]
        paddings = self.constant(f"{op.output}/paddings", np.array(amounts, np.int32))
        output = self.value(name, (1, height + rows, width + columns, channels))
        self.operator(_Code.PAD, [source, paddings], output, schema.PadOptionsT())
        return output, schema.Padding.VALID


def _conv(writer: _Writer, op: Conv) -> None:
    depthwise = op.groups > 1 and op.weight.shape[1] == 1
    options = schema.DepthwiseConv2DOptionsT() if depthwise else schema.Conv2DOptionsT()
    source, options.padding = writer.padded(op, op.window)
    options.strideH, options.strideW = op.window.stride
    options.dilationHFactor, options.dilationWFactor = op.window.dilation
    options.fusedActivationFunction = _FUSED[op.activation]
    # (O, I / groups, h, w) becomes (O, h, w, I / groups), or (1, h, w, O) if depthwise.
    weight = op.weight.transpose((1, 2, 3, 0) if depthwise else (0, 2, 3, 1))
    inputs = [
        source,
        writer.constant(f"{op.output}/weight", weight),
        writer.constant(f"{op.output}/bias", op.bias),
    ]
    version = 1
    if depthwise:
        options.depthMultiplier = op.weight.shape[0] // op.groups
        version = 2 if op.window.dilation != (1, 1) else 1
    elif op.groups > 1:
        version = 6
    code = _Code.DEPTHWISE_CONV_2D if depthwise else _Code.CONV_2D
    writer.operator(code, inputs, writer.value(op.output), options, version=version)


def _linear(writer: _Writer, op: Linear) -> None:
    options = schema.FullyConnectedOptionsT()
    options.fusedActivationFunction = _FUSED[op.activation]
    inputs = [
        *writer.read(op),
        writer.constant(f"{op.output}/weight", op.weight),
        writer.constant(f"{op.output}/bias", op.bias),
    ]
    writer.operator(_Code.FULLY_CONNECTED, inputs, writer.value(op.output), options)


def _binary(code: int, make_options: Callable[[], Any]) -> Callable[[_Writer, Fusable], None]:
    def emit(writer: _Writer, op: Fusable) -> None:
        options = make_options()
        options.fusedActivationFunction = _FUSED[op.activation]
        writer.operator(code, writer.read(op), writer.value(op.output), options)

    return emit


def _average_pool(writer: _Writer, op: AveragePool) -> None:
    options = schema.Pool2DOptionsT()
    source, options.padding = writer.padded(op, op.window)
    options.filterHeight, options.filterWidth = op.window.kernel
    options.strideH, options.strideW = op.window.stride
    options.fusedActivationFunction = _FUSED[op.activation]
    writer.operator(_Code.AVERAGE_POOL_2D, [source], writer.value(op.output), options)


def _mean(writer: _Writer, op: Mean) -> None:
    options = schema.ReducerOptionsT()
    options.keepDims = op.keep_dims
    axes = writer.constant(f"{op.output}/axes", np.array([1, 2], np.int32))
    writer.operator(_Code.MEAN, [*writer.read(op), axes], writer.value(op.output), options)


def _flatten(writer: _Writer, op: Flatten) -> None:
    options = schema.ReshapeOptionsT()
    options.newShape = list(op.shape)
    shape = writer.constant(f"{op.output}/shape", np.array(op.shape, np.int32))
    writer.operator(_Code.RESHAPE, [*writer.read(op), shape], writer.value(op.output), options)


def _activation(writer: _Writer, op: Activation) -> None:
    code = _STANDALONE[op.function]
    options = schema.HardSwishOptionsT() if code == _Code.HARD_SWISH else None
    writer.operator(code, writer.read(op), writer.value(op.output), options)


_EMITTERS: dict[type[Op], Callable[[_Writer, Any], None]] = {
    Conv: _conv,
    Linear: _linear,
    Add: _binary(_Code.ADD, schema.AddOptionsT),
    Mul: _binary(_Code.MUL, schema.MulOptionsT),
    AveragePool: _average_pool,
    Mean: _mean,
    Flatten: _flatten,
    Activation: _activation,
}


class _AlignedBuilder(flatbuffers.Builder):  # type: ignore[misc]
    """Aligns buffers to 16 bytes, as the schema asks; its own object API forgets that."""

    def CreateNumpyVector(self, x: npt.NDArray[np.uint8]) -> int:
        """Append a vector of bytes."""
        self.StartVector(1, x.size, 16)
        self.head -= x.size
        self.Bytes[self.head : self.head + x.size] = x.data
        return int(self.EndVector())


def _signature(image: int, logits: int) -> Any:
    """What gives the file's input and output their names."""
    signature = schema.SignatureDefT()
    signature.signatureKey = SIGNATURE
    signature.subgraphIndex = 0
    signature.inputs, signature.outputs = [], []
    for ends, name, tensor in (
        (signature.inputs, INPUT_NAME, image),
        (signature.outputs, OUTPUT_NAME, logits),
    ):
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name, tensor
        ends.append(entry)
    return signature
