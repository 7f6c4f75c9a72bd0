"""R16: a truth, a run and data that do not belong together."""

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
    """The right answers to other questions."""

    code, name, severity = "R16", "other-data", Severity.ERROR
    title = "Truth, run and data do not match"
    threshold = "a fingerprint, the metric or the number of queries differs, or a k exceeds the truth's depth"
    source = (
        "fingerprints are of content: vectors, ids, queries with their filters, and metadata where "
        "filters read it."
    )
    why = (
        "A truth computed before rows changed counts correct answers as wrong, and wrong ones as correct. "
        "The number of rows can be the same (mlcommons/storage#806 took a recall of 0.00 for valid)."
    )
    remedy = "Recompute the truth: `recallatk truth CORPUS QUERIES`. Remove `[truth] file`."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Every pair of the three."""
        dataset, truth, run = evidence.dataset, evidence.truth, evidence.run
        here = None if dataset is None else fingerprints(dataset)
        if truth is not None and dataset is not None and here is not None:
            parts = _different(truth.fingerprints, here)
            if truth.metric not in (None, dataset.metric):
                parts.append(f"the metric ({truth.metric} there, {dataset.metric} here)")
            if len(truth) != dataset.queries.rows:
                parts.append(f"the number of queries ({len(truth):,} there, {dataset.queries.rows:,} here)")
            yield from self._said("the truth was made from other data", parts)
        if truth is not None and evidence.deepest > truth.depth:
            yield self.finding(
                f"k = {evidence.deepest:,} exceeds the depth of the truth, which is {truth.depth:,}",
                evidence.deepest,
                truth.depth,
                remedy=f"Use k up to {truth.depth:,}, or leave out `[truth] file` to compute a deeper truth.",
            )
        if run is not None and dataset is not None and here is not None:
            parts = _different(
                {name: text for name, text in run.fingerprints.items() if name != "truth"}, here
            )
            if run.metric is not dataset.metric:
                parts.append(f"the metric ({run.metric} there, {dataset.metric} here)")
            yield from self._said("the run was measured on other data", parts)
        if run is not None and truth is not None and "truth" in run.fingerprints:
            other = run.fingerprints["truth"] != fingerprint_truth(truth)
            yield from self._said(
                "the run was scored against another truth", ["its fingerprint"] if other else []
            )

    def _said(self, what: str, parts: list[str]) -> Iterator[Finding]:
        if parts:
            yield self.finding(
                f"{what}: {', '.join(parts)} {'differs' if len(parts) == 1 else 'differ'}", len(parts), 0
            )


def _different(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    return [name for name, text in sorted(there.items()) if here.get(name) != text]
