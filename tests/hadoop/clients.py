"""Clients of real ResourceManagers, as patient as a test needs them."""

from __future__ import annotations

from collections.abc import Mapping

from tony.hadoop.authentication import Logins
from tony.hadoop.configuration.service_addresses import list_resource_managers
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.failover import FailoverProxy, Policy, build_connection_options
from tony.hadoop.wire import application_client
from tony.hadoop.yarn.application_client import ApplicationClient


def resource_manager(settings: HadoopConfiguration, environ: Mapping[str, str], policy: Policy) -> ApplicationClient:
    """Return a client of the ResourceManagers of a configuration."""
    return ApplicationClient(
        FailoverProxy(
            name="ResourceManager",
            daemons=list_resource_managers(settings),
            login=Logins(settings, environ).login_for_resource_manager,
            protocol=application_client.PROTOCOL,
            policy=policy,
            options=build_connection_options(settings),
        )
    )
