"""The runtimes behind one interface: load bytes, run one inference. Used inside the child only."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class UnloadableModel(Exception):
    """The runtime does not take these bytes for a model; the message is the runtime's own."""


class LoadedModel(Protocol):
    """A model with its input in place."""

    version: str
    precision: str

    def run(self) -> None:
        """One inference."""
        ...


class LiteRTModel:
    """A TFLite file in LiteRT."""

    def __init__(self, content: bytes, threads: int) -> None:
        import ai_edge_litert
        from ai_edge_litert.interpreter import Interpreter

        self.version: str = ai_edge_litert.__version__
        try:
            self._interpreter = Interpreter(model_content=content, num_threads=threads)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise UnloadableModel(str(error)) from error
        for item in self._interpreter.get_input_details():
            array = example_input([int(size) for size in item["shape"]], np.dtype(item["dtype"]))
            self._interpreter.set_tensor(item["index"], array)
        quantized = any(
            item["dtype"] in (np.int8, np.uint8) for item in self._interpreter.get_tensor_details()
        )
        self.precision = "int8" if quantized else "float32"
        self.run = self._interpreter.invoke


class OnnxModel:
    """An ONNX file in ONNX Runtime, on its CPU provider."""

    def __init__(self, content: bytes, threads: int) -> None:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as native

        refusals = tuple(
            item
            for item in vars(native).values()
            if isinstance(item, type) and issubclass(item, Exception)
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.version: str = onnxruntime.__version__
        try:
            session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        except refusals as error:
            raise UnloadableModel(str(error)) from error
        # Bound buffers keep the copying of inputs and outputs out of the time.
        binding = session.io_binding()
        for item in session.get_inputs():
            if item.type not in _ONNX_TYPES:
                raise UnloadableModel(f"input '{item.name}' is of type {item.type}")
            shape = [size if isinstance(size, int) else 1 for size in item.shape]
            binding.bind_cpu_input(item.name, example_input(shape, _ONNX_TYPES[item.type]))
        for item in session.get_outputs():
            binding.bind_output(item.name, "cpu")
        self._session, self._binding = session, binding
        # Quantized models are kept as float graphs with these operators between (QDQ), or as
        # QLinear ones; the session does not tell of its operators, but the file names them.
        quantized = b"DequantizeLinear" in content or b"QLinear" in content
        self.precision = "int8" if quantized else "float32"

    def run(self) -> None:
        """One inference."""
        self._session.run_with_iobinding(self._binding)


_ONNX_TYPES: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(double)": np.dtype(np.float64),
    "tensor(float16)": np.dtype(np.float16),
    "tensor(int8)": np.dtype(np.int8),
    "tensor(uint8)": np.dtype(np.uint8),
    "tensor(int32)": np.dtype(np.int32),
    "tensor(int64)": np.dtype(np.int64),
}


def load_model(runtime: str, content: bytes, threads: int) -> LoadedModel:
    """Load a model file's bytes.

    Raises:
        UnloadableModel: the runtime refuses them.
    """
    return (LiteRTModel if runtime == "litert" else OnnxModel)(content, threads)


def example_input(shape: list[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An input like a normalized image: zeros or denormals could run at another speed."""
    generator = np.random.default_rng(0)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if dtype.itemsize == 1:
        bounds = np.iinfo(dtype)
        return generator.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)
    return np.zeros(shape, dtype)
