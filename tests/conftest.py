"""What all tests share: property tests that are the same on every machine and at every run."""

import signal

import pytest
from hypothesis import HealthCheck, settings

from recallatk.redaction import known

settings.register_profile(
    "recallatk",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("recallatk")


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests():
    """Values that a test has had remembered as secrets are no secrets to the next."""
    yield
    known._secrets.clear()
    known._expanded.clear()


@pytest.fixture
def interruptible():
    """Ctrl-C is an exception in this process, though whoever started it may have had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
