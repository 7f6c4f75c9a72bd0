"""What all tests share: property tests that are the same on every machine and at every run."""

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "recallatk",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("recallatk")


@pytest.fixture
def interruptible():
    """Ctrl-C is an exception in this process, though whoever started it may have had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
