"""Delegation tokens, with which a job's processes authenticate to HDFS on a secure cluster.

The client fetches one for each file system, or uses those of HADOOP_TOKEN_FILE_LOCATION. They travel in the `tokens`
of the AM's container, and from there in those of the tasks. YARN renews them as long as the job runs, and cancels those
that were fetched for it when it has ended. On Kubernetes they travel in a Secret, and `token_renewal` does both.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence

from tony.errors import PlatformError, SchedulerError
from tony.hadoop.authentication import Logins, is_secure
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import NameService, find_name_service, list_resource_managers
from tony.hadoop.failover import Policy
from tony.hadoop.hdfs.webhdfs_messages import WebLogin
from tony.hadoop.tokens import (
    AM_RM,
    CLIENT_TO_AM,
    CONTAINER,
    NODE_MANAGER,
    RM_DELEGATION,
    TokenCredentials,
    to_url_string,
)
from tony.hadoop.wire.rpc import Token

#: With the first three, a program could impersonate the AM; with the others its user: submit, kill.
_YARN_TOKENS = (AM_RM, NODE_MANAGER, CONTAINER, RM_DELEGATION, CLIENT_TO_AM)
_ALWAYS = "dfs.namenode.delegation.token.always-use"
_RENEWER = "yarn.resourcemanager.principal"
_ANYWHERE = ("0.0.0.0", "::")

#: Timeouts in seconds for a user at a terminal: a cluster that does not respond, or one of an HA pair that hangs.
POLICY = Policy(give_up_after=10.0, shortest=0.1, longest=0.5, first_answer=10.0)


def select_program_tokens(credentials: TokenCredentials) -> TokenCredentials:
    """Return the tokens that user programs may have of their AM's, and a job of its submitter's."""
    return credentials.to_reduced(*_YARN_TOKENS)


def are_tokens_issued(settings: Configuration) -> bool:
    """Return True if the cluster's file systems issue tokens: with security, or where that is enabled without."""
    return is_secure(settings) or settings.get_bool(_ALWAYS)


def find_token_renewer(settings: Configuration, user: str) -> str:
    """Return the renewer of a job's tokens: the ResourceManager's principal; without security, the user.

    Raises:
        ConfigurationError: the principal of a secure cluster's ResourceManager is not set.
    """
    principal = settings.get(_RENEWER)
    if not principal:
        if is_secure(settings):
            raise settings.build_error(_RENEWER, "is required: the ResourceManager renews the tokens of jobs")
        return user
    host = list_resource_managers(settings)[0].address.host
    return principal.replace("_HOST", (socket.getfqdn() if host in _ANYWHERE else host).lower())


async def collect_job_credentials(
    settings: Configuration, logins: Logins, file_systems: Sequence[str], renewer: str = ""
) -> TokenCredentials:
    """Return the AM container's credentials: those of the token file, and new tokens for the other file systems.

    Args:
        file_systems: URIs; an empty one is the default file system.
        renewer: the renewer's principal; empty for YARN's ResourceManager.

    Raises:
        ConfigurationError: a URI is not of HDFS.
        HadoopError: a file system cannot be reached, or issues no token.
        SchedulerError: it issues none, but requires one.
    """
    found = select_program_tokens(logins.credentials)
    if not are_tokens_issued(settings):
        return found
    services = dict.fromkeys(find_name_service(settings, uri or None) for uri in file_systems)
    missing = [service for service in services if logins.find_file_token(service) is None]
    tokens = await asyncio.gather(*(fetch_token(settings, logins, service, renewer) for service in missing))
    return found.to_extended(*(token for token in tokens if token is not None))


async def fetch_token(settings: Configuration, logins: Logins, service: NameService, renewer: str = "") -> Token | None:
    """Return a new token of a file system; None from one that requires none.

    Args:
        renewer: see `collect_job_credentials`.
    """
    from tony.hadoop.hdfs.namenode_rpc import create_name_node  # late: most clusters require no tokens

    async with create_name_node(settings, logins, service, policy=POLICY) as client:
        return await client.get_delegation_token(renewer or find_token_renewer(settings, logins.user))


def _refuse_loops() -> None:
    """Refuse to block a running loop; blocking work runs in threads unless the machine has no thread left."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise PlatformError(
            "cannot start a thread to fetch an HDFS delegation token (process limit reached, ulimit -u); try again"
        )


class FileLogin:
    """The identity for requests over HTTP to a file system: a name or a token. See `LoginSource`.

    The token is that of the token file (in a container: the job's), or a new one, fetched over RPC, so a Kerberos
    ticket is needed only there. It is used until the NameNode refuses it.
    """

    def __init__(self, settings: Configuration, logins: Logins, files: NameService | None = None) -> None:
        self._settings, self._logins, self._files = settings, logins, files
        self._known: WebLogin | None = None
        self._lock = threading.Lock()

    def __call__(self, refused: WebLogin | None) -> WebLogin:
        """Return the identity. Blocks if it has to fetch a token, so not in a running loop.

        Raises:
            HadoopError: the NameNode cannot be reached, or issues no token.
        """
        with self._lock:
            if self._known is None or self._known == refused:
                self._known = self._find_login()
            return self._known

    def _find_login(self) -> WebLogin:
        # Late: it imports http.client.
        if not self._logins.is_secure:  # without security, WebHDFS checks user.name only and ignores tokens
            return WebLogin(user=self._logins.user, act_for=self._logins.acts_for)
        service = self._files or find_name_service(self._settings)
        token = self._logins.find_file_token(service)
        if token is None:
            _refuse_loops()
            token = asyncio.run(fetch_token(self._settings, self._logins, service, self._logins.principal))
        if token is None:
            raise SchedulerError(f"{service.uri} issues no delegation token, but requires authentication")
        return WebLogin(token=to_url_string(token))
