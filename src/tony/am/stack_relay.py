"""Stack traces of a task's program: requested by clients and the AM, answered by the executor, with a timeout."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from tony import clock
from tony.model.ids import TaskId
from tony.protocol.client_messages import GetStacks
from tony.protocol.executor_messages import DumpStacks
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import MAX_STACKS_BYTES, Stacks
from tony.rpc.connection import RpcConnection

#: Seconds that an executor may take: a process may have thousands of threads.
TIMEOUT_SECONDS = 60.0
#: Maximum number of open requests.
_MAX_OPEN_REQUESTS = 256
#: Maximum characters of short and long texts of an executor.
_MAX_WORD_CHARACTERS = 100
_MAX_SENTENCE_CHARACTERS = 1000


@dataclass(slots=True, eq=False)
class _Request:
    """An open request.

    Attributes:
        on_answer: called once.
        client: that waits for the answer; None if it is the AM itself.
    """

    task: TaskId
    on_answer: Callable[[Stacks], object]
    client: RpcConnection | None
    requested_at: float


class StackRelay:
    """All open requests of a job.

    Args:
        send: sends to a task's executor; returns False if none is connected.
    """

    def __init__(self, send: Callable[[TaskId, Message], bool], tasks: Collection[TaskId]) -> None:
        self._send = send
        self._tasks = tasks
        self._waiting: dict[str, _Request] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def on_request(self, client: RpcConnection, message: GetStacks) -> TaskId | None:
        """Handle a client's request; return the task, if its executor was asked."""
        return message.task if self.request(message.task, client.send, client) else None

    def request(self, task: TaskId, on_answer: Callable[[Stacks], object], client: RpcConnection | None = None) -> bool:
        """Request stack traces; return True if the executor was asked. `on_answer` is called once in any case."""
        problem, request_id = "", os.urandom(16).hex()
        if task not in self._tasks:
            problem = "there is no such task"
        elif len(self._waiting) >= _MAX_OPEN_REQUESTS:
            problem = f"{_MAX_OPEN_REQUESTS} requests for stack traces are open already"
        else:
            self._waiting[request_id] = _Request(task, on_answer, client, clock.monotonic())
            if not self._send(task, DumpStacks(request=request_id)):
                del self._waiting[request_id]
                problem = f"the executor of {task} is not connected"
        if problem:
            on_answer(Stacks(task=str(task), problem=problem))
        return not problem

    def handle_stacks(self, task: TaskId, message: Stacks) -> None:
        """Forward an executor's answer; ignore one without an open request."""
        request = self._waiting.get(message.request)
        if request is None or request.task != task:
            return
        del self._waiting[message.request]
        request.on_answer(
            replace(
                message,
                task=str(task),
                request="",
                text=message.text[:MAX_STACKS_BYTES],
                how=message.how[:_MAX_WORD_CHARACTERS],
                problem=message.problem[:_MAX_SENTENCE_CHARACTERS],
                name=message.name[:_MAX_WORD_CHARACTERS],
            )
        )

    def on_executor_lost(self, task: TaskId) -> None:
        """Answer the requests for a task whose executor is gone."""
        self._fail(lambda request: request.task == task, f"the executor of {task} has exited")

    def on_closed(self, client: RpcConnection) -> None:
        """Drop the requests of a client that has disconnected."""
        for request_id in [request_id for request_id, request in self._waiting.items() if client is request.client]:
            del self._waiting[request_id]

    def check(self) -> None:
        """Answer requests that have timed out. Call it periodically."""
        late = clock.monotonic() - TIMEOUT_SECONDS
        self._fail(lambda request: request.requested_at < late, f"no answer within {TIMEOUT_SECONDS:g} s")

    def _fail(self, matches: Callable[[_Request], bool], why: str) -> None:
        for request_id in [request_id for request_id, request in self._waiting.items() if matches(request)]:
            request = self._waiting.pop(request_id)
            request.on_answer(Stacks(task=str(request.task), problem=why))
