"""The executor's half of schedulers whose executors start before they know their task; see `enlisting_allocator`."""

from __future__ import annotations

import asyncio
import os
from abc import abstractmethod

from tony import clock
from tony.errors import ConnectionFailedError, InfraError, ProtocolError
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Assigned, Enlist
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials, TaskLaunch
from tony.retry import Backoff
from tony.rpc.client_connection import connect
from tony.schedulers.container_interface import ExecutorContainer

#: Seconds after which an executor without a task exits if it reaches no AM.
_MAX_SILENCE_SECONDS = 600.0
_BACKOFF = Backoff(first=0.1, most=5.0, jitter=0.5)


class EnlistingContainer(ExecutorContainer):
    """The container of an executor without a task.

    Attributes:
        container: the container's id.
        credentials: those of the job's executors.
    """

    container: str
    credentials: AmCredentials

    @abstractmethod
    def find_am(self) -> str | None:
        """Return the address of the current AM, as far as it is known here; None if there is none."""

    def take_task(self) -> TaskLaunch:
        return asyncio.run(self._enlist())

    async def _enlist(self) -> TaskLaunch:
        """Ask each AM that there is for the task until one has it."""
        process = os.urandom(8).hex()
        last_answer_at = clock.monotonic()
        for pause in _BACKOFF:
            trouble = "there is no application master"
            try:
                if (address := self.find_am()) is not None:
                    connection = await connect(address, self.credentials, PeerKind.EXECUTOR)
                    last_answer_at = clock.monotonic()
                    connection.send(Enlist(container=self.container, process=process))
                    try:
                        if isinstance(answer := await connection.receive(), Assigned):
                            return answer.launch
                    finally:
                        connection.close()
                        await connection.wait_closed()
            except ConnectionFailedError as error:
                trouble = str(error)
            except ProtocolError as error:
                if error.code == Code.STALE:
                    raise InfraError(f"the application master refused this executor: {error}") from error
                trouble = str(error)
            if clock.monotonic() - last_answer_at > _MAX_SILENCE_SECONDS:
                break
            await asyncio.sleep(pause)
        raise InfraError(f"no application master assigned a task: {trouble}")
