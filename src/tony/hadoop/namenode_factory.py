"""From a configuration to a client of the NameNodes: addresses, logins, options."""

from __future__ import annotations

from tony.hadoop.authentication import Logins
from tony.hadoop.configuration.service_addresses import NameService
from tony.hadoop.configuration.settings import HadoopConfiguration
from tony.hadoop.failover import FailoverProxy, Policy, connection_options
from tony.hadoop.hdfs.namenode import NameNode
from tony.hadoop.wire import namenode


def create_name_node(
    settings: HadoopConfiguration, logins: Logins, service: NameService, *, policy: Policy
) -> NameNode:
    """Return a client of a file system's NameNodes; it connects with its first call.

    Args:
        policy: how long to look for one that answers.
    """
    proxy = FailoverProxy(
        name=f"NameNode of {service.uri}",
        daemons=service.name_nodes,
        login=logins.login_for_name_node(service),
        protocol=namenode.PROTOCOL,
        policy=policy,
        options=connection_options(settings),
    )
    return NameNode(proxy, token_service=lambda: logins.find_file_service(service))
