"""Where a task's program stands: asked for by clients, told by the task's executor. Nobody waits for ever."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection

from tony import clock
from tony.dataclass import dataclass, replace
from tony.model.ids import TaskId
from tony.protocol.messages import LONGEST_STACKS, DumpStacks, GetStacks, Message, Stacks
from tony.rpc.connection import RpcConnection

log = logging.getLogger(__name__)

#: Seconds that an executor may take: a sampler looks at a process that may have thousands of threads.
PATIENCE = 60.0
#: Questions that may wait at one time.
_MOST = 256
#: Characters of an executor's words.
_WORD, _SENTENCE = 100, 1000


@dataclass(slots=True, eq=False)
class _Question:
    """Somebody waits."""

    task: TaskId
    client: RpcConnection
    asked: float


class StackRelay:
    """All questions of a job.

    Args:
        send: to a task's executor; False if there is none at the moment.
        tasks: of the job.
    """

    def __init__(
        self, send: Callable[[TaskId, Message], bool], tasks: Collection[TaskId], patience: float = PATIENCE
    ) -> None:
        self._send = send
        self._tasks = tasks
        self._patience = patience
        self._waiting: dict[str, _Question] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, client: RpcConnection, message: GetStacks) -> TaskId | None:
        """A client wants to know; answers of which task, if that is asked."""
        try:
            task = TaskId.parse(message.task)
        except ValueError:
            task = None
        if task is None or task not in self._tasks:
            self._tell(client, message.task[:_WORD], "there is no such task")
            return None
        if len(self._waiting) >= _MOST:
            self._tell(client, str(task), f"{_MOST} such questions wait already")
            return None
        word = os.urandom(16).hex()
        self._waiting[word] = _Question(task, client, clock.monotonic())
        if not self._send(task, DumpStacks(request=word)):
            del self._waiting[word]
            self._tell(client, str(task), f"{task} has no executor that could be asked now")
            return None
        return task

    def came(self, task: TaskId, message: Stacks) -> None:
        """An executor's answer; one that nobody waits for is left out."""
        question = self._waiting.get(message.request)
        if question is None or question.task != task:
            return
        del self._waiting[message.request]
        question.client.send(
            replace(
                message,
                task=str(task),
                request="",
                text=message.text[:LONGEST_STACKS],
                how=message.how[:_WORD],
                problem=message.problem[:_SENTENCE],
                name=message.name[:_WORD],
            )
        )

    def gone(self, task: TaskId) -> None:
        """A task's executor will answer nothing any more."""
        self._give_up(lambda question: question.task == task, f"the executor of {task} is gone")

    def closed(self, client: RpcConnection) -> None:
        """A client waits no more."""
        for word in [word for word, question in self._waiting.items() if question.client is client]:
            del self._waiting[word]

    def check(self) -> None:
        """Answers those who have waited for too long. Call now and then."""
        late = clock.monotonic() - self._patience
        self._give_up(lambda question: question.asked < late, f"no answer within {self._patience:g} s")

    def _give_up(self, is_meant: Callable[[_Question], bool], why: str) -> None:
        for word in [word for word, question in self._waiting.items() if is_meant(question)]:
            question = self._waiting.pop(word)
            self._tell(question.client, str(question.task), why)

    @staticmethod
    def _tell(client: RpcConnection, task: str, problem: str) -> None:
        client.send(Stacks(task=task, problem=problem))
