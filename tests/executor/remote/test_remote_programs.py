"""A real executor that runs programs for clients: their streams, their end, and what the task does not notice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master
from tests.support.waiting import block_until
from tony.executor.remote.remote_programs import MAX_REMOTE_PROGRAMS
from tony.linux import process
from tony.protocol.executor_messages import DumpStacks, Heartbeat, ProgramExited, ProgramStarted, Ready, ReleaseExecutor
from tony.protocol.framing import MAX_RAW, Raw
from tony.protocol.message_base import Message
from tony.protocol.remote_program_messages import (
    INPUT_WINDOW_BYTES,
    ClientTerminal,
    InputTaken,
    InterruptProgram,
    ProgramStream,
    RemoteProgramExited,
    ResizeWindow,
    StartRemoteProgram,
    WindowSize,
    build_piece,
    encode_arguments,
    split_piece,
)
from tony.protocol.shared_messages import Stacks
from tony.protocol.tunnel_messages import EndTunnel, JoinTunnel, TunnelFailed
from tony.rpc.connection import RpcConnection

Bash = Callable[..., "RemoteEnd"]


class RemoteEnd:
    """The client's end of a remote program."""

    def __init__(self, master: Master, far: RpcConnection, pid: int) -> None:
        self.master = master
        self.far = far
        self.pid = pid

    def send(self, *messages: Message) -> None:
        for message in messages:
            self.master.call(self.far.send, message)

    def write(self, text: str) -> None:
        self.send(build_piece(ProgramStream.INPUT, text.encode()))

    def received(self, kind: type[Message]) -> list[Message]:
        return [each for each in self.master.all(kind) if self.master.sender(each) is self.far]

    def read(self, stream: ProgramStream = ProgramStream.OUTPUT) -> str:
        pieces = [split_piece(each) for each in self.received(Raw) if isinstance(each, Raw)]
        return b"".join(bytes(data) for number, data in pieces if number == stream).decode()

    def wait_read(self, text: str) -> None:
        self.master.until(lambda: text in self.read())

    def wait(self) -> RemoteProgramExited:
        """How it ended; the client hangs up then."""
        exited = self.master.until(lambda: next(iter(self.received(RemoteProgramExited)), None))
        assert isinstance(exited, RemoteProgramExited)
        self.hang_up()
        return exited

    def hang_up(self) -> None:
        self.master.call(self.far.abort)


@pytest.fixture
def running(master: Master, guest: Start) -> Guest:
    """An executor whose program runs."""
    return start_task(master, guest, "sleep 3600")


def start_task(master: Master, guest: Start, command: str, **more: object) -> Guest:
    started = guest(command, **more)
    master.wait(Ready)
    master.start()
    master.wait(ProgramStarted)
    return started


def request(master: Master, word: str, *argv: str, terminal: ClientTerminal | None = None) -> None:
    encoded = encode_arguments(tuple(os.fsencode(part) for part in argv))
    master.send(StartRemoteProgram(tunnel=word, argv=encoded, terminal=terminal))


def run(master: Master, *argv: str, word: str = "a", terminal: ClientTerminal | None = None) -> RemoteEnd:
    request(master, word, *argv, terminal=terminal)
    joined = master.wait(JoinTunnel, lambda it: it.tunnel == word)
    return RemoteEnd(master, master.sender(joined), int(joined.address.removeprefix("pid ")))


def bash(master: Master, script: str, **more: object) -> RemoteEnd:
    return run(master, "bash", "-c", script, **more)  # type: ignore[arg-type]


def refused(master: Master, word: str) -> TunnelFailed:
    return master.wait(TunnelFailed, lambda it: it.tunnel == word)


def test_streams_and_exit_code(master: Master, running: Guest) -> None:
    """Input arrives to its end, output and errors apart, and the exit code is the program's."""
    end = bash(master, "cat; echo problem >&2; exit 7")
    end.write("one\n")
    end.wait_read("one\n")
    end.write("two\n")
    end.send(EndTunnel())
    assert end.wait() == RemoteProgramExited(code=7)
    assert (end.read(), end.read(ProgramStream.ERROR)) == ("one\ntwo\n", "problem\n")
    assert sum(each.size for each in end.received(InputTaken) if isinstance(each, InputTaken)) == 8
    assert master.all(ProgramExited) == []
    assert not any("one" in path.read_text(errors="replace") for path in running.logs.iterdir())


def test_it_has_the_environment_and_the_folder_of_the_task(master: Master, guest: Start, tmp_path: Path) -> None:
    """As the task's program has them; but only that one reports progress."""
    master.sample_interval = 0.1
    script = "env | sort > environment; readlink /proc/self/cwd > folder; sleep 3600"
    start_task(master, guest, script, env={"OWN": "value of a variable"})
    work = tmp_path / "work"
    block_until(lambda: (work / "folder").exists() and (work / "folder").read_text())
    end = bash(master, "readlink /proc/self/cwd; env | sort")
    end.wait()
    folder, _, environment = end.read().partition("\n")
    theirs = dict(line.split("=", 1) for line in (work / "environment").read_text().splitlines())
    assert (work / "folder").read_text().strip() == folder
    assert "OWN=value of a variable" in environment
    assert "TONY_PROGRESS" in theirs
    found = {line.split("=", 1)[0] for line in environment.splitlines()}
    assert theirs.keys() ^ found == {"TONY_PROGRESS", "TONY_REMOTE_PROGRAM"}


def test_ctrl_c_interrupts_it(master: Master, running: Guest) -> None:
    """The whole process group, and nothing of the task."""
    end = bash(master, "echo up; sleep 3600; echo after")
    end.wait_read("up")
    end.send(InterruptProgram())
    assert end.wait().code == 128 + signal.SIGINT
    assert "after" not in end.read()
    assert master.all(ProgramExited) == []


def test_an_interrupt_overtakes_input_that_is_not_read(master: Master, running: Guest) -> None:
    end = run(master, "sleep", "3600")
    piece = b"x" * (32 << 10)
    for _ in range(INPUT_WINDOW_BYTES // len(piece)):
        end.send(build_piece(ProgramStream.INPUT, piece))
    end.send(InterruptProgram())
    assert end.wait().code == 128 + signal.SIGINT


def test_more_input_than_allowed_ends_it(master: Master, running: Guest) -> None:
    end = run(master, "sleep", "3600")
    for _ in range(INPUT_WINDOW_BYTES // (MAX_RAW - 1) + 2):
        end.send(build_piece(ProgramStream.INPUT, b"x" * (MAX_RAW - 1)))
    master.until(lambda: not end.far.is_open and not process.is_alive(end.pid))


@pytest.mark.parametrize("stubborn", [False, True])
def test_nothing_outlives_its_client(master: Master, running: Guest, stubborn: bool) -> None:
    """Not even what left its process group, or ignores the signals."""
    trap = "trap '' HUP TERM;" if stubborn else ""
    end = bash(master, f"{trap} setsid sleep 3601 & sleep 3602 & echo up; wait")
    end.wait_read("up")
    sleeps = {"sleep 3601", "sleep 3602"}

    def find_started() -> set[int] | None:
        """Return the processes once both have become the program that they are to be."""
        pids = set(running.programs())
        commands = {process.command_of(pid) for pid in pids}
        return pids if all(any(sleep in command for command in commands) for sleep in sleeps) else None

    before = block_until(find_started)
    end.hang_up()
    left = block_until(lambda: set(running.programs()) if not process.is_alive(end.pid) else None)
    master.until(lambda: all("sleep 3600" in process.command_of(pid) for pid in running.programs()))
    assert left <= before
    assert master.all(ProgramExited) == []


def test_what_it_leaves_behind_ends_with_it(master: Master, running: Guest) -> None:
    """After its last output: what waits in a pipe is not lost."""
    end = bash(master, "sleep 3601 & (sleep 0.1; echo late) & exit 3")
    assert end.wait().code == 3
    assert end.read() == "late\n"
    master.until(lambda: len(running.programs()) == 1)


def test_it_ends_with_the_tasks_program(master: Master, guest: Start, tmp_path: Path) -> None:
    """The client gets the reason. It is no process that the program has left behind."""
    gate = tmp_path / "gate"
    start_task(master, guest, f"until test -e {gate}; do sleep 0.01; done")
    end = bash(master, "echo up; sleep 3600")
    end.wait_read("up")
    gate.touch()
    exited = end.wait()
    assert exited.code > 128
    assert exited.reason == "the program of worker:0 has exited"
    status = master.wait(ProgramExited).status
    assert (status.code, status.message) == (0, "")


def test_it_does_not_delay_a_stop(master: Master, guest: Start) -> None:
    """A shell ignores SIGTERM: it gets SIGHUP, and SIGKILL long before the grace of the task's program is over."""
    task = start_task(master, guest, "sleep 3600", stop_grace=3600.0)
    end = bash(master, "trap '' HUP TERM; echo up; sleep 3600 & wait; wait")
    end.wait_read("up")
    master.send(ReleaseExecutor(grace=3600.0))
    assert end.wait().reason == "worker:0 is stopping"
    assert task.wait() == 0


def test_a_task_that_does_not_run(master: Master, guest: Start) -> None:
    guest("sleep 3600")
    master.wait(Ready)
    request(master, "a", "ls")
    assert refused(master, "a").reason == "the program of worker:0 does not run, or is stopping"


def test_commands_that_cannot_be_started(master: Master, running: Guest) -> None:
    """With the exit code of a shell; the executor's own log has nothing of the command."""
    request(master, "a", "frobnicate", "a secret word")
    assert (refused(master, "a").exit_code, refused(master, "a").reason.partition(":")[0]) == (127, "command not found")
    request(master, "b", "/etc/hostname")
    assert refused(master, "b").exit_code == 126
    request(master, "c", "ls", "x" * (1 << 17))
    assert "at most 131072 can be passed" in refused(master, "c").reason
    assert "secret" not in running.log()


def test_a_bounded_number_at_a_time(master: Master, running: Guest) -> None:
    ends = [run(master, "cat", word=str(number)) for number in range(MAX_REMOTE_PROGRAMS)]
    request(master, "more", "ls")
    assert refused(master, "more").reason.startswith("8 programs of `tony exec` and `tony shell`, the maximum, run in")
    ends[0].send(EndTunnel())
    ends[0].wait()
    block_until(lambda: f"remote program {ends[0].pid} ended" in running.log())
    assert bash(master, "exit 5", word="again").wait().code == 5


def test_a_flood_waits_for_a_client_that_does_not_read(master: Master, running: Guest) -> None:
    """Heartbeats continue, the executor's memory does not grow, and no byte is lost."""
    end = bash(master, "head -c 200000000 /dev/zero | tr '\\0' x", word="a")
    master.call(end.far.pause_reading)
    beats = len(master.all(Heartbeat))
    master.until(lambda: len(master.all(Heartbeat)) > beats + 5)
    assert process.memory_of([running.pid]) < 100 << 20
    assert process.is_alive(end.pid)
    end.hang_up()
    block_until(lambda: not process.is_alive(end.pid))


def test_a_terminal(master: Master, running: Guest) -> None:
    """Kind and size of the client's, changes of the size, its keys; a shell by default."""
    terminal = ClientTerminal(size=WindowSize(rows=33, columns=101), kind="xterm-test")
    end = run(master, terminal=terminal)
    end.write("stty size; echo $TERM; tty\n")
    end.wait_read("33 101\r\nxterm-test\r\n/dev/pts/")
    end.send(ResizeWindow(size=WindowSize(rows=44, columns=10**9)))
    end.write("stty size\n")
    end.wait_read("44 65535\r\n")
    end.write("sleep 3601\n")
    end.wait_read("sleep 3601")
    master.until(lambda: any(process.command_of(pid) == "sleep 3601" for pid in running.programs()))
    end.write("\x03")
    end.write("exit 9\n")
    assert end.wait() == RemoteProgramExited(code=9)


def test_stack_traces_are_those_of_the_tasks_program(master: Master, running: Guest) -> None:
    end = bash(master, "echo up; exec sleep 3601")
    end.wait_read("up")
    master.send(DumpStacks(request="r"))
    text = master.wait(Stacks).text
    assert "sleep 3600" in text
    assert "sleep 3601" not in text
