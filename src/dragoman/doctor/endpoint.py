"""`GET /admin/doctor`: the checks of the installation and of all providers, for the web page."""

import os

from dragoman.doctor.environment import check_environment, check_providers
from dragoman.server.admin_endpoint import PREFIX, AdminEndpoint, AdminRequest


async def _check(request: AdminRequest) -> object:
    """The findings of `dragoman doctor` without a model. They cost nothing."""
    config = request.state.gateway.config
    # This gateway holds the port itself.
    found = list(check_environment(config, os.environ, running="this address"))
    found += await check_providers(config, progress=lambda name: None)
    return {"findings": found}


DOCTOR_ENDPOINTS = (AdminEndpoint("GET", f"{PREFIX}/doctor", _check, "The checks of `dragoman doctor`."),)
