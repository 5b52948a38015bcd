"""Renews a job's HDFS delegation tokens where no ResourceManager does.

Renewing extends the lifetime that the NameNode keeps for a token; the token stays the same, so its holders need not be
told. Only the renewer that a token names may do it, authenticated by Kerberos.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tony import clock
from tony.errors import InfraError, TonyError, UserError
from tony.hadoop.configuration.service_addresses import NameService
from tony.hadoop.errors import AccessControlError, HadoopError, InvalidTokenError
from tony.hadoop.hdfs.namenode_rpc import create_name_node
from tony.linux.thread_pools import to_thread
from tony.storage.hdfs.delegation_tokens import POLICY
from tony.storage.hdfs.hdfs_clients import HdfsClients

#: Part of the remaining lifetime after which a token is renewed. A renewal costs a request, so it is not put off for
#: longer than an hour: Kerberos needs clocks that agree within minutes only.
_SHARE = 0.75
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 3600.0
#: Seconds until another attempt, after a failed one; a site's tokens live for a day.
_RETRY_SECONDS = 60.0


class TokenRenewal:
    """The renewal of the tokens of some file systems.

    Args:
        hdfs: identifies the renewer; its tokens are not used.
        tokens: clients of the same configuration with the job's tokens.
        on_trouble: called when a token cannot be renewed, once per token and cause.
    """

    def __init__(self, hdfs: HdfsClients, tokens: HdfsClients, on_trouble: Callable[[str], None]) -> None:
        self._hdfs, self._tokens, self._on_trouble = hdfs, tokens, on_trouble
        self._reported: set[str] = set()

    async def run(self, services: Sequence[NameService]) -> None:
        """Renew the tokens of file systems until none can live longer, or until cancelled."""
        async with asyncio.TaskGroup() as group:
            for service in services:
                group.create_task(self._renew_until_expiry(service))

    async def _renew_until_expiry(self, service: NameService) -> None:
        last = 0.0
        while True:
            try:
                expires = await to_thread(lambda: asyncio.run(self._renew(service)))
            except (AccessControlError, InvalidTokenError, UserError) as error:  # waiting does not help
                return self._report(service, error)
            except InfraError as error:  # a KDC or a NameNode does not respond, or the ticket has expired
                self._report(service, error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if expires <= last:  # its last day: it cannot be renewed beyond it
                return
            last = expires
            await asyncio.sleep(min(_MAX_PAUSE_SECONDS, max(_MIN_PAUSE_SECONDS, _SHARE * (expires - clock.wall()))))

    async def _renew(self, service: NameService) -> float:
        token = self._tokens.logins.find_file_token(service)
        if token is None:
            raise HadoopError("the job has no token of it")
        async with create_name_node(self._hdfs.configuration, self._hdfs.logins, service, policy=POLICY) as client:
            return await client.renew_delegation_token(token)

    def _report(self, service: NameService, error: Exception) -> None:
        text = f"the job's delegation token of {service.uri} was not renewed: {error}"
        if text not in self._reported:
            self._reported.add(text)
            self._on_trouble(text)


def cancel_tokens(hdfs: HdfsClients, services: Sequence[NameService], on_trouble: Callable[[str], None]) -> None:
    """Cancel the tokens of file systems, authenticated by them. Blocks; not in a running loop.

    Args:
        on_trouble: called for each token that cannot be cancelled; the others are cancelled nevertheless.
    """

    async def cancel(service: NameService) -> None:
        try:
            if (token := hdfs.logins.find_file_token(service)) is not None:
                async with create_name_node(hdfs.configuration, hdfs.logins, service, policy=POLICY) as client:
                    await client.cancel_delegation_token(token)
        except (TonyError, OSError) as error:
            on_trouble(f"the job's delegation token of {service.uri} was not cancelled: {error}")

    async def cancel_all() -> None:
        await asyncio.gather(*map(cancel, services))

    asyncio.run(cancel_all())
