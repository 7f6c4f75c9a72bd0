"""Redaction: text and values without secrets and in valid Unicode, safe to write or show."""

from recallatk.redaction.known import hide_known, hiding, remember
from recallatk.redaction.names import is_literal, is_url, literal_secret, without_secrets
from recallatk.redaction.text import HIDDEN, redact_text, writable
from recallatk.redaction.values import public, without_known

__all__ = [
    "HIDDEN",
    "hide_known",
    "hiding",
    "is_literal",
    "is_url",
    "literal_secret",
    "public",
    "redact_text",
    "remember",
    "without_known",
    "without_secrets",
    "writable",
]
