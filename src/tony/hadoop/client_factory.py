"""From a configuration to clients that are ready: addresses, logins, patience."""

from __future__ import annotations

from collections.abc import Mapping

from tony.hadoop.authentication import Logins
from tony.hadoop.configuration.service_addresses import NameService, name_service, resource_managers, schedulers
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.failover import FailoverProxy, Policy, connection_options, name_node_policy, resource_manager_policy
from tony.hadoop.hdfs.namenode import NameNode
from tony.hadoop.ipc.login_method import LoginIdentity
from tony.hadoop.tokens.credentials import TokenCredentials
from tony.hadoop.wire import application_client, application_master, namenode
from tony.hadoop.yarn.application_client import ApplicationClient


def resource_manager(
    settings: HadoopConfiguration,
    environ: Mapping[str, str],
    *,
    credentials: TokenCredentials | None = None,
    policy: Policy | None = None,
) -> ApplicationClient:
    """A client of the ResourceManagers; connects with its first call.

    Args:
        settings: the configuration.
        environ: the environment: for the user's name and the token file.
        credentials: tokens from elsewhere than the token file.
        policy: how long to look for one that answers; None for Hadoop's own setting (15 minutes).

    Raises:
        ConfigurationError: addresses or logins that make no sense.
    """
    logins = Logins(settings, environ, credentials)
    proxy = FailoverProxy(
        name="ResourceManager",
        daemons=resource_managers(settings),
        login=logins.for_resource_manager,
        protocol=application_client.PROTOCOL,
        policy=policy or resource_manager_policy(settings),
        options=connection_options(settings),
    )
    return ApplicationClient(proxy)


def scheduler(settings: HadoopConfiguration, login: LoginIdentity, *, policy: Policy | None = None) -> FailoverProxy:
    """The ResourceManagers' doors for application masters.

    Args:
        settings: the configuration.
        login: with the token that the ResourceManager gave the application master.
        policy: how long to look for one that answers.

    Raises:
        ConfigurationError: addresses that make no sense.
    """
    return FailoverProxy(
        name="ResourceManager",
        daemons=schedulers(settings),
        login=login,
        protocol=application_master.PROTOCOL,
        policy=policy or resource_manager_policy(settings),
        options=connection_options(settings),
    )


def name_node(
    settings: HadoopConfiguration,
    environ: Mapping[str, str],
    *,
    uri: str | None = None,
    credentials: TokenCredentials | None = None,
    policy: Policy | None = None,
) -> NameNode:
    """A client of a file system's NameNodes; connects with its first call.

    Args:
        settings: the configuration.
        environ: the environment: for the user's name and the token file.
        uri: `hdfs://...`; None for `fs.defaultFS`.
        credentials: tokens from elsewhere than the token file.
        policy: how long to look for one that answers; None for about what HDFS's own clients take.

    Raises:
        ConfigurationError: no HDFS, or addresses or logins that make no sense.
    """
    return name_node_for(settings, Logins(settings, environ, credentials), name_service(settings, uri), policy=policy)


def name_node_for(
    settings: HadoopConfiguration, logins: Logins, service: NameService, *, policy: Policy | None = None
) -> NameNode:
    """The same, for a program that has its logins already."""
    proxy = FailoverProxy(
        name=f"NameNode of {service.uri}",
        daemons=service.name_nodes,
        login=logins.for_name_node(service),
        protocol=namenode.PROTOCOL,
        policy=policy or name_node_policy(settings),
        options=connection_options(settings),
    )
    return NameNode(proxy, token_service=lambda: logins.file_service_of(service))
