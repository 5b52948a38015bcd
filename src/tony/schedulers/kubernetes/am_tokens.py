"""The delegation tokens of a job in its application master: renewed if it has a keytab, cancelled at the end."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from tony.errors import TonyError
from tony.linux.thread_pools import to_thread
from tony.schedulers.kubernetes.launch_payload import HADOOP, KEYTAB

if TYPE_CHECKING:
    from tony.schedulers.kubernetes.hadoop_access import HadoopAccess

#: Seconds for the requests that cancel the tokens.
_CANCEL_SECONDS = 10.0
_log = logging.getLogger(__name__)


def load_tokens() -> AmTokens | None:
    """Return the tokens of this pod's job; None if it has none of its own."""
    if not HADOOP.exists():
        return None
    from tony.schedulers.kubernetes.hadoop_access import load_access  # late: few jobs use HDFS

    access = load_access()
    return AmTokens(access) if access.is_fetched else None


class AmTokens:
    """The tokens that were fetched for a job; those that its submitter brought are not touched."""

    def __init__(self, access: HadoopAccess) -> None:
        self._access = access
        self._renewal: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to renew them, if this pod has a keytab. Repeatable."""
        if KEYTAB.exists() and not self._renewal:
            from tony.storage.hdfs.token_renewal import TokenRenewal

            own = self._access.create_renewer_clients(os.environ)
            renewal = TokenRenewal(own, self._access.create_clients(), _log.warning)
            self._renewal = asyncio.get_running_loop().create_task(renewal.run(self._access.list_services()))

    async def cancel(self) -> None:
        """Cancel them: the job has ended. Failures are logged: they do not change its outcome."""
        if self._renewal:
            self._renewal.cancel()
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await to_thread(self._access.cancel_fetched_tokens)  # it may query the DNS
        except TimeoutError:
            _log.warning("the job's delegation tokens were not cancelled within %.0f s", _CANCEL_SECONDS)
        except (TonyError, OSError) as error:
            _log.warning("the job's delegation tokens were not cancelled: %s", error)
