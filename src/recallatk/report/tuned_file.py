"""The file of a tuning: its outcome with what the linter found, written and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.errors import FormatError
from recallatk.report.findings import findings_from_dict, findings_to_dict
from recallatk.report.tuned_as_dict import tuned_from_dict, tuned_to_dict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Tuned
    from recallatk.files import PathLike

TUNED = "tuned.json"


def described(tuned: Tuned, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    """Everything about a tuning; what the linter found stands under `audit`."""
    found = tuned_to_dict(tuned)
    return found if findings is None else {**found, "audit": findings_to_dict(findings)}


def tuned_text(tuned: Tuned, findings: Sequence[Finding] | None = None) -> str:
    """The text of the file."""
    return json.dumps(described(tuned, findings), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def read_tuned(path: PathLike) -> tuple[Tuned, list[Finding] | None]:
    """A tuning from its file, and what the linter found of it; None where nobody looked."""
    where = str(path)
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError:
        raise FormatError(where, "no JSON", "what recallatk tune writes") from None
    if not isinstance(found, dict):
        raise FormatError(where, "no JSON object", "what recallatk tune writes")
    tuned = tuned_from_dict(found, where)
    try:
        findings = None if found.get("audit") is None else findings_from_dict(found["audit"])
    except (KeyError, TypeError, ValueError) as problem:
        raise FormatError(where, f"audit: {problem}", "what recallatk tune writes") from None
    return tuned, findings
