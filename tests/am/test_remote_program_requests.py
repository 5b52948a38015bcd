"""Requests for programs in tasks' containers: refused, or recorded before an executor hears of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.am.fake_connection import FakeConnection
from tests.am.in_process_job import InProcessJob, play, succeed
from tests.core.specs import OK, workers
from tests.support.waiting import wait_until
from tony.am.remote_program_requests import RemoteProgramRequests, find_program_name
from tony.am.tunnel_broker import TunnelBroker
from tony.core.events import RemoteProgramRequested
from tony.errors import ProtocolError
from tony.model.actor import Actor
from tony.model.ids import TaskId
from tony.protocol.client_messages import GetReport
from tony.protocol.error_codes import Code
from tony.protocol.executor_messages import Heartbeat
from tony.protocol.hello import PeerKind
from tony.protocol.launch import AmCredentials
from tony.protocol.message_base import Message
from tony.protocol.remote_program_messages import (
    MAX_ARGUMENTS_BYTES,
    ClientTerminal,
    InputTaken,
    InterruptProgram,
    ProgramStream,
    RemoteProgramExited,
    RunInTask,
    StartRemoteProgram,
    WindowSize,
    build_piece,
)
from tony.protocol.tunnel_messages import EndTunnel, JoinTunnel, OpenTunnel, TunnelFailed, TunnelOpened
from tony.rpc.client_connection import connect

WORKER = TaskId("worker", 0)
ANN = Actor("ann")
COMMAND = RunInTask(actor="ann", task=WORKER, argv=("/usr/bin/curl", "--header", "a secret word"))


class Scene:
    """One client, and what executors get."""

    def __init__(self, most: int = 10) -> None:
        self.told: list[Message] = []
        self.there = True
        self.tunnels = TunnelBroker(self._send, [WORKER], lambda tasks: most)
        self.requests = RemoteProgramRequests(self.tunnels)
        self.client, self.far = FakeConnection(), FakeConnection()

    def _send(self, task: TaskId, message: Message) -> bool:
        if self.there:
            self.told.append(message)
        return self.there

    def ask(self, message: RunInTask = COMMAND) -> RemoteProgramRequested | None:
        return self.requests.on_request(self.client.me, message, ANN)

    def joined(self) -> Scene:
        asked = self.ask()
        assert asked
        self.requests.start(asked.number)
        word = cast(StartRemoteProgram, self.told[-1]).tunnel
        self.tunnels.join(self.far.me, JoinTunnel(tunnel=word, address="pid 1"))
        assert self.client.taken() == [TunnelOpened(address="pid 1")]
        return self


def test_the_executor_hears_of_it_once_it_is_recorded() -> None:
    """The record has the name of the program and the number of its arguments, and nothing else of the command."""
    scene = Scene()
    asked = scene.ask()
    assert asked == RemoteProgramRequested(actor=ANN, task=WORKER, number=1, program="curl", argument_count=2)
    assert "secret" not in repr(COMMAND)
    assert (scene.told, scene.client.taken()) == ([], [])
    scene.requests.start(1)
    [started] = scene.told
    assert isinstance(started, StartRemoteProgram)
    assert (started.argv, started.terminal) == (COMMAND.argv, None)
    assert "secret" not in repr(started)
    scene.requests.start(1)
    assert len(scene.told) == 1


def test_a_client_that_has_gone_gets_nothing() -> None:
    scene = Scene()
    assert scene.ask()
    scene.requests.on_closed(scene.client.me)
    scene.requests.start(1)
    assert scene.told == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"task": TaskId("worker", 7)}, "the job has no task worker:7"),
        ({"argv": ("ls", "a\0b")}, "an argument of the command contains a NUL byte"),
        ({"argv": ("ls", "\u20ac")}, "an argument of the command is not encoded as bytes"),
        ({"argv": ("x" * MAX_ARGUMENTS_BYTES,)}, f"the command has {MAX_ARGUMENTS_BYTES + 1} bytes"),
    ],
)
def test_requests_that_are_refused(wrong: dict[str, Any], reason: str) -> None:
    """With the reason; they are not recorded."""
    scene = Scene()
    assert scene.ask(RunInTask(**{"actor": "ann", "task": WORKER, "argv": (), **wrong})) is None
    [failed] = scene.client.taken()
    assert cast(TunnelFailed, failed).reason.startswith(reason)


def test_one_program_for_each_connection_and_a_bounded_number() -> None:
    scene = Scene(most=1)
    assert scene.ask()
    assert scene.ask() is None
    assert scene.client.taken() == [TunnelFailed(reason="this connection has requested a program already")]
    scene.requests.start(1)
    scene.client = FakeConnection()
    assert scene.ask() is None
    assert "the maximum is 1" in cast(TunnelFailed, scene.client.taken()[0]).reason


def test_a_connection_that_became_a_tunnel_meanwhile() -> None:
    """The tunnel stays, and is the only one."""
    scene = Scene()
    assert scene.ask()
    scene.tunnels.open(scene.client.me, OpenTunnel(task=WORKER, port=8888))
    scene.requests.start(1)
    assert scene.client.taken() == [TunnelFailed(reason="this connection is a tunnel already")]
    assert (len(scene.told), len(scene.tunnels)) == (1, 1)


def test_without_an_executor_it_fails() -> None:
    scene = Scene()
    scene.there = False
    assert scene.ask()
    scene.requests.start(1)
    assert scene.client.taken() == [TunnelFailed(reason="the executor of worker:0 is not connected")]


def test_a_terminal_is_checked() -> None:
    scene = Scene()
    odd = ClientTerminal(size=WindowSize(rows=-1, columns=10**9), kind="xterm\n")
    assert scene.ask(RunInTask(actor="ann", task=WORKER, argv=(), terminal=odd))
    scene.requests.start(1)
    [started] = scene.told
    assert isinstance(started, StartRemoteProgram)
    assert started.terminal == ClientTerminal(size=WindowSize(rows=0, columns=65535), kind="dumb")


def test_what_each_side_may_send() -> None:
    """The client input and interrupts, the executor output and the end."""
    scene = Scene().joined()
    piece = build_piece(ProgramStream.INPUT, b"x")
    for message in (piece, EndTunnel(), InterruptProgram()):
        assert scene.tunnels.carry(scene.client.me, message)
    assert scene.far.taken() == [piece.frame, EndTunnel(), InterruptProgram()]
    for answer in (InputTaken(size=1), RemoteProgramExited(code=3)):
        assert scene.tunnels.carry(scene.far.me, answer)
    assert scene.client.taken() == [InputTaken(size=1), RemoteProgramExited(code=3)]
    assert (scene.client.refused, scene.far.refused) == ([], [])
    scene.tunnels.carry(scene.client.me, RemoteProgramExited(code=0))
    scene.tunnels.carry(scene.far.me, InterruptProgram())
    scene.tunnels.carry(scene.far.me, Heartbeat())
    assert (scene.client.refused, len(scene.far.refused)) == ([Code.BAD_MESSAGE], 2)


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (b"/usr/bin/python3.11", "python3.11"),
        (b"./train.sh", "train.sh"),
        (b"curl -H 'X-Auth: word'", "a program"),
        (b"TOKEN=word", "a program"),
        (b"", "a program"),
        (b"\xff", "a program"),
        (b"x" * 65, "a program"),
    ],
)
def test_only_names_are_recorded(program: bytes, name: str) -> None:
    """A whole command line as one argument may contain a secret."""
    assert find_program_name(program) == name


def read_all(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_real_master_logs_the_request_first(tmp_path: Path) -> None:
    """Executors, and peers with another token, cannot request anything."""

    async def tell(job: InProcessJob) -> None:
        await wait_until(lambda: bool(job.executors) and job.report().state.value == "running")
        executor = next(iter(job.executors.values()))
        with pytest.raises(ProtocolError, match="the token is not this job's"):
            await connect(job.address, AmCredentials(token="ab" * 32), PeerKind.CLIENT)
        thief = await connect(job.address, job.credentials.executors)
        thief.send(COMMAND)
        with pytest.raises(ProtocolError, match="run-in-task before attach"):
            await thief.receive()
        client = await connect(job.address, job.credentials.executors, PeerKind.CLIENT)
        client.send(COMMAND)
        await wait_until(lambda: any(isinstance(each, StartRemoteProgram) for each in executor.received))
        logged = read_all(tmp_path)
        assert b"remote-program-requested" in logged
        assert b"secret" not in logged
        client.send(GetReport())
        with pytest.raises(ProtocolError, match="may not carry get-report"):
            await client.receive()
        executor.exit(OK)

    _, finish = play(tmp_path, workers(1), succeed, meanwhile=tell)
    assert finish.exit_code == 0
