"""R13: a sample of the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class SampledCorpus(Rule):
    """Another problem than the whole."""

    code, name, severity = "R13", "sampled-corpus", Severity.WARNING
    title = "The corpus is a sample"
    threshold = "fewer rows than the whole corpus has"
    source = (
        "recall at a fixed effort depends on the number of rows; [mistakes](mistakes.md) measures how much."
    )
    why = (
        "Recall and latency depend on the number of rows: graphs, lists and neighbors change with it. "
        "Results on a sample do not carry over to the whole corpus, and the error is unknown."
    )
    remedy = "Use samples to discard poor settings, then measure the rest on all rows."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """How many rows of how many."""
        whole = None if evidence.dataset is None else evidence.dataset.corpus.sampled_from
        if whole is None and evidence.run is not None:
            whole = evidence.run.sampled_from
        if whole is None:
            return
        if evidence.dataset is None:
            yield self.finding(f"the corpus is a sample of {whole:,} rows", None, whole)
        else:
            rows = evidence.dataset.corpus.rows
            yield self.finding(f"{rows:,} of {whole:,} rows were measured", rows, whole)
