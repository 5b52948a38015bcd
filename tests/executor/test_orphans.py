"""An executor whose application master dies, is cut off, or comes up elsewhere. Real processes, TLS on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master, context
from tests.support.waiting import block_until
from tony.linux import process
from tony.protocol import executor_messages as msg
from tony.protocol.error_codes import Code

pytestmark = pytest.mark.slow
FOR_EVER = "trap 'echo in order; exit' TERM; echo $$ > pid; sleep 600 & wait"


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Master]:
    """An application master on another machine, as far as its executors can tell."""
    made = Master(tmp_path, tls=True)
    yield made
    made.close()


@pytest.fixture
def successor(far: Master, tmp_path: Path) -> Iterator[Master]:
    made = Master(tmp_path, attempt=2, tls=True, secret=far.secret)
    yield made
    made.close()


@pytest.fixture
def abroad(far: Master, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(command: str = FOR_EVER, **more: Any) -> Guest:
            return stack.enter_context(Guest(context(far, tmp_path, command, **{"lease": 300.0, **more})))

        yield start


def running(master: Master, executor: Guest) -> int:
    """Has the program started; answers its pid, once it handles signals."""
    master.wait(msg.Ready)
    master.start()
    master.wait(msg.ProgramStarted)
    file = Path(executor.context.container.work_folder) / "pid"
    return block_until(lambda: int(file.read_text() or 0) if file.exists() else None)


def released(master: Master, executor: Guest) -> None:
    """Is what is there wanted, it ends in good order."""
    master.send(msg.ReleaseExecutor(grace=5.0))
    assert executor.wait() == 0


def test_on_a_unix_socket_the_executor_reconnects_itself(master: Master, guest: Start) -> None:
    """It does not listen, and reconnects to the next AM that listens at the same path."""
    executor = guest(FOR_EVER, lease=300.0)
    pid = running(master, executor)
    assert master.wait(msg.Attach).listens == ""
    master.stop_listening()
    master.attempt = 2
    master.listen()
    second = master.wait(msg.Attach, lambda attach: attach.acked > 0)
    assert (second.session, second.highest_attempt) == (1, 1)
    assert process.is_alive(pid)
    master.until(lambda: master._connection)
    released(master, executor)


def test_the_next_attempt_calls_from_another_node(far: Master, successor: Master, abroad: Start) -> None:
    """The program runs on; the new one is told all that the old one has not acknowledged, and what the executor is."""
    executor = abroad("while [ ! -e go ]; do sleep 0.01; done; exit 5")
    far.wait(msg.Ready)
    far.start()
    program = far.wait(msg.ProgramStarted)
    first = far.wait(msg.Attach)
    assert first.listens.startswith("tls:127.0.0.1:")
    far.until(lambda: far._acked == 2)
    far.stop_listening()
    Path(f"/proc/{program.pid}/cwd/go").touch()
    block_until(lambda: "task attempt 1 ended: exit code 5" in executor.log())
    assert successor.summon(first.listens)
    second = successor.wait(msg.Attach)
    assert (second.incarnation, second.listens) == (first.incarnation, first.listens)
    assert (second.highest_attempt, second.session, second.acked) == (2, 1, 2)
    end = successor.wait(msg.ProgramExited)
    assert (end.n, end.status.code) == (3, 5)
    released(successor, executor)


def test_a_reattach_request_of_a_dead_am_changes_nothing(far: Master, successor: Master, abroad: Start) -> None:
    """The program runs until the next request."""
    executor = abroad()
    pid = running(far, executor)
    listens = far.wait(msg.Attach).listens
    address = successor.address
    successor.stop_listening()
    assert successor.summon(listens, address)
    far.until(lambda: far._connection is None)
    block_until(lambda: "Connection refused" in executor.log())
    successor.attempt = 3
    successor.address = "tls:127.0.0.1:0"
    successor.listen()
    assert process.is_alive(pid)
    assert successor.summon(listens)
    assert successor.wait(msg.Attach).highest_attempt == 3
    released(successor, executor)


def test_the_lease_is_over_and_the_program_does_not_care(far: Master, abroad: Start) -> None:
    """After its stop grace it is killed, and whatever it has started."""
    executor = abroad(
        "trap '' TERM; sleep 600 & echo $$ > pid; while :; do sleep 1; done",
        lease=0.2,
        connect_timeout=0.2,
        stop_grace=0.3,
    )
    running(far, executor)
    far.stop_listening()
    assert executor.wait() == 3
    assert executor.programs() == []
    assert "lost contact" in executor.log().splitlines()[-1]


def test_an_unwanted_program_gets_no_grace(far: Master, abroad: Start) -> None:
    """Another may run in its place already: it is killed, however long it would be let alone otherwise."""
    executor = abroad("trap '' TERM; echo $$ > pid; while :; do sleep 1; done", stop_grace=600.0)
    pid = running(far, executor)
    far.call(far.connection().refuse, Code.STALE, "another one has this task")
    assert executor.wait() == 3
    assert not process.is_alive(pid)


def test_it_stays_small_and_quiet(far: Master, abroad: Start) -> None:
    """Although it listens, and looks for an absent AM: 30 MB, one hundredth of a core."""
    executor = abroad()
    running(far, executor)
    far.stop_listening()
    block_until(lambda: "Connection refused" in executor.log())
    status = Path(f"/proc/{executor.pid}/status").read_text()
    (resident,) = [int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS")]
    assert resident < 30 * 10**6
