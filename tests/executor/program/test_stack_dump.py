"""Where programs stand: asked on the wire, of real programs."""

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Guest, Master
from tony.executor.program import stack_dump
from tony.executor.program.spawn import Reaper
from tony.model.masking import SecretMask
from tony.protocol.executor_messages import DumpStacks, ProgramExited, ProgramOutput, ProgramStarted, Ready
from tony.protocol.launch import ContainerPart
from tony.protocol.shared_messages import MAX_STACKS_BYTES, Stacks

pytestmark = pytest.mark.slow

#: Two threads, and a child, each at a place of its own; all of them wait in C.
_WAITING = """\
import multiprocessing, threading, time
def in_a_thread(): threading.Event().wait()
def in_a_child(): time.sleep(600)
threading.Thread(target=in_a_thread, daemon=True).start()
multiprocessing.get_context("spawn").Process(target=in_a_child, daemon=True).start() if __name__ == "__main__" else None
def at_the_top():
    print("ready", flush=True)
    time.sleep(600)
at_the_top() if __name__ == "__main__" else None
"""
#: Looks as little as one that may not look.
_BLIND_SPY = "#!/bin/sh\necho 'Permission Denied: try running again with elevated permissions' >&2\nexit 1\n"
_SPY = '#!/bin/sh\necho seen with "$@"\n'
#: No user of this machine.
OTHER_USER = 12345
#: The real one, of this environment.
REAL = Path(sys.executable).with_name("py-spy")


def spied(folder: Path, text: str) -> str:
    """A Python beside which there is such a `py-spy`."""
    (folder / "bin").mkdir()
    (folder / "bin/py-spy").write_text(text)
    (folder / "bin/py-spy").chmod(0o755)
    (folder / "bin/python").symlink_to(sys.executable)  # the real one is beside the program behind this link
    return str(folder / "bin/python")


def why_not_to_look() -> str:
    """Why `py-spy` may not look at a process that it did not start itself; empty if it may."""
    code = "import sys; print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        found = subprocess.run([REAL, "dump", "--pid", str(program.pid)], capture_output=True, text=True)
    return found.stderr.strip() if found.returncode else ""


def ask(master: Master, request: str = "1") -> Stacks:
    master.send(DumpStacks(request=request))
    return master.wait(Stacks, lambda stacks: stacks.request == request)


def run(master: Master, guest: Start, *command: str, **more: object) -> Guest:
    """A program that has printed its first line."""
    executor = guest(command, python_stacks=True, **more)
    master.wait(Ready)
    master.start()
    master.wait(ProgramOutput)
    return executor


def test_every_thread_of_every_python_is_dumped(master: Master, guest: Start, tmp_path: Path) -> None:
    """Through the hook, where ptrace is not allowed; the dump is kept among the logs."""
    (tmp_path / "waiting.py").write_text(_WAITING)
    executor = run(master, guest, spied(tmp_path, _BLIND_SPY), str(tmp_path / "waiting.py"))
    places = ("in at_the_top", "in in_a_thread", "in in_a_child")
    number = 0

    def told() -> Stacks | None:
        nonlocal number
        number += 1
        stacks = ask(master, str(number))  # the child comes to its place a little later
        return stacks if all(place in stacks.text for place in places) else None

    stacks = master.until(told)
    assert (stacks.task, stacks.how, stacks.problem) == ("worker:0", "faulthandler", "")
    assert stacks.name == "worker-0.s1.t1.stacks"
    assert "in at_the_top" in (tmp_path / "logs" / stacks.name).read_text()
    assert (tmp_path / "logs" / stacks.name).stat().st_mode & 0o777 == 0o600
    assert executor.programs()
    assert not master.all(ProgramExited), "it continues as if nothing had happened"


def test_py_spy_is_tried_first(master: Master, guest: Start, tmp_path: Path) -> None:
    """`py-spy` next to the job's Python needs no help of the program, and does not stop it where that is possible."""
    code = "import time; print(1, flush=True); time.sleep(600)"
    run(master, guest, spied(tmp_path, _SPY), "-c", code)
    stacks = ask(master)
    assert stacks.how == "py-spy"
    assert "seen with dump --full-filenames --nonblocking --pid" in stacks.text


def test_root_does_not_run_a_py_spy_of_another_user(master: Master, guest: Start, tmp_path: Path) -> None:
    """A program that root starts and that drops its privileges names a folder of its new user as its Python's."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    decoy = Path(spied(tmp_path, f"#!/bin/sh\nid > {tmp_path}/caught\necho caught\n")).parent
    os.chown(decoy, OTHER_USER, OTHER_USER)
    os.chown(decoy / "py-spy", OTHER_USER, OTHER_USER)
    code = f"import os, time; os.setuid({OTHER_USER}); print('ready', flush=True); time.sleep(600)"
    command = f"exec -a {decoy}/python3 {sys.executable} -c {shlex.quote(code)}"
    run(master, guest, "bash", "-c", command)
    assert "caught" not in ask(master).text
    assert not (tmp_path / "caught").exists()


def test_py_spy_itself(master: Master, guest: Start, tmp_path: Path) -> None:
    """It sees every thread of every Python process by name, without our hook; and the program continues."""
    if reason := why_not_to_look():
        pytest.skip(f"py-spy may not look into another process here: {reason}")
    (tmp_path / "waiting.py").write_text(_WAITING)
    executor = guest((sys.executable, str(tmp_path / "waiting.py")))
    master.wait(Ready)
    master.start()
    master.wait(ProgramOutput)
    places = [f"{each} ({tmp_path}/waiting.py:" for each in ("at_the_top", "in_a_thread", "in_a_child")]
    number = 0

    def told() -> Stacks | None:
        nonlocal number
        number += 1
        stacks = ask(master, str(number))  # the child comes to its place a little later
        return stacks if all(place in stacks.text for place in places) else None

    stacks = master.until(told)
    assert (stacks.task, stacks.problem, stacks.name) == ("worker:0", "", "worker-0.s1.t1.stacks")
    assert stacks.how.split(", ")[0] == "py-spy"
    assert "at_the_top" in (tmp_path / "logs" / stacks.name).read_text()
    assert executor.programs()
    assert not master.all(ProgramExited)


def test_other_processes_are_described_by_the_kernel(master: Master, guest: Start) -> None:
    run(master, guest, "bash", "-c", "echo ready; exec sleep 600")
    stacks = ask(master)
    assert (stacks.how, stacks.problem) == (
        "kernel",
        "no process of the program is Python: only the kernel's wait channels are shown",
    )
    assert "sleep 600\nmain thread in sleep (" in stacks.text
    assert "sleeping" in stacks.text


def test_the_answer_of_nccl_is_in_front_where_a_long_dump_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of dumped processes holds for it, too."""
    asked: list[int] = []

    def query_ras(pids: Sequence[int], deadline: float) -> str:
        asked.extend(pids)
        return "=== NCCL RAS"

    monkeypatch.setattr(stack_dump, "query_ras", query_ras)
    monkeypatch.setattr(stack_dump, "read_collectives", lambda pid: "x" * MAX_STACKS_BYTES)
    container = ContainerPart(host="h", work_folder="/", log_folder="/", inherit_env=True, marker="")
    with subprocess.Popen(["sleep", "600"]) as program:
        dumper = stack_dump.StackDumper(container, {}, Reaper())
        stacks = asyncio.run(dumper.dump(Stacks(task="worker:0"), [program.pid] * 40, SecretMask()))
        program.kill()
    assert stacks.text.startswith("=== NCCL RAS\n=== process")
    assert len(asked) == 32


def test_no_dump_while_no_program_runs(master: Master, guest: Start) -> None:
    guest("true")
    master.wait(Ready)
    stacks = ask(master)
    assert (stacks.problem, stacks.name) == ("its program is not running", "")


def test_a_python_without_the_hook_is_not_signalled(master: Master, guest: Start, tmp_path: Path) -> None:
    """The setting turns it off: what may not be looked at says so, and lives."""
    code = "import os, time; print('TONY_STACKS' in os.environ, flush=True); time.sleep(600)"
    executor = guest((spied(tmp_path, _BLIND_SPY), "-c", code))
    master.wait(Ready)
    master.start()
    master.wait(ProgramOutput)
    stacks = ask(master)
    assert stacks.how == "kernel"
    assert "Permission Denied" in stacks.problem
    assert "python_stacks" in stacks.problem
    assert executor.has_printed("worker-0.s1.t1.out", "False\n")
    assert os.path.exists(f"/proc/{master.wait(ProgramStarted).pid}")
