"""Settings for the whole suite."""

from hypothesis import HealthCheck, settings

# No deadline and no complaint about slow data: a busy machine must not make a test fail.
settings.register_profile(
    "suite",
    deadline=None,
    max_examples=60,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")
