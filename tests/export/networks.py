"""Networks to export, and a look into what came of them."""

from __future__ import annotations

import numpy as np
import onnx
import torch
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from torch import nn

from pocketnas.searchspace import Arch, Network, build_network

Shape = tuple[int, int, int]
_CODES = {
    number: name
    for name, number in vars(schema.BuiltinOperator).items()
    if not name.startswith("_")
}
ALLOWED_TFLITE = {
    *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "PAD", "ADD", "MUL", "MEAN"),
    *("AVERAGE_POOL_2D", "LOGISTIC", "HARD_SWISH", "RELU", "RELU6"),
}
ALLOWED_ONNX = {
    *("Conv", "Gemm", "Relu", "Clip", "HardSwish", "Sigmoid", "Add", "Mul"),
    *("AveragePool", "GlobalAveragePool", "Flatten"),
}


def trained_like(network: nn.Module, seed: int = 0) -> nn.Module:
    """Give a network statistics and biases as training would: fresh ones hide mistakes.

    The classifier gets no bias, which would hide what the image has to say.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(tensor: torch.Tensor, low: float, high: float) -> None:
        tensor.copy_(low + (high - low) * torch.rand(tensor.shape, generator=generator))

    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                assert module.running_mean is not None
                assert module.running_var is not None
                uniform(module.weight, 0.5, 1.5)
                uniform(module.bias, -0.5, 0.5)
                uniform(module.running_mean, -0.5, 0.5)
                uniform(module.running_var, 0.5, 2.0)
            elif isinstance(module, nn.Conv2d) and module.bias is not None:
                uniform(module.bias, -0.5, 0.5)
    return network


def built(arch: Arch, shape: Shape = (32, 32, 3), classes: int = 10, seed: int = 0) -> Network:
    torch.manual_seed(seed)
    network = build_network(arch, shape, classes)
    trained_like(network, seed)
    return network


def small(*layers: nn.Module, channels: int = 4, classes: int = 3, seed: int = 0) -> nn.Module:
    """Layers, with the mean over the image and a classifier behind them, weights from the seed."""
    network = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return trained_like(network, seed)


def tflite_ops(content: bytes) -> list[str]:
    """The operators of a TFLite file, in order."""
    model = schema.Model.GetRootAs(content)
    graph = model.Subgraphs(0)
    codes = [graph.Operators(n).OpcodeIndex() for n in range(graph.OperatorsLength())]
    return [_CODES[model.OperatorCodes(code).BuiltinCode()] for code in codes]


def onnx_ops(content: bytes) -> list[str]:
    """The operators of an ONNX file, in order."""
    return [node.op_type for node in onnx.load_model_from_string(content).graph.node]


def runs_whole_in_xnnpack(content: bytes) -> bool:
    """Whether one delegate takes the image and gives the logits, and nothing else is left."""
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    delegates = [op for op in interpreter._get_ops_details() if op["op_name"] == "DELEGATE"]
    ends = [{detail["index"] for detail in interpreter.get_input_details()}]
    ends.append({detail["index"] for detail in interpreter.get_output_details()})
    model = schema.Model.GetRootAs(content)
    graph = model.Subgraphs(0)
    computed = {
        number
        for number in range(graph.TensorsLength())
        if model.Buffers(graph.Tensors(number).Buffer()).DataLength() == 0
    }
    reads_and_makes = [
        [set(np.array(op[side]).tolist()) & computed for side in ("inputs", "outputs")]
        for op in delegates
    ]
    return reads_and_makes == [ends]
