"""Corpora that change: runbooks of inserts, deletes and searches, replayed and scored step by step."""

from recallatk.streaming.churn import churn
from recallatk.streaming.runbook import Runbook

__all__ = ["Runbook", "churn"]
