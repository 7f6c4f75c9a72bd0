"""The linter: rules that detect misleading benchmarks, each with a number and a remedy."""

from recallatk.core.judgments import Finding, Severity, Waiver
from recallatk.linter.audits import audit, audit_run, audit_settings, waivers_of
from recallatk.linter.evidence import Evidence
from recallatk.linter.rule import Rule
from recallatk.linter.rules import RULES

__all__ = [
    "RULES",
    "Evidence",
    "Finding",
    "Rule",
    "Severity",
    "Waiver",
    "audit",
    "audit_run",
    "audit_settings",
    "waivers_of",
]
