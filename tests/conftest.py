"""What holds for every test."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("hypothesis"):  # not in every environment that runs a part of the tests
    from hypothesis import HealthCheck, settings

    # how long an example takes is the machine's affair
    settings.register_profile("vlagent", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("vlagent")
