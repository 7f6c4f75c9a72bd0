"""What the tests of judges share: a small dataset with texts, and a judge behind HTTP."""

import threading

import pytest

from judge_service import JudgeService, retrievals, small_dataset


@pytest.fixture
def dataset():
    return small_dataset()


@pytest.fixture
def rows():
    """Five corpus rows for each query."""
    return retrievals()


@pytest.fixture
def service(monkeypatch):
    service = JudgeService()
    threading.Thread(target=service.serve_forever, daemon=True).start()
    monkeypatch.setenv("JUDGE_URL", service.url)
    yield service
    service.ended.set()
    service.shutdown()
    service.server_close()
