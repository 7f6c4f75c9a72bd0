"""Exact products of 8-bit matrices in 32-bit integers, by ONNX Runtime's MatMulInteger."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Codes of rows at the most. Kernels without VNNI add two products in 16 bits, which holds for 7-bit codes.
EIGHT_BITS, SEVEN_BITS = 255, 127
# Beyond, 255 x 128 times as many components could leave 32 bits.
MOST_COMPONENTS = 60_000
# Whole vectors of any width, remainders of every kind, and sums long enough to overflow anything smaller.
_TESTED_SHAPES = ((1, 3, 1), (5, 64, 17), (33, 67, 48), (64, 1030, 129))


class IntegerProduct:
    """(rows, components) uint8 times (components, queries) int8; every thread has its own."""

    def __init__(self) -> None:
        self._session, self._options = _session()

    def __call__(self, rows: NDArray[np.uint8], queries: NDArray[np.int8], out: NDArray[np.int32]) -> None:
        """Write the exact products to `out`; all three are contiguous."""
        binding = self._session.io_binding()
        for name, part in (("rows", rows), ("queries", queries)):
            binding.bind_input(name, "cpu", 0, part.dtype.type, part.shape, part.ctypes.data)
        binding.bind_output("products", "cpu", 0, np.int32, out.shape, out.ctypes.data)
        self._session.run_with_iobinding(binding, self._options)


@lru_cache(maxsize=1)
def highest_code() -> int | None:
    """The largest code of a row with which products are exact on this machine; None if there is none.

    Raises:
        MissingExtraError: if ONNX Runtime is not installed.
    """
    product = IntegerProduct()
    return next((code for code in (EIGHT_BITS, SEVEN_BITS) if _is_exact(product, code)), None)


def _is_exact(product: IntegerProduct, code: int) -> bool:
    """Whether sums of the largest products are right, by kernels for matrices of several shapes."""
    random = np.random.default_rng(0)
    for rows, components, queries in _TESTED_SHAPES:
        for low_code, low in ((code, 127), (code, -128), (0, -128)):
            some = random.random((rows, components)) < 0.5
            codes = np.where(some, code, low_code).astype(np.uint8)
            other = np.where(random.random((components, queries)) < 0.5, low, np.copysign(127, low))
            numbers = other.astype(np.int8)
            found = np.empty((rows, queries), np.int32)
            product(codes, numbers, found)
            if not np.array_equal(found, codes.astype(np.int64) @ numbers.astype(np.int64)):
                return False
    return True


@lru_cache(maxsize=1)
def _session() -> tuple[Any, Any]:
    """One session for all threads, each of which runs it alone."""
    # Importing it starts telemetry to its vendor, and leaves a file in the temporary folder.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as problem:
        raise MissingExtraError("onnxruntime", "fast") from problem
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(_model(), options, providers=["CPUExecutionProvider"])
    return session, onnxruntime.RunOptions()


def _model() -> bytes:
    """A graph of one MatMulInteger as ONNX's protocol buffer, which is too small to need a library for it."""
    uint8, int8, int32 = 2, 3, 6
    node = _text(1, "rows") + _text(1, "queries") + _text(2, "products") + _text(4, "MatMulInteger")
    inputs = _part(11, _value("rows", uint8)) + _part(11, _value("queries", int8))
    graph = _part(1, node) + _text(2, "product") + inputs + _part(12, _value("products", int32))
    # IR version 4, operator set 10: the first with this operator, and readable by every later runtime.
    return _number(1, 4) + _part(7, graph) + _part(8, _number(2, 10))


def _value(name: str, kind: int) -> bytes:
    return _text(1, name) + _part(2, _part(1, _number(1, kind)))


def _text(field: int, text: str) -> bytes:
    return _part(field, text.encode())


def _part(field: int, payload: bytes) -> bytes:
    # All parts are shorter than 128 bytes, so that a length is one byte; longer ones take two.
    size = len(payload)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([field << 3 | 2]) + length + payload


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3, value])
