"""R16: truth, run and data that do not match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.fingerprint import fingerprint_truth, fingerprints
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class OtherData(Rule):
    """A truth or a run for different data."""

    code, name, severity = "R16", "other-data", Severity.ERROR
    title = "Truth, run and data do not match"
    threshold = "a fingerprint, the metric or the number of queries differs, or k exceeds the truth's depth"
    source = (
        "Fingerprints cover the content: vectors, ids, queries with their filters, and metadata if there "
        "are filters."
    )
    why = (
        "A truth computed before rows changed marks correct answers as wrong and wrong answers as correct. "
        "The number of rows can stay the same (mlcommons/storage#806: a recall of 0.00 passed as valid)."
    )
    remedy = "Recompute the truth: `recallatk truth CORPUS QUERIES`, or remove `[truth] file`."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Every pair of truth, run and data."""
        dataset, truth, run = evidence.dataset, evidence.truth, evidence.run
        here = None if dataset is None else fingerprints(dataset)
        if truth is not None and dataset is not None and here is not None:
            parts = _different(truth.fingerprints, here)
            if truth.metric not in (None, dataset.metric):
                parts.append(f"metric ({truth.metric} in the truth, {dataset.metric} in the data)")
            if len(truth) != dataset.queries.rows:
                counts = f"{len(truth):,} in the truth, {dataset.queries.rows:,} in the data"
                parts.append(f"number of queries ({counts})")
            yield from self._said("the truth was computed for different data", parts)
        # A truth of the whole corpus is as deep as any k.
        if truth is not None and min(evidence.deepest, truth.corpus_rows or evidence.deepest) > truth.depth:
            yield self.finding(
                f"k = {evidence.deepest:,} exceeds the truth's depth of {truth.depth:,}",
                evidence.deepest,
                truth.depth,
                remedy=f"Use k up to {truth.depth:,}, or remove `[truth] file` to compute a deeper truth.",
            )
        if run is not None and dataset is not None and here is not None:
            parts = _different(
                {name: text for name, text in run.fingerprints.items() if name != "truth"}, here
            )
            if run.metric is not dataset.metric:
                parts.append(f"metric ({run.metric} in the run, {dataset.metric} in the data)")
            yield from self._said("the run was measured on different data", parts)
        if run is not None and truth is not None and "truth" in run.fingerprints:
            other = run.fingerprints["truth"] != fingerprint_truth(truth)
            yield from self._said(
                "the run was scored against a different truth", ["fingerprint"] if other else []
            )

    def _said(self, what: str, parts: list[str]) -> Iterator[Finding]:
        if parts:
            yield self.finding(
                f"{what}: {', '.join(parts)} {'differs' if len(parts) == 1 else 'differ'}", len(parts), 0
            )


def _different(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    return [name for name, text in sorted(there.items()) if here.get(name) != text]
