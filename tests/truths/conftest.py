"""What the tests of truths share: files that are not waited for."""

import os

import pytest


@pytest.fixture(autouse=True)
def undelayed_files(monkeypatch):
    """Nobody cuts the power here, and the disk takes longer than the small computations."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
