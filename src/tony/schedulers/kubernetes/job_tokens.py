"""Fetches and renews the delegation tokens of a job on Kubernetes, where no ResourceManager renews them."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Sequence

from tony.errors import ConfigError, Problem
from tony.hadoop.configuration import Configuration, ConfigurationError
from tony.hadoop.configuration.service_addresses import NameService, find_name_service
from tony.hadoop.sasl.keytab import read_principal
from tony.hadoop.tokens import TokenCredentials
from tony.kube.api_client import ApiClient
from tony.kube.errors import KubeApiError
from tony.kube.resources import SECRETS
from tony.linux.thread_pools import to_thread
from tony.model.state_directory import Home
from tony.schedulers.client_interface import PreparedJob
from tony.schedulers.kubernetes.hadoop_access import HadoopAccess, HadoopSummary, collect_settings
from tony.schedulers.kubernetes.history_location import is_known
from tony.schedulers.kubernetes.job_secrets import HADOOP_SECRET, build_secret_name
from tony.schedulers.kubernetes.settings import KubernetesSettings
from tony.storage.hdfs.delegation_tokens import collect_job_credentials
from tony.storage.hdfs.hdfs_clients import HdfsClients, find_hdfs
from tony.storage.hdfs.token_renewal import TokenRenewal

#: Keys of the Secret of `token_renewer`.
KEYTAB_KEY, KRB5_CONF_KEY = "keytab", "krb5.conf"
_RENEWER_KEY = "scheduler.kubernetes.token_renewer"


def fetch_access(
    job: PreparedJob, settings: KubernetesSettings, systems: Sequence[str], client: ApiClient
) -> HadoopAccess:
    """Return the access of a new job to file systems, with new tokens. Blocks.

    Raises:
        ConfigError: no Hadoop configuration is set, or the renewer's Secret cannot be used.
        HadoopError, SchedulerError: a file system cannot be reached, or issues no token.
    """
    renewer = _read_renewer(client, settings.token_renewer) if settings.token_renewer else ""
    try:
        hdfs = find_hdfs(job.home, job.other_schedulers)
        tokens = asyncio.run(
            collect_job_credentials(hdfs.configuration, hdfs.logins, systems, renewer or hdfs.logins.principal)
        )
    except (ValueError, ConfigurationError) as error:
        problem = Problem(key=settings.find_file_system_key(), value=", ".join(systems), message=str(error))
        raise ConfigError([problem]) from error
    summary = HadoopSummary(
        user=hdfs.user,
        settings=collect_settings(hdfs.configuration),
        file_systems=tuple(systems),
        is_fetched=bool(tokens.tokens) and not hdfs.logins.credentials.tokens,
    )
    return HadoopAccess(summary, TokenCredentials(tokens=tokens.tokens))


def _read_renewer(client: ApiClient, name: str) -> str:
    """Return the principal of the renewer's keytab."""
    try:
        found = client.get(SECRETS, name).get("data") or {}
        if missing := [key for key in (KEYTAB_KEY, KRB5_CONF_KEY) if key not in found]:
            raise ValueError(f"this Secret has no key {' and no key '.join(missing)}")
        return read_principal(base64.b64decode(found[KEYTAB_KEY]))
    except (KubeApiError, ValueError) as error:
        text = f"cannot be used: {error}. Create it: kubectl create secret generic {name} --from-file=keytab "
        raise ConfigError([Problem(key=_RENEWER_KEY, value=name, message=f"{text}--from-file=krb5.conf")]) from error


def _read_access(client: ApiClient, job: str) -> HadoopAccess | None:
    try:
        data = client.get(SECRETS, build_secret_name(job, HADOOP_SECRET)).get("data") or {}
    except KubeApiError as error:
        if error.is_missing:
            return None
        raise
    return HadoopAccess.decode({key: base64.b64decode(value) for key, value in data.items()})


async def renew_for_followed_job(client: ApiClient, home: Home, job: str, on_trouble: Callable[[str], None]) -> None:
    """Renew the tokens that this client's user may renew, until cancelled or nothing is left to renew.

    The job's Secret may be anyone's who may write Secrets: it must not choose where this user authenticates. Addresses
    and principals are those of this client's own Hadoop configuration.

    Raises:
        KubeError: the Secret cannot be read.
        ConfigurationError: the configuration cannot be used.
    """
    access = await to_thread(_read_access, client, job)
    if not (access and access.is_fetched):
        return
    try:
        configuration = find_hdfs(home, {}).configuration
    except ValueError as error:
        on_trouble(f"the job's delegation tokens are not renewed: {error}")
        return
    own = HdfsClients.from_configuration(configuration, os.environ, TokenCredentials())
    tokens = HdfsClients.from_configuration(configuration, os.environ, access.credentials)
    services = _select_known_services(configuration, access.summary.file_systems, on_trouble)
    await TokenRenewal(own, tokens, on_trouble).run(services)


def _select_known_services(
    configuration: Configuration, file_systems: Sequence[str], on_trouble: Callable[[str], None]
) -> Sequence[NameService]:
    """Return the file systems all of whose NameNodes the configuration names itself, and report the others."""
    found: list[NameService] = []
    for uri in file_systems:
        service = find_name_service(configuration, uri or None)
        if is_known(configuration, service):
            found.append(service)
        else:
            on_trouble(
                f"the job's delegation token of {service.uri} is not renewed: your Hadoop configuration does not name "
                "this file system. Add it to dfs.nameservices, with dfs.namenode.rpc-address."
            )
    return found
