"""Run an exported file, from memory, in the runtime that it is meant for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import onnxruntime
from ai_edge_litert.interpreter import Interpreter
from onnxruntime.capi import onnxruntime_pybind11_state as onnx_errors

from pocketnas.errors import ExportError
from pocketnas.export.graph import INPUT_NAME, OUTPUT_NAME, Array
from pocketnas.export.metadata import is_tflite
from pocketnas.export.tflite import SIGNATURE

Runner = Callable[[Array], Array]
"""Normalized images (N, H, W, C) to logits (N, classes); the files take one image at a time."""

_ONNX_ERRORS = (
    onnx_errors.Fail,
    onnx_errors.InvalidArgument,
    onnx_errors.InvalidGraph,
    onnx_errors.InvalidProtobuf,
    onnx_errors.NotImplemented,
    onnx_errors.RuntimeException,
)
_FATAL = 4  # ONNX Runtime's level for messages: what goes wrong comes back as an exception anyway


def load(content: bytes, threads: int = 1) -> Runner:
    """Load a file in LiteRT or ONNX Runtime, by what it is.

    Raises:
        ExportError: The runtime refuses the file, now or when it is run.
    """
    return _load_tflite(content, threads) if is_tflite(content) else _load_onnx(content, threads)


def _load_tflite(content: bytes, threads: int) -> Runner:
    try:
        with _without_notes():
            interpreter = Interpreter(model_content=content, num_threads=threads)
            interpreter.allocate_tensors()
        signature = interpreter.get_signature_runner(SIGNATURE)
    except (RuntimeError, ValueError) as error:
        raise ExportError(f"LiteRT refuses the exported file: {error}") from None

    def run(images: Array) -> Array:
        try:
            logits = [signature(**{INPUT_NAME: image[None]})[OUTPUT_NAME] for image in images]
        except (RuntimeError, ValueError) as error:
            raise ExportError(f"LiteRT cannot run the exported file: {error}") from None
        return np.concatenate(logits)

    return run


@contextmanager
def _without_notes() -> Iterator[None]:
    """Keep LiteRT's `INFO:` lines, which it has no setting for, off standard error.

    They would fall into the live line of a search. All else that is written is passed on.
    """
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            notes.seek(0)
            for line in notes:
                if not line.startswith(b"INFO:"):
                    os.write(2, line)


def _load_onnx(content: bytes, threads: int) -> Runner:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _FATAL
    try:
        session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
    except _ONNX_ERRORS as error:
        raise ExportError(f"ONNX Runtime refuses the exported file: {error}") from None

    def run(images: Array) -> Array:
        channels_first = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        try:
            logits = [
                session.run([OUTPUT_NAME], {INPUT_NAME: image[None]})[0]
                for image in channels_first
            ]
        except _ONNX_ERRORS as error:
            raise ExportError(f"ONNX Runtime cannot run the exported file: {error}") from None
        return np.concatenate(logits)

    return run
