"""faiss-factory: any index of faiss's index factory, with any parameter that faiss can set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import Abilities
from recallatk.adapters.faiss_library import FaissEngine
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.adapters.snippet import Setting

# Defaults of faiss, to restore a parameter that a later setting leaves out.
_UNSET = {"nprobe": 1, "efSearch": 16, "k_factor_rf": 1, "max_codes": 0}
_CODES = ("PQ", "SQ", "RQ")


class FaissFactory(FaissEngine):
    """Any faiss factory string; no filters or updates, which not every index type supports."""

    name = "faiss-factory"
    abilities = Abilities(threads=True, clients=True, forks=True)
    build_knobs = (Knob("factory", default="HNSW32", help='such as "IVF1024,PQ16x4fs,RFlat"'),)
    search_knobs = (Knob("parameters", default="", help='such as "nprobe=16,k_factor_rf=4"'),)
    factory = "{factory}"
    touched: frozenset[str] = frozenset()

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Build a new index with all parameters at their defaults."""
        self.touched = frozenset()
        super().build(corpus, metric, **parameters)

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set the parameters, and reset those that only an earlier setting had."""
        import faiss

        space, text = faiss.ParameterSpace(), str(settings["parameters"])
        named = {each.partition("=")[0].strip() for each in text.split(",") if each.strip()}
        for name in sorted(self.touched - named):
            if name not in _UNSET:
                raise EngineError(
                    f"{self.name}: {name} was set before, and faiss keeps that value. State it again"
                )
            space.set_index_parameter(self.index, name, _UNSET[name])
        self.touched |= named
        space.set_index_parameters(self.index, text)

    @classmethod
    def codes(cls, build: Mapping[str, Any]) -> str | None:
        """The factory string, if it names a quantizer."""
        recipe = str(build.get("factory", ""))
        return f"factory={recipe}" if any(code in recipe for code in _CODES) else None

    @classmethod
    def effort_lines(cls, setting: Setting) -> list[str]:
        """Code that sets the parameters."""
        text = setting.search["parameters"]
        return [f"faiss.ParameterSpace().set_index_parameters(index, {text!r})"] if text else []
