"""The linter: rules that say when a benchmark misleads, each with its number and what to do."""

from recallatk.audit.audits import audit, audit_run, audit_settings, waivers_of
from recallatk.audit.evidence import Evidence
from recallatk.audit.registry import RULES
from recallatk.audit.rule import Rule
from recallatk.core.judgments import Finding, Severity, Waiver

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
