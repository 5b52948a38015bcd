"""Delegation tokens: what a job's programs prove themselves with to HDFS, where it does not believe names.

The client fetches one for each file system, or brings those of HADOOP_TOKEN_FILE_LOCATION. They travel in the `tokens`
of the application master's container, and from there in those of the tasks. YARN renews them as long as the job lives,
and cancels those that were fetched for it when it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tony.errors import PlatformError, SchedulerError
from tony.hadoop.authentication import Logins, is_secure
from tony.hadoop.configuration import Configuration
from tony.hadoop.configuration.service_addresses import NameService, name_service, resource_managers
from tony.hadoop.failover import Policy
from tony.hadoop.tokens.credentials import TokenCredentials
from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.tokens.token_selector import AM_RM, CLIENT_TO_AM, CONTAINER, NODE_MANAGER, RM_DELEGATION

if TYPE_CHECKING:
    from tony.hadoop.hdfs.webhdfs import WebLogin

#: With the first three a program could play the application master, with the others its user: submit, kill.
_OF_YARN = (AM_RM, NODE_MANAGER, CONTAINER, RM_DELEGATION, CLIENT_TO_AM)
_ALWAYS = "dfs.namenode.delegation.token.always-use"
_RENEWER = "yarn.resourcemanager.principal"
_ANYWHERE = ("0.0.0.0", "::")

#: A person waits for a cluster of which nobody answers; or for one of a pair, which hangs.
POLICY = Policy(patience=10.0, shortest=0.1, longest=0.5, first_answer=10.0)


def for_programs(credentials: TokenCredentials) -> TokenCredentials:
    """What programs of the user's may have of their application master's, and a job of its submitter's."""
    return credentials.without(*_OF_YARN)


def are_given(settings: Configuration) -> bool:
    """Whether file systems of this cluster give tokens: with security, or where they are told to do so without."""
    return is_secure(settings) or settings.get_bool(_ALWAYS)


def renewer(settings: Configuration, user: str) -> str:
    """Who may renew a job's tokens: the ResourceManager's principal. Without security nobody does, but may the user.

    Raises:
        ConfigurationError: a secure cluster whose ResourceManager's principal is not known.
    """
    principal = settings.get(_RENEWER)
    if not principal:
        if is_secure(settings):
            raise settings.mistake(_RENEWER, "is needed: it renews the tokens of jobs.")
        return user
    host = resource_managers(settings)[0].address.host
    return principal.replace("_HOST", (socket.getfqdn() if host in _ANYWHERE else host).lower())


async def credentials_of_job(settings: Configuration, logins: Logins, file_systems: Sequence[str]) -> TokenCredentials:
    """What the application master's container gets of its submitter: what the token file holds, and what is missing.

    Args:
        file_systems: URIs, beside the default file system.

    Raises:
        ConfigurationError: a URI that is none of HDFS.
        HadoopError: a file system is not reached, or gives no token.
        SchedulerError: it gives none, and wants one.
    """
    found = for_programs(logins.credentials)
    if not are_given(settings):
        return found
    wanted = [name_service(settings), *(name_service(settings, uri) for uri in file_systems)]
    missing = [service for service in dict.fromkeys(wanted) if logins.file_token(service) is None]
    tokens = await asyncio.gather(*(fetched(settings, logins, service) for service in missing))
    return found.having(*(token for token in tokens if token is not None))


async def fetched(settings: Configuration, logins: Logins, service: NameService) -> HadoopToken | None:
    """A new token of a file system; None from one that wants none."""
    from tony.hadoop.client_factory import name_node_for  # late: most clusters want no tokens

    async with name_node_for(settings, logins, service, policy=POLICY) as client:
        return await client.delegation_token(renewer(settings, logins.user))


def _refuse_loops() -> None:
    """Work that blocks is done in threads; in the loop only where the machine has no room for one more."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise PlatformError("this machine lets nobody start a thread now, and a token of HDFS is needed; try again")


class FileLogin:
    """As whom a file system, mostly the default one, is asked over HTTP: by name, or by a token. See `LoginSource`.

    The token is that of the token file (in a container: the job's), or a new one, fetched over RPC: so a ticket is
    needed there alone, and never for pages. One is used until the NameNode refuses it.
    """

    def __init__(self, settings: Configuration, logins: Logins, files: NameService | None = None) -> None:
        self._settings, self._logins, self._files = settings, logins, files
        self._known: WebLogin | None = None
        self._lock = threading.Lock()

    def __call__(self, refused: WebLogin | None) -> WebLogin:
        """Blocks if it has to fetch a token, so not in a running loop.

        Raises:
            HadoopError: the NameNode is not reached, or gives no token.
        """
        with self._lock:
            if self._known is None or self._known == refused:
                self._known = self._found()
            return self._known

    def _found(self) -> WebLogin:
        # Late: http.client, which not all of us need at once.
        from tony.hadoop.hdfs.webhdfs import WebLogin
        from tony.hadoop.tokens.url_string import to_url_string

        if not self._logins.is_secure:  # there, HDFS's pages look at names alone, whatever token comes with them
            return WebLogin(user=self._logins.user, act_for=self._logins.acts_for)
        service = self._files or name_service(self._settings)
        token = self._logins.file_token(service)
        if token is None:
            _refuse_loops()
            token = asyncio.run(fetched(self._settings, self._logins, service))
        if token is None:
            raise SchedulerError(f"{service.uri} gives no delegation token, and believes no name")
        return WebLogin(token=to_url_string(token))
