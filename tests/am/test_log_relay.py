"""The application master relays output to the client that asked for it, within limits, and reports missing pieces."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import cast

import pytest

from tests.am.fake_connection import FakeConnection
from tests.am.in_process_job import InProcessJob, play, succeed
from tests.core.specs import OK, workers
from tests.support.waiting import wait_until
from tony.am.log_relay import MAX_BUFFERED_BYTES, LogRelay
from tony.errors import ProtocolError
from tony.model.ids import TaskId
from tony.protocol.client_messages import KillJob
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import ProgramOutput
from tony.protocol.hello import PeerKind
from tony.protocol.message_base import Message
from tony.protocol.output_messages import LOG_PIECE, DropLog, LogPiece, ReadLog
from tony.rpc.client_connection import connect

TASKS = [TaskId("worker", index) for index in range(3)]
WORKER = TASKS[0]


class Scene:
    """A relay with one client, and executors that keep what they are told."""

    def __init__(self, *, late: bool = False) -> None:
        self.told: list[tuple[TaskId, Message]] = []
        self.there = set(TASKS)
        self.relay = LogRelay(self._send, TASKS, late=late)
        self.client = FakeConnection()

    def _send(self, task: TaskId, message: Message) -> bool:
        if task in self.there:
            self.told.append((task, message))
        return task in self.there

    def on_request(self, reader: int = 7, client: FakeConnection | None = None, **more: object) -> None:
        said = {"reader": reader, "task": TaskId("worker", 0), "stream": "out", "wait": True, **more}
        self.relay.on_request((client or self.client).me, ReadLog(**said))  # type: ignore[arg-type]

    def number(self) -> int:
        """Under which the executor knows the reader of which it was told last."""
        return cast(ReadLog, self.told[-1][1]).reader


def test_requests_and_pieces_are_routed() -> None:
    """Two clients that use the same request number do not get each other's pieces."""
    scene = Scene()
    other = FakeConnection()
    scene.on_request(name="n", offset=5, most=10**9)
    first = scene.number()
    assert scene.told == [
        (
            WORKER,
            ReadLog(
                reader=first, task=TaskId("worker", 0), stream="out", name="n", offset=5, wait=True, most=LOG_PIECE
            ),
        )
    ]
    scene.on_request(client=other)
    second = scene.number()
    assert scene.relay.handle_piece(WORKER, LogPiece(reader=second, name="n", data="eA=="))
    assert (scene.client.taken(), other.taken()) == ([], [LogPiece(reader=7, name="n", data="eA==")])
    assert scene.relay.handle_piece(WORKER, LogPiece(reader=first, name="n", missed=True, over=True))
    assert scene.client.taken() == [LogPiece(reader=7, name="n")]  # what only the master may say is left out


def test_unexpected_pieces_are_dropped() -> None:
    """Duplicates, pieces of another task, pieces for a disconnected client; the executor is not disconnected."""
    scene = Scene()
    scene.on_request()
    number = scene.number()
    assert scene.relay.handle_piece(TASKS[1], LogPiece(reader=number, data="eA=="))
    assert scene.relay.handle_piece(WORKER, LogPiece(reader=number, data="eA=="))
    assert scene.relay.handle_piece(WORKER, LogPiece(reader=number, data="eA=="))
    assert len(scene.client.taken()) == 1
    assert scene.relay.handle_piece(WORKER, LogPiece(reader=99))
    assert not scene.relay.handle_piece(WORKER, LogPiece(reader=number, data="x" * 100_000))
    assert not scene.relay.handle_piece(WORKER, LogPiece(reader=number, name="x" * 1000))


def test_a_disconnected_client_is_forgotten() -> None:
    """Its requests at executors are cancelled."""
    scene = Scene()
    scene.on_request(1)
    scene.on_request(2, task=TaskId("worker", 1), stream="err")
    numbers = [cast(ReadLog, message).reader for _, message in scene.told]
    scene.told.clear()
    scene.relay.drop(scene.client.me, DropLog(reader=1))
    assert scene.told == [(WORKER, DropLog(reader=numbers[0]))]
    scene.relay.on_closed(scene.client.me)
    assert scene.told[1:] == [(TASKS[1], DropLog(reader=numbers[1]))]
    assert len(scene.relay) == 0
    scene.relay.on_closed(scene.client.me)
    scene.relay.drop(scene.client.me, DropLog(reader=1))


def test_a_task_without_an_executor_is_waited_for() -> None:
    """Who waits is passed on when one attaches, and again when it comes back; who does not wait hears at once."""
    scene = Scene()
    scene.there.clear()
    scene.on_request()
    scene.on_request(8, wait=False)
    assert scene.client.taken() == [LogPiece(reader=8)]
    scene.there.add(WORKER)
    scene.relay.on_attached(WORKER)
    scene.relay.on_attached(WORKER)
    scene.relay.on_attached(TASKS[1])
    assert [task for task, _ in scene.told] == [WORKER, WORKER]


def test_the_end_of_a_stream_is_kept_for_the_tasks_next_executor() -> None:
    """The stream continues with the task's next executor, or ends with the job."""
    scene = Scene()
    scene.on_request()
    scene.relay.handle_piece(WORKER, LogPiece(reader=scene.number(), last=True))
    scene.relay.on_executor_lost(WORKER, printed=True)
    assert scene.client.taken() == []
    scene.relay.on_attached(WORKER)
    assert len(scene.told) == 2
    scene.relay.handle_piece(WORKER, LogPiece(reader=scene.number(), last=True))
    scene.relay.finish()
    assert scene.client.taken() == [LogPiece(reader=7, over=True)]
    scene.on_request()
    assert scene.client.taken() == [LogPiece(reader=7, over=True)]


@pytest.mark.parametrize("asked", [True, False])
def test_readers_learn_that_an_executor_died(asked: bool) -> None:
    """A waiting reader at once, another one with its next request; then both wait for the next executor."""
    scene = Scene()
    scene.on_request()
    if not asked:
        scene.relay.handle_piece(WORKER, LogPiece(reader=scene.number(), name="n", data="eA=="))
        scene.client.taken()
    scene.there.clear()
    scene.relay.on_executor_lost(WORKER, printed=True)
    if not asked:
        scene.on_request()
    assert scene.client.taken() == [LogPiece(reader=7, missed=True)]
    scene.on_request()
    assert scene.client.taken() == []


def test_late_readers_are_told_what_is_missing() -> None:
    """Output of an executor that has exited, or of one before the AM was restarted: once for each reader."""
    scene = Scene()
    scene.relay.on_executor_lost(WORKER, printed=True)
    scene.relay.on_executor_lost(TASKS[1], printed=False)
    scene.on_request()
    scene.on_request()
    scene.on_request(8, task=TaskId("worker", 1))
    assert scene.client.taken() == [LogPiece(reader=7, missed=True)]
    scene = Scene(late=True)
    scene.on_request()
    assert scene.client.taken() == [LogPiece(reader=7, missed=True)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"task": TaskId("worker", 3)},
        {"stream": "both"},
        {"offset": -1},
        {"offset": 2**63},
        {"most": 0},
        {"reader": 2**63},
        {"name": "x" * 201},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    """The client is sent away; no executor hears of it."""
    scene = Scene()
    scene.on_request(**wrong)  # type: ignore[arg-type]
    assert (scene.client.refused, scene.told) == ([Code.BAD_MESSAGE], [])


def test_open_requests_are_bounded() -> None:
    """What may wait for one client has a limit; what was answered, or asked anew, does not count any longer."""
    scene = Scene()
    for _ in range(3 * MAX_BUFFERED_BYTES // LOG_PIECE):
        scene.on_request()
    assert scene.client.refused == []
    scene.relay.drop(scene.client.me, DropLog(reader=7))
    for number in range(MAX_BUFFERED_BYTES // LOG_PIECE):
        scene.on_request(number)
    assert scene.client.refused == []
    scene.on_request(-1)
    assert scene.client.refused == [Code.BUSY]


def test_over_real_connections(tmp_path: Path) -> None:
    """A client reads what a fake executor says, and goes; who plays an executor's part is sent away."""

    async def read(job: InProcessJob) -> None:
        await wait_until(lambda: bool(job.executors) and job.report().state.value == "running")
        executor = next(iter(job.executors.values()))
        client = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        client.send(ReadLog(reader=1, task=TaskId("worker", 0), stream="out", wait=True))
        await wait_until(lambda: any(isinstance(it, ReadLog) for it in executor.received))
        ask = next(it for it in executor.received if isinstance(it, ReadLog))
        data = base64.b64encode(b"hello").decode()
        executor.send(LogPiece(reader=ask.reader, name="worker-0.s1.t1.out", data=data))
        assert await client.receive() == LogPiece(reader=1, name="worker-0.s1.t1.out", data=data)
        client.abort()
        await wait_until(lambda: any(isinstance(it, DropLog) for it in executor.received))
        assert len(job.master.executors.logs) == 0
        bad = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        bad.send(LogPiece(reader=1))
        with pytest.raises(ProtocolError, match="a client may not send log-piece"):
            await bad.receive()
        executor.exit(OK)

    _, finish = play(tmp_path, workers(1), succeed, meanwhile=read)
    assert finish.exit_code == 0


def test_a_dead_executor_that_had_printed_is_missed(tmp_path: Path) -> None:
    """The desk of the executors tells the relay who is gone for good, and whether that matters."""

    async def read(job: InProcessJob) -> None:
        await wait_until(lambda: bool(job.executors) and job.report().state.value == "running")
        executor = next(iter(job.executors.values()))
        executor.report(ProgramOutput(n=0, session=1, try_=1))
        client = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        client.send(ReadLog(reader=1, task=TaskId("worker", 0), stream="out", wait=True))
        await wait_until(lambda: any(isinstance(it, ReadLog) for it in executor.received))
        await executor.die()
        assert await client.receive() == LogPiece(reader=1, missed=True)
        client.send(KillJob(actor="test"))

    _, finish = play(tmp_path, workers(1), succeed, meanwhile=read)
    assert finish.failure
