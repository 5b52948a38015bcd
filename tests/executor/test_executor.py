"""Real executors and programs: start, output, end, sessions."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master, context
from tests.facts import mentions
from tests.support.waiting import block_until
from tony.model.ids import TaskId
from tony.model.program_exit import ExitReason, ExitStatus
from tony.protocol.executor_messages import (
    Attach,
    Heartbeat,
    Prepare,
    ProgramExited,
    ProgramOutput,
    ProgramStarted,
    Ready,
    ReleaseExecutor,
    Reported,
    StopProgram,
)
from tony.protocol.message_base import Message
from tony.protocol.shared_messages import SetLogLevel

pytestmark = pytest.mark.slow


def ended(master: Master, session: int = 1, try_: int = 1) -> ExitStatus:
    """How a try ended, once that was reported."""
    match = lambda message: (message.session, message.try_) == (session, try_)  # noqa: E731
    return master.wait(ProgramExited, match).status


def run(master: Master, guest: Start, command: str | tuple[str, ...], **more: object) -> ExitStatus:
    """Starts an executor, has its program run, answers how that ended."""
    guest(command, **more)
    master.wait(Ready)
    master.start()
    return ended(master)


def test_life_of_an_executor(master: Master, guest: Start) -> None:
    """It registers, starts, reports first output and end, is released, and ends without leaving anything."""
    executor = guest("echo out; echo err >&2; exit 3", wants_tb_port=True)
    ready = master.wait(Ready)
    host, _, port = ready.address.rpartition(":")
    assert (ready.n, ready.session, host) == (1, 1, "127.0.0.1")
    assert ready.tb_port is not None
    assert int(port) != ready.tb_port
    master.start()
    status = ended(master)
    assert (status.reason, status.code, status.signal, status.message) == (ExitReason.EXITED, 3, None, "")
    assert status.tail == ("err",)
    assert status.cpu_time is not None
    assert 0 < status.duration < 30
    reports = [each for each in master.all(Message) if isinstance(each, Reported)]
    assert [Ready, ProgramStarted, ProgramOutput, ProgramExited] == [type(each) for each in reports]
    assert [1, 2, 3, 4] == [each.n for each in reports]
    assert executor.read("worker-0.s1.t1.out") == "out\n"
    assert executor.read("worker-0.s1.t1.err") == "err\n"
    watchdog = executor.watchdog()
    master.send(ReleaseExecutor(grace=1.0))
    assert executor.wait() == 0
    block_until(lambda: not Path(f"/proc/{watchdog}").exists())
    assert executor.programs() == []
    assert executor.log().endswith("released\n")


def test_over_tls_all_is_the_same(tmp_path: Path) -> None:
    """With the job's certificates, on a connection that could leave the machine; still small."""
    master = Master(tmp_path, tls=True)
    try:
        with Guest(context(master, tmp_path, "echo out; exit 3")) as executor:
            master.wait(Ready)
            master.start()
            assert ended(master).code == 3
            assert resident(executor.pid) < 30_000_000
            master.drop()
            master.until(lambda: master.connections == 2)
            master.send(ReleaseExecutor())
            assert executor.wait() == 0
    finally:
        master.close()


def test_an_executor_attaches_with_its_identity(master: Master, guest: Start) -> None:
    """Task, container, process; a nonce of its own."""
    executor = guest()
    attach = master.wait(Attach)
    assert (attach.task, attach.container, attach.pid) == (TaskId("worker", 0), "c-1", executor.pid)
    assert (attach.highest_attempt, attach.host) == (1, socket.gethostname())
    assert len(attach.incarnation) >= 16


def test_a_program_sees_its_folder_and_no_secret(master: Master, guest: Start) -> None:
    """Own session and group, its working directory, standard input empty; the token is nowhere in sight."""
    show = (
        "import os, sys; print(os.getpid() == os.getsid(0) == os.getpgid(0), os.getcwd(), repr(sys.stdin.read()),"
        "sys.argv[1:], sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1]);"
        "print(open('/proc/self/environ').read().replace(chr(0), chr(10)))"
    )
    command = (sys.executable, "-c", show, "{role}-{index}", "a b")
    executor = guest(command, env={"WHO": "{job_id} {params.x}"}, params={"x": "y"})
    master.wait(Ready)
    master.start()
    assert ended(master).ok
    first, _, rest = executor.read("worker-0.s1.t1.out").partition("\n")
    assert first == f"True {executor.context.container.work_folder} '' ['worker-0', 'a b'] [0, 1, 2]"
    variables = rest.splitlines()
    assert f"WHO={executor.context.task.job_id} y" in variables
    assert executor.marker in variables
    assert master.credentials.token not in rest
    assert master.credentials.token not in Path(f"/proc/{executor.pid}/cmdline").read_text()
    assert master.credentials.token not in executor.log()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"work_folder": "/nowhere/at/all"}, "the working directory /nowhere/at/all does not exist"),
        ({"env": {"BIG": "x" * 140_000}}, "environment variable BIG has 140005 bytes"),
        ({"framework_module": "tony.frameworks.missing:X"}, "framework adapter tony.frameworks.missing:X"),
        ({"cgroup": ("/sys/fs/cgroup/gone",)}, "the control group /sys/fs/cgroup/gone does not exist"),
    ],
)
def test_surroundings_that_do_not_fit(master: Master, guest: Start, more: dict[str, object], message: str) -> None:
    """What the user can mend is said in the user's words."""
    status = run(master, guest, "true", **more)
    assert (status.reason, message in status.message) == (ExitReason.LAUNCH_FAILED, True), status


def test_heartbeats_have_output_age_and_memory(master: Master, guest: Start) -> None:
    """The age of the last output, the last line, what is used; both clocks."""
    guest("echo one; printf two; exec sleep 600")
    master.wait(Ready)
    idle = master.wait(Heartbeat)
    assert (idle.last_output_age, idle.last_line, idle.memory) == (None, "", None)
    master.start()
    beat = master.wait(Heartbeat, lambda each: each.last_line == "two" and each.memory is not None)
    assert beat.last_output_age is not None
    assert abs(beat.wall - time.time()) < 60
    assert beat.mono > 0


def test_sessions_follow_each_other_in_one_executor(master: Master, guest: Start) -> None:
    """A new session stops the old program, reports its end, reserves other ports; then its program starts."""
    executor = guest("trap 'exit 7' TERM; echo session $SESSION_ID; sleep 600 & wait")
    first = master.wait(Ready)
    master.start()
    master.wait(ProgramOutput)
    master.send(Prepare(session=2))
    second = master.wait(Ready, lambda each: each.session == 2)
    assert first.address != second.address
    status = ended(master)
    assert (status.reason, status.code, status.message) == (ExitReason.STOPPED, 7, "stopped (session 2 opens)")
    master.start(session=2)
    master.wait(ProgramOutput, lambda each: each.session == 2)
    block_until(lambda: executor.has_printed("worker-0.s2.t1.out", "session 2\n"))  # is told of before it is written
    master.send(StopProgram(session=2, grace=5.0, reason="enough"))
    assert ended(master, 2).message == "stopped (enough)"
    master.start(session=1)  # history
    master.send(Prepare(session=3))
    master.wait(Ready, lambda each: each.session == 3)
    assert len(master.all(ProgramExited)) == 2


def test_several_processes_of_one_task(master: Master, guest: Start) -> None:
    """Each has its own variables; all write to the task's log; the task succeeds when all have."""
    executor = guest("echo I am $LOCAL_RANK; echo error >&2", procs={"worker": 3})
    master.wait(Ready)
    master.start()
    assert ended(master).ok
    assert sorted(executor.read("worker-0.s1.t1.out").splitlines()) == [f"[{n}] I am {n}" for n in range(3)]
    assert sorted(executor.read("worker-0.s1.t1.err").splitlines()) == [f"[{n}] error" for n in range(3)]


def test_first_failing_process_stops_the_others(master: Master, guest: Start) -> None:
    """The try's end is the first failure's, and no process is left."""
    command = 'if mkdir first 2>/dev/null; then sleep 0.2; exit 5; else trap "" TERM; sleep 600 & wait; sleep 600; fi'
    executor = guest(command, procs={"worker": 3}, stop_grace=0.5)
    master.wait(Ready)
    master.start()
    status = ended(master)
    assert (status.reason, status.code) == (ExitReason.EXITED, 5)
    assert "was the first of 3 to fail" in status.message
    assert executor.programs() == []


def test_chatty_program_cannot_fill_the_disk(master: Master, guest: Start) -> None:
    """A hundred times its limit; the newest is kept, and the executor stays small."""
    executor = guest(("seq", "-f", f"line %.0f {'x' * 40}", "2000000"), log_limit=1 << 20)
    master.wait(Ready)
    master.start()
    status = ended(master)
    assert status.ok
    kept = sum(path.stat().st_size for path in executor.logs.glob("worker-0.s1.t1.out*"))
    assert (1 << 19) <= kept <= (1 << 20)
    assert executor.read("worker-0.s1.t1.out").splitlines()[-1].startswith("line 2000000 ")
    assert status.tail[-1].startswith("line 2000000 ")
    assert resident(executor.pid) < 40 << 20  # 8 MiB may wait for the disk


def resident(pid: int) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_times_of_output_are_reported(master: Master, guest: Start) -> None:
    """The report says when the program printed first and last; of a silent one, nothing."""
    status = run(master, guest, "sleep 0.2; echo one; sleep 0.3; echo two >&2")
    assert status.first_output is not None
    assert status.last_output is not None
    assert 0.2 <= status.first_output < status.last_output


def test_silence_has_no_times(master: Master, guest: Start) -> None:
    status = run(master, guest, "exit 0")
    assert (status.first_output, status.last_output) == (None, None)


def test_taken_port_is_a_collision_before_the_start(master: Master, guest: Start) -> None:
    """Another process listens on the reserved port: the program is not started, and that process is named."""
    guest("touch ran")
    port = int(master.wait(Ready).address.rpartition(":")[2])
    with thief(port):
        master.start()
        status = ended(master)
    assert status.reason is ExitReason.PORT_COLLISION
    assert mentions(status.message, f"port {port}", f"process {os.getpid()}")


def test_taken_port_is_a_collision_after_a_failure(master: Master, guest: Start) -> None:
    """A program that fails while another process holds its port is not to blame; one that succeeds did not need it."""
    guest("while [ ! -e go ]; do sleep 0.01; done; exit 1")
    port = int(master.wait(Ready).address.rpartition(":")[2])
    master.start()
    started = master.wait(ProgramStarted)
    with thief(port):
        Path(f"/proc/{started.pid}/cwd/go").touch()
        assert ended(master).reason is ExitReason.PORT_COLLISION


PLAIN_SERVER = """
import socket
with socket.socket() as server:
    server.bind(("127.0.0.1", int(open("port").read())))
"""


def test_server_without_options_gets_its_port_in_the_next_session(master: Master, guest: Start) -> None:
    """Our hold kept it out: no fault of the program, and not twice."""
    executor = guest((sys.executable, "-c", PLAIN_SERVER))
    port = Path(executor.context.container.work_folder) / "port"
    for session in (1, 2):
        ready = master.wait(Ready, lambda each: each.session == session)  # noqa: B023
        port.write_text(ready.address.rpartition(":")[2])
        master.start(session=session)
        status = ended(master, session)
        expected = ExitReason.PORT_COLLISION if session == 1 else ExitReason.EXITED
        assert status.reason is expected, status
        master.send(Prepare(session=2))
    assert status.ok


def test_stop_right_behind_the_start(master: Master, guest: Start) -> None:
    """Whether it had begun or not: one end, and nothing runs."""
    executor = guest("sleep 600")
    master.wait(Ready)
    master.start()
    master.send(StopProgram(session=1, grace=5.0))
    assert ended(master).reason in (ExitReason.STOPPED, ExitReason.NOT_STARTED)
    assert executor.programs() == []


def thief(port: int) -> socket.socket:
    """A process that listens on a reserved port."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", port))
    server.listen()
    return server


def test_log_level_can_be_set(master: Master, guest: Start) -> None:
    executor = guest()
    master.wait(Ready)
    master.send(SetLogLevel(level="error"))
    master.send(SetLogLevel(level="info"))
    block_until(lambda: "log level is now info" in executor.log())
    assert "log level is now error" not in executor.log()


def test_python_programs_are_not_held_back(master: Master, guest: Start) -> None:
    """A pipe does not make Python keep its output for itself."""
    guest((sys.executable, "-c", "import time; print('here'); time.sleep(600)"))
    master.wait(Ready)
    master.start()
    master.wait(ProgramOutput)
