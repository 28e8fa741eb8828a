"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is no fault of the code: how long things may take is measured by scripts/bench.py.
settings.register_profile("omniroute", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("omniroute")
