"""The end of each program's output is requested, stored in the background, and given up without delaying anything."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence

import pytest

from tests.support.waiting import wait_until
from tony.am import output_retention
from tony.am.output_retention import OutputRetention
from tony.errors import StorageError
from tony.model.ids import TaskId
from tony.model.log_file_tail import LogFileTail
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.message_base import Message
from tony.protocol.output_messages import LOG_PIECE, LogPiece, ReadLog
from tony.retry import Backoff

WORKER = TaskId("worker", 0)
FAILED = ExitStatus(reason=ExitReason.EXITED, code=1, first_output=0.1)
STOPPED = ExitStatus(reason=ExitReason.STOPPED, signal="SIGTERM", first_output=0.1)
MIB = 1 << 20


class Scene:
    """A job of which the store takes everything, unless a test sets `error`."""

    def __init__(self, task_count: int = 2, limit: int = 16 * MIB) -> None:
        self.sent: list[ReadLog] = []
        self.stored: list[LogFileTail] = []
        self.error: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.kept = OutputRetention(self._send, task_count, self._store, limit)

    def _send(self, task: TaskId, message: Message) -> bool:
        assert isinstance(message, ReadLog)
        assert message.task == task
        self.sent.append(message)
        return True

    async def _store(self, tails: Sequence[LogFileTail]) -> None:
        await self.answers.wait()
        if self.error:
            raise self.error
        self.stored += tails

    def answer(self, data: bytes, offset: int = 0, number: int = 0, text: str = "", **more: object) -> bool:
        request = self.sent[number]
        text = text or base64.b64encode(data).decode()
        fields = {"reader": request.reader, "name": request.name, "offset": offset, "data": text, **more}
        return self.kept.handle_piece(request.task, LogPiece(**fields))  # type: ignore[arg-type]


async def test_both_streams_are_requested_and_stored() -> None:
    scene = Scene()
    scene.kept.on_exited(WORKER, 2, 3, FAILED)
    assert [(each.name, each.tail, each.most) for each in scene.sent] == [
        ("worker-0.s2.t3.out", True, LOG_PIECE),
        ("worker-0.s2.t3.err", True, LOG_PIECE),
    ]
    assert all(each.reader < 0 for each in scene.sent)
    assert scene.answer(b"printed\n")
    assert scene.kept.handle_piece(WORKER, LogPiece(reader=scene.sent[1].reader))  # nothing was printed
    await scene.kept.finish()
    assert scene.stored == [LogFileTail(name="worker-0.s2.t3.out", offset=0, data=b"printed\n")]


async def test_a_tail_begins_with_a_whole_line() -> None:
    scene = Scene()
    for try_ in (1, 2):
        scene.kept.on_exited(WORKER, 1, try_, FAILED)
    scene.answer(b"half\nwhole\nlast", 100, times=(0, 1000, 7, 5))
    scene.answer(b"one line without an end\n", 100, number=2)
    await scene.kept.finish()
    assert [(each.offset, each.data, [*each.times]) for each in scene.stored] == [
        (105, b"whole\nlast", [(0, 1000), (2, 1005)]),
        (100, b"one line without an end\n", []),
    ]


async def test_programs_without_output_are_not_asked() -> None:
    scene, without = Scene(), Scene(limit=0)
    scene.kept.on_exited(WORKER, 1, 1, ExitStatus(reason=ExitReason.EXITED, code=0))
    without.kept.on_exited(WORKER, 1, 1, FAILED)
    assert scene.sent == without.sent == []


async def test_the_first_failures_of_a_session_get_the_most() -> None:
    """Of many tasks each has a small share; together they do not exceed the limit."""
    scene = Scene(task_count=5000)
    tasks = [TaskId("worker", index) for index in range(5000)]
    for task in tasks:
        scene.kept.on_exited(task, 1, 1, FAILED)
    sizes = [each.most for each in scene.sent]
    assert (sizes[0], sizes[127], sizes[128]) == (LOG_PIECE, LOG_PIECE, 838)
    assert sum(sizes) <= 16 * MIB
    scene.sent.clear()
    scene.kept.on_exited(WORKER, 2, 1, STOPPED)
    scene.kept.on_exited(WORKER, 2, 2, FAILED)
    assert [each.most for each in scene.sent] == [838, 838, LOG_PIECE, LOG_PIECE]


async def test_requests_are_repeated_until_the_executor_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.kept.on_exited(WORKER, 1, 1, FAILED)
    scene.answer(b"x")
    scene.kept.on_attached(WORKER)
    assert [each.name for each in scene.sent] == ["worker-0.s1.t1.out", *["worker-0.s1.t1.err"] * 2]
    scene.kept.on_attached(TaskId("worker", 1))
    scene.kept.on_executor_lost(WORKER)
    scene.kept.on_attached(WORKER)
    assert len(scene.sent) == 3
    assert "the end of worker-0.s1.t1.err is not kept" in caplog.text
    assert scene.answer(b"too late", number=1)
    await scene.kept.finish()
    assert [each.data for each in scene.stored] == [b"x"]


async def test_an_answer_that_makes_no_sense_is_refused() -> None:
    scene = Scene()
    for try_ in range(1, 4):
        scene.kept.on_exited(WORKER, 1, try_, FAILED)
    assert scene.answer(b"x", name="worker-7.s1.t1.out")  # of an earlier request of that number
    assert not scene.answer(b"x", -1)
    assert not scene.answer(b"x", number=1, text="not base64")
    assert not scene.answer(b"x" * (LOG_PIECE + 3), number=2)
    assert not scene.answer(b"x", number=3, name="x" * 300)
    await scene.kept.finish()
    assert scene.stored == []


async def test_a_store_that_fails_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_retention, "_BACKOFF", Backoff(first=0.001, most=0.001))
    scene = Scene()
    scene.error = StorageError("it is full")
    for try_ in (1, 2):
        scene.kept.on_exited(WORKER, 1, try_, FAILED)
    scene.answer(b"first")
    await wait_until(lambda: "cannot store the output of programs that have ended yet: it is full" in caplog.text)
    scene.answer(b"second", number=2)
    scene.error = None
    await scene.kept.finish()
    assert [each.data for each in scene.stored] == [b"first", b"second"]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_store_that_takes_nothing_does_not_hold_up_the_end(
    hangs: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_retention, "_FINISH_SECONDS", 0.01)
    scene = Scene()
    scene.error = ValueError("a bug")
    if hangs:
        scene.answers.clear()
    scene.kept.on_exited(WORKER, 1, 1, FAILED)
    scene.answer(b"x")
    async with asyncio.timeout(30):
        await scene.kept.finish()
    assert "the output of 1 program is not kept" in caplog.text
    assert caplog.records[-1].levelno == logging.ERROR


async def test_memory_is_bounded_while_the_store_hangs() -> None:
    scene = Scene(limit=4 * LOG_PIECE)
    scene.answers.clear()
    for try_ in range(1, 20):
        scene.kept.on_exited(WORKER, 1, try_, FAILED)
        scene.answer(bytes([try_]) * scene.sent[-2].most, number=2 * try_ - 2)
        await asyncio.sleep(0)
    scene.answers.set()
    await scene.kept.finish()
    assert sum(len(each.data) for each in scene.stored[1:]) <= 4 * LOG_PIECE
    assert scene.stored[-1].data[0] == 19
