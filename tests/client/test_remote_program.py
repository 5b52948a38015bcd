"""The client's end of a remote program: streams of this process, and errors with what to do."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.facts import mention_each
from tests.jobs.fake_am import JOB, FakeAm, recorded, running, standing, succeeded
from tony.client.remote_program import NotStartedError, StandardFiles, start_remote_program
from tony.errors import InfraError, UserError
from tony.history.job_record import write_summary
from tony.model.ids import TaskId
from tony.model.state_directory import Home
from tony.model.states import JobState, TaskState
from tony.protocol.framing import Raw
from tony.protocol.message_base import Message
from tony.protocol.remote_program_messages import (
    INPUT_WINDOW_BYTES,
    MAX_ARGUMENTS_BYTES,
    InputTaken,
    ProgramStream,
    RemoteProgramExited,
    RunInTask,
    build_piece,
    split_piece,
)
from tony.protocol.tunnel_messages import EndTunnel, TunnelFailed, TunnelOpened
from tony.rpc.connection import RpcConnection

LS = (b"ls", b"\xff")


class Upper(FakeAm):
    """Its programs write their input in capitals; at the end of it they exit with its length."""

    size = 0
    most = 0
    untaken = 0
    refusal: TunnelFailed | None = None
    vanishes = False

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        match message:
            case RunInTask():
                self.orders.append(message)
                connection.send(self.refusal or TunnelOpened(address="pid 1"))
            case Raw() if self.vanishes:
                connection.abort()
            case Raw():
                data = bytes(split_piece(message)[1])
                self.size += len(data)
                self.untaken += len(data)
                self.most = max(self.most, self.untaken)
                connection.send(build_piece(ProgramStream.OUTPUT, data.upper()))
                connection.send(build_piece(ProgramStream.ERROR, b"e"))
                if self.untaken == INPUT_WINDOW_BYTES or self.size < INPUT_WINDOW_BYTES:
                    connection.send(InputTaken(size=self.untaken))
                    self.untaken = 0
            case EndTunnel():
                connection.send(RemoteProgramExited(code=self.size % 256))
            case _:
                super().on_message(connection, message)


def upper(home: Home) -> Upper:
    return Upper(*_running(home))


def _running(home: Home):  # type: ignore[no-untyped-def]
    folder, record = recorded(home)
    return folder, running(folder, record)


async def run(home: Home, folder: Path, text: bytes = b"", target: str | None = "worker:0") -> tuple[int, bytes, bytes]:
    """Runs a program whose input is a file; its exit code, output and errors."""
    paths = [folder / name for name in ("in", "out", "err")]
    paths[0].write_bytes(text)
    numbers = [
        os.open(path, flags, 0o600)
        for path, flags in zip(paths, (os.O_RDONLY, *[os.O_CREAT | os.O_WRONLY] * 2), strict=True)
    ]
    try:
        files = StandardFiles(input=numbers[0], output=numbers[1], error=numbers[2])
        async with start_remote_program(home, JOB, target, LS, files) as program:
            exited = await program.carry()
    finally:
        for number in numbers:
            os.close(number)
    return exited.code, paths[1].read_bytes(), paths[2].read_bytes()


async def test_streams_and_exit_code(home: Home, tmp_path: Path) -> None:
    """Arguments are any bytes; without a task it is the chief."""
    async with upper(home) as am:
        assert await run(home, tmp_path, b"hello", None) == (5, b"HELLO", b"e")
        [asked] = am.orders
        assert isinstance(asked, RunInTask)
        assert (asked.task, asked.argv, asked.terminal) == (TaskId("worker", 0), ("ls", "\xff"), None)
        assert "xff" not in repr(asked)


async def test_input_waits_until_the_program_takes_it(home: Home, tmp_path: Path) -> None:
    """However much there is, only a window of it is on its way."""
    text = os.urandom(4 * INPUT_WINDOW_BYTES)
    async with upper(home) as am:
        code, output, _ = await run(home, tmp_path, text)
        assert (code, output) == (len(text) % 256, text.upper())
        assert am.most <= INPUT_WINDOW_BYTES


async def test_a_command_that_cannot_be_started(home: Home, tmp_path: Path) -> None:
    async with upper(home) as am:
        am.refusal = TunnelFailed(reason="command not found: ls", exit_code=127)
        with pytest.raises(NotStartedError, match=r"^command not found: ls$") as caught:
            await run(home, tmp_path)
        assert caught.value.shell_code == 127
        am.refusal = TunnelFailed(reason="the executor of worker:0 is not connected")
        with pytest.raises(InfraError, match=f"not connected; see: tony status {JOB}"):
            await run(home, tmp_path)


async def test_the_master_vanishes(home: Home, tmp_path: Path) -> None:
    async with upper(home) as am:
        am.vanishes = True
        with pytest.raises(InfraError) as caught:
            await run(home, tmp_path, b"hello")
        assert mention_each([str(caught.value)], ("application master", "worker:0", "was ended", f"tony status {JOB}"))


@pytest.mark.parametrize("state", [TaskState.PENDING, TaskState.SUCCEEDED, TaskState.STOPPING])
async def test_a_task_that_does_not_run(home: Home, tmp_path: Path, state: TaskState) -> None:
    folder, record = recorded(home)
    async with Upper(folder, standing(folder, record, JobState.RUNNING, state)) as am:
        with pytest.raises(InfraError, match=rf"^worker:0 of job {JOB} \(digits\) is {state.value}: .*tony status"):
            await run(home, tmp_path)
        assert am.orders == []


def test_what_is_refused_without_a_request(home: Home, tmp_path: Path) -> None:
    folder, record = recorded(home)
    files = StandardFiles(input=None, output=1, error=2)

    async def start(target: str, *argv: bytes) -> None:
        async with start_remote_program(home, JOB, target, argv, files):
            raise AssertionError("it was started")

    for target, argv, why in (
        ("worker:2", b"ls", f"job {JOB} has no task 'worker:2'"),
        ("worker", b"ls", "role worker has 2 tasks; name one of them: worker:0"),
        ("worker:0", b"x" * MAX_ARGUMENTS_BYTES, f"at most {MAX_ARGUMENTS_BYTES} can be passed"),
    ):
        with pytest.raises(UserError, match=why):
            asyncio.run(start(target, argv))
    write_summary(folder, succeeded(folder, record))
    with pytest.raises(UserError, match=rf"no program can be run in its tasks: job {JOB} \(digits\) succeeded"):
        asyncio.run(start("worker:0", b"ls"))
