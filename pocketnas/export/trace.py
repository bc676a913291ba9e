"""From a torch module to operators: `torch.fx` unrolls it, and each node is lowered on its own.

Networks are built of a small, closed set of modules with `+` and `*` between them. What is outside
it is an error that names the module: nothing is approximated, and nothing left out.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from torch import fx, nn

from pocketnas.errors import ExportError
from pocketnas.export.graph import INPUT_NAME, OUTPUT_NAME, Add, Graph, Mul, Op, Shape
from pocketnas.export.lower import LOWERINGS, PASSED_OVER, Unsupported

_FUNCTIONS: dict[Any, type[Add] | type[Mul]] = {operator.add: Add, operator.mul: Mul}


def trace(network: nn.Module, input_shape: tuple[int, int, int]) -> Graph:
    """Unroll a network in evaluation mode into operators, one for each module that computes.

    Args:
        network: Takes one batch of images (N, C, H, W) and returns logits (N, classes).
        input_shape: (H, W, C) of the images.

    Raises:
        ExportError: The network holds something that cannot be exported.
    """
    try:
        nodes = _Tracer().trace(network).nodes
    # What fx raises for control flow, len(), int(), and modules that are made on the way.
    except (fx.proxy.TraceError, RuntimeError, TypeError, NameError) as error:
        raise ExportError(
            f"the network cannot be traced: {error}; its forward must only pass images through "
            "its modules, + and *"
        ) from None
    return _Lowering(network, input_shape).run(nodes)


class _Tracer(fx.Tracer):
    """Goes into every module but those that are lowered as they are, and torch's own."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) in LOWERINGS or super().is_leaf_module(m, module_qualified_name)


class _Lowering:
    """Turns traced nodes into operators, keeping which value each node stands for."""

    def __init__(self, network: nn.Module, input_shape: tuple[int, int, int]) -> None:
        self.network = network
        self.input_shape = input_shape
        self.ops: list[Op] = []
        self.shapes: dict[str, Shape] = {INPUT_NAME: (1, *input_shape)}
        self.values: dict[fx.Node, str] = {}

    def run(self, nodes: fx.graph._node_list) -> Graph:
        for node in nodes:
            if node.op == "placeholder":
                if self.values:
                    raise ExportError(
                        f"the network takes a second input '{node.name}', but only networks of "
                        "one image can be exported"
                    )
                self.values[node] = INPUT_NAME
            elif node.op == "call_module":
                self.lower_module(node)
            elif node.op == "call_function" and node.target in _FUNCTIONS:
                self.lower_function(node)
            elif node.op == "output":
                return self.finish(node)
            else:
                raise ExportError(
                    f"{_place(node)} uses {_described(node)}, which cannot be exported: "
                    "use torch's modules for layers, and + and * between them"
                )
        raise AssertionError("a traced graph ends with its output")

    def lower_module(self, node: fx.Node) -> None:
        module = self.network.get_submodule(str(node.target))
        source = self.read(node, node.args[0] if node.args else None)
        if type(module) in PASSED_OVER:
            self.values[node] = source
            return
        lower = LOWERINGS.get(type(module))
        if lower is None:
            known = ", ".join(kind.__name__ for kind in LOWERINGS)
            raise ExportError(
                f"the module '{node.target}' is a {type(module).__name__}, which cannot be "
                f"exported: use {known}"
            )
        try:
            op = lower(module, source, self.shapes[source], _value_name(node))
        except Unsupported as error:
            raise ExportError(
                f"the module '{node.target}' ({type(module).__name__}) cannot be exported: {error}"
            ) from None
        self.add(node, op, in_place=bool(getattr(module, "inplace", False)))

    def lower_function(self, node: fx.Node) -> None:
        kind = _FUNCTIONS[node.target]
        if len(node.args) != 2 or not all(isinstance(arg, fx.Node) for arg in node.args):
            raise ExportError(
                f"{_place(node)} has a + or * with a number, which cannot be exported: only "
                "values that the network computes can be added and multiplied"
            )
        left, right = (self.read(node, arg) for arg in node.args)
        shapes = self.shapes[left], self.shapes[right]
        try:
            # Shapes of unlike length would broadcast otherwise in NHWC than in torch's NCHW.
            shape = np.broadcast_shapes(*shapes) if len(shapes[0]) == len(shapes[1]) else None
        except ValueError:
            shape = None
        if shape is None:
            raise ExportError(
                f"{_place(node)} adds or multiplies values of shapes {shapes[0]} and {shapes[1]} "
                "(N, H, W, C), which do not match"
            )
        op = kind(inputs=(left, right), output=_value_name(node), shape=shape)
        self.add(node, op)

    def read(self, node: fx.Node, argument: Any) -> str:
        """The value behind a node's argument."""
        if not isinstance(argument, fx.Node) or argument not in self.values:
            raise ExportError(f"{_place(node)} reads something that is not an image or features")
        return self.values[argument]

    def add(self, node: fx.Node, op: Op, in_place: bool = False) -> None:
        """Take an operator in; what it changes in place has its new value from now on."""
        self.ops.append(op)
        self.shapes[op.output] = op.shape
        if in_place:
            for known, value in self.values.items():
                if value == op.inputs[0]:
                    self.values[known] = op.output
        self.values[node] = op.output

    def finish(self, node: fx.Node) -> Graph:
        result = node.args[0]
        if not isinstance(result, fx.Node) or len(self.shapes[self.values[result]]) != 2:
            raise ExportError("the network must return logits (N, classes), and nothing else")
        if not self.ops:
            raise ExportError("the network computes nothing")
        return Graph(self.input_shape, tuple(self.ops), self.values[result])


def _value_name(node: fx.Node) -> str:
    """The node's name, which is unique; a dot keeps it apart from the names of the file's ends."""
    return f"{node.name}.inner" if node.name in (INPUT_NAME, OUTPUT_NAME) else node.name


def _place(node: fx.Node) -> str:
    """The module whose forward a node comes from, in words."""
    stack = node.meta.get("nn_module_stack") or {}
    name = list(stack)[-1] if stack else ""
    return f"the forward of the module '{name}'" if name else "the network's forward"


def _described(node: fx.Node) -> str:
    """What a node that is no module does, in words."""
    if node.op == "get_attr":
        return f"the tensor '{node.target}'"
    if node.op == "call_method":
        return f"the method '{node.target}' of a tensor"
    return f"the function '{getattr(node.target, '__name__', node.target)}'"
