"""A scanner on accelerators through JAX: float32 products of full precision, and the best rows of a block."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import MissingExtraError, UsageError
from recallatk.truths.scanner_faiss import FaissScanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.scanner import Asked, ScanHits
    from recallatk.truths.space import Space

# Where matrix units multiply in bfloat16, full precision is six products of parts of 8 bits each: it drops
# what lies below 2^-24 of both factors, and adds more terms.
_SPLIT_PRODUCTS = 16.0
# The scores of a tile and what selecting from them takes lie in memory at once.
_MOST_ROWS = 4096
_WHOLE_PRODUCTS = frozenset(["cpu", "gpu", "cuda", "rocm"])


def require_device(platform: str | None) -> Any:
    """The first device of a platform, or JAX's default; a clear error where there is none."""
    try:
        import jax
    except ImportError as problem:
        raise MissingExtraError("jax", "jax") from problem
    try:
        return jax.devices(platform)[0]
    except RuntimeError as problem:
        there = ", ".join(sorted({each.platform for each in jax.devices()}))
        raise UsageError(
            f"no {platform} here: JAX finds {there}. Install JAX for it (jax[cuda12], jax[tpu]), or leave "
            "out the device"
        ) from problem


class JaxScanner(FaissScanner):
    """The k best of a tile by a matrix product on a device, and more where these end too soon."""

    def __init__(self, space: Space, queries: int, platform: str | None = None) -> None:
        super().__init__(space, queries)
        self.tile_rows = min(self.tile_rows, _MOST_ROWS)
        self._device = require_device(platform)
        self._factor = 1.0 if self._device.platform in _WHOLE_PRODUCTS else _SPLIT_PRODUCTS
        self._rows: Any = None
        self._queries: dict[int, tuple[NDArray[Any], Any]] = {}

    def enter(self, rows: NDArray[Any]) -> None:
        """Bring the rows to the device, once for all queries."""
        self._rows = self._placed(rows)

    def hits(self, asked: Asked, rows: NDArray[Any]) -> ScanHits:
        """Search with the bound of the device's products."""
        return super().hits(replace(asked, errors=self._factor * asked.errors), rows)

    def _placed(self, part: NDArray[Any]) -> Any:
        import jax

        # Few different shapes, because each is compiled once.
        padded = np.zeros((_padded(len(part)), part.shape[1]), np.float32)
        padded[: len(part)] = part
        return jax.device_put(padded, self._device)

    def _nearest(self, queries: NDArray[Any], rows: NDArray[Any], count: int) -> tuple[Any, Any]:
        if self._rows is None:
            self.enter(rows)
        # A power of two again, of which the first are taken.
        sought = min(_padded(count), len(self._rows))
        scores, columns = _best()(self._placed(queries), self._rows, len(rows), count=sought)
        there = slice(len(queries)), slice(count)
        return np.asarray(scores)[there], np.asarray(columns)[there].astype(np.int64)


def _padded(count: int) -> int:
    return max(8, 1 << (count - 1).bit_length())


@lru_cache(maxsize=1)
def _best() -> Any:
    """The compiled search: scores and columns of the best rows of every query."""
    import jax

    @partial(jax.jit, static_argnames="count")
    def best(queries: Any, rows: Any, real: Any, *, count: int) -> Any:
        numbers = jax.numpy
        products = numbers.matmul(
            queries, rows.T, precision=jax.lax.Precision.HIGHEST, preferred_element_type=numbers.float32
        )
        # Padding is no row.
        products = numbers.where(numbers.arange(len(rows)) < real, products, -numbers.inf)
        return jax.lax.top_k(products, count)

    return best
