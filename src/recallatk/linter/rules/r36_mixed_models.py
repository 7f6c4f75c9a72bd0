"""R36: vectors of several embedding models, by their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.data import different_models
from recallatk.core.judgments import Severity
from recallatk.datasets.model_labels import MODEL_COLUMNS, stated_models
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

_SHOWN = 4


class MixedModels(Rule):
    """Several embedding models in one corpus or query set, or different ones in both."""

    code, name, severity = "R36", "mixed-models", Severity.ERROR
    title = "Vectors come from different embedding models"
    threshold = "more than one model in the corpus or in the queries, or different models in both"
    source = (
        "The labels: `model`, `query_model` or `model_column` under `[data]`, or a column named "
        f"{', '.join(MODEL_COLUMNS[:-1])} or {MODEL_COLUMNS[-1]}."
    )
    why = (
        "Vectors of two models lie in unrelated spaces, and a similarity between them means nothing. Recall "
        "can be perfect all the same: the true neighbors are then noise too, which no index can repair."
    )
    remedy = (
        "Embed everything with one model. If a model has separate encoders for queries and documents, give "
        "both the same `model`, or waive this rule."
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Labels of corpus, queries, truth and run."""
        dataset, known = evidence.dataset, {}
        if dataset is not None:
            known = {"corpus": stated_models(dataset.corpus), "queries": stated_models(dataset.queries)}
        for part, models in known.items():
            if len(models) > 1:
                yield self.finding(f"{len(models)} models in the {part}: {_listed(models)}", len(models), 1)
        if all(len(known.get(part, ())) == 1 for part in ("corpus", "queries")):
            [corpus], [queries] = known["corpus"], known["queries"]
            if corpus != queries:
                yield self.finding(
                    f"the corpus is of {corpus}, the queries of {queries}", 2, 1, severity=Severity.WARNING
                )
        yield from self._elsewhere(evidence, {part: each for part, each in known.items() if each})

    def _elsewhere(self, evidence: Evidence, here: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
        for what, other in (("truth", evidence.truth), ("run", evidence.run)):
            for said in () if other is None else different_models(other.models, here):
                yield self.finding(f"the {what} records another model: {said}", 2, 1)


def _listed(models: Sequence[str]) -> str:
    more = len(models) - _SHOWN
    return ", ".join(models[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
