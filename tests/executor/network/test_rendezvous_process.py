"""A real executor that answers on its task's port, beside its program."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master
from tests.executor.horovod_client import ask
from tests.support.waiting import block_until
from tony.linux import process
from tony.model.program_exit import ExitReason
from tony.model.setting_choices import RendezvousKind
from tony.protocol import executor_messages as msg


def registered(master: Master, session: int = 1) -> int:
    """The port with which the task of a session registered."""
    message = master.wait(msg.Ready, lambda each: each.session == session)
    return int(message.address.rpartition(":")[2])


def test_it_answers_before_the_program_starts_and_after_it_has_ended(master: Master, guest: Start) -> None:
    """Every rank finds it, the first as well as the last to leave. The program's end is an ordinary one."""
    with guest("exit 0", meeting=RendezvousKind.STORE) as executor:
        port = registered(master)
        assert ask(port, "PUT", "/global/0", b"zero") == (200, b"")
        master.start()
        status = master.wait(msg.ProgramExited).status
        assert (status.reason, status.code, status.message) == (ExitReason.EXITED, 0, "")
        assert ask(port, "GET", "/global/0") == (200, b"zero")
        (served,) = _servers(executor)
        assert not process.has_marker(served, b"TONY_TASK=")
        master.send(msg.ReleaseExecutor(grace=1.0))
        assert executor.wait() == 0
    block_until(lambda: None if process.is_alive(served) else True)  # it was killed; its end may take a moment
    with pytest.raises(ConnectionError):
        ask(port, "GET", "/global/0")


def test_each_session_has_an_empty_one(master: Master, guest: Start) -> None:
    """On another port: what an earlier session left is not found."""
    with guest("sleep 600", meeting=RendezvousKind.STORE) as executor:
        first = registered(master)
        ask(first, "PUT", "/global/0", b"old")
        master.start()
        master.wait(msg.ProgramStarted)
        master.send(msg.Prepare(session=2))
        second = registered(master, 2)
        assert second != first
        block_until(lambda: len(_servers(executor)) == 1 or None)
        ask(second, "PUT", "/global/1", b"new")
        assert ask(second, "GET", "/global/1") == (200, b"new")
        assert ask(second, "GET", "/global/0")[0] == 404


def test_it_dies_with_the_executor(master: Master, guest: Start) -> None:
    with guest("sleep 600", meeting=RendezvousKind.STORE) as executor:
        registered(master)
        (served,) = _servers(executor)
        os.kill(executor.pid, signal.SIGKILL)
        executor.wait()
        block_until(lambda: not process.is_alive(served) or None)


def test_the_program_may_be_killed_without_it(master: Master, guest: Start) -> None:
    """A stop ends what the program has started, and nothing of ours."""
    with guest("sleep 600", meeting=RendezvousKind.STORE) as executor:
        port = registered(master)
        before = _servers(executor)
        master.start()
        master.wait(msg.ProgramStarted)
        master.send(msg.StopProgram(session=1, grace=0.0, reason="a test"))
        assert master.wait(msg.ProgramExited).status.reason is ExitReason.STOPPED
        assert _servers(executor) == before
        assert ask(port, "PUT", "/global/0", b"") == (200, b"")


def test_an_exit_is_logged(master: Master, guest: Start) -> None:
    """Its port is closed then, so later clients fail at once."""
    with guest("sleep 600", meeting=RendezvousKind.STORE) as executor:
        port = registered(master)
        (served,) = _servers(executor)
        os.kill(served, signal.SIGKILL)
        block_until(lambda: "the rendezvous process exited" in executor.log() or None)
        with pytest.raises(ConnectionError):
            ask(port, "GET", "/global/0")


def test_a_relay_finds_the_port_that_the_program_announces(master: Master, guest: Start, tmp_path: Path) -> None:
    """In the folder that the framework's adapter names, which exists already."""
    code = (
        "import os, socket, sys, time; s = socket.create_server(('127.0.0.1', 0));"
        "open(f'{os.environ[\"DRIVER_OUTPUT_PATH\"]}/{s.getsockname()[1]}____HOROVOD_RENDEZVOUS_SERVER____', 'w');"
        "c = s.accept()[0]; c.recv(100); c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi');"
        "time.sleep(600)"
    )
    home = "tony.frameworks.horovod:Horovod"
    shared = {
        "cluster": {"worker": ["h:1"], "driver": ["h:2"]},
        "worlds": [{"ranks": {"worker": 1}, "meeting": "h:2", "driver": True}],
    }
    more = {"role": "driver", "framework_module": home, "procs": {"worker": 1, "driver": 1}}
    with guest(("python3", "-c", code), meeting=RendezvousKind.RELAY, **more):
        port = registered(master)
        master.start(shared=shared)
        assert ask(port, "GET", "/global/0") == (200, b"hi")


def _servers(executor: Guest) -> list[int]:
    """The executor's children that answer on its port, or will in a moment."""

    def answers(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return b"tony.executor.network.rendezvous_" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return False

    def find() -> list[int]:
        return [pid for pid in process.children(executor.pid) if answers(pid)]

    return block_until(lambda: find() or None)
