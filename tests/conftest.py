"""What all tests share: property tests that are the same on every machine and at every run."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "recallatk",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("recallatk")
