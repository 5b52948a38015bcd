"""No further process may be started: who is refused says which limit it is, the job ends, and nothing is left."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, until
from tests.failure_modes.unknown_users import become_other_user

pytestmark = pytest.mark.e2e

#: A user of these tests alone: the limit counts all processes of a user, including those of other tests.
UID = 3_000_000 + os.getpid()
#: As many as the job below needs, to the last one.
MOST = 15
PROGRAM = """["python", "-S", "-c", "import time; time.sleep(0.3); print('hello')"]"""
JOB = f'command = {PROGRAM}\nstop_grace = "1s"\n[roles.worker]\ninstances = 2\n'
LIMIT = f"user {UID} may have {MOST} processes and threads (RLIMIT_NPROC, ulimit -u)"


@pytest.fixture
def limited(lab: Lab) -> Iterator[Lab]:
    """A user who may have so many processes and threads at one time."""
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit (util-linux) is not installed")
    become_other_user(lab, UID)
    lab.prefix = (*lab.prefix, "prlimit", f"--nproc={MOST}")
    yield lab
    until(lambda: not _processes(), f"no process of user {UID} is left")


def _processes() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if folder.stat().st_uid == UID and state not in ("Z", "X"):
                found.append(int(folder.name))
    return found


@contextmanager
def others(count: int) -> Iterator[None]:
    """So many other processes of the same user."""
    command = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "sleep", "3600"]
    with ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(command)) for _ in range(count)]
        for process in started:
            stack.callback(process.kill)
        until(lambda: {process.pid for process in started} <= set(_processes()), "they are there")
        yield


def test_a_limit_that_no_job_of_this_size_can_keep(limited: Lab) -> None:
    """Refused at once with the arithmetic; nothing was started."""
    done = limited.submit(limited.job_file(JOB.replace("instances = 2", 'instances = 9\nmemory = "64m"')))
    assert done.returncode == 2
    assert f"9 tasks at one time need 36 processes and threads or more, but the limit is {MOST}" in done.stderr
    assert "(RLIMIT_NPROC, ulimit -u). Raise it, or request fewer tasks." in done.stderr
    assert limited.jobs() == []


def test_just_enough(limited: Lab) -> None:
    """A job runs with as many processes as it is said to need."""
    done = limited.submit(limited.job_file(JOB))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("| hello") == 2


@pytest.mark.parametrize(
    "taken", [taken if taken % 2 else pytest.param(taken, marks=pytest.mark.long) for taken in range(3, MOST + 1)]
)
def test_a_full_process_table(limited: Lab, taken: int) -> None:
    """The message names the limit, and the job fails as the machine's fault.

    Other processes leave so little room that the client, supervisor, application master, an executor, its watchdog or a
    program is the first to be refused; or none is, since not all are needed at the same moment.
    """
    with others(taken):
        done = limited.submit(limited.job_file(JOB))
        what = f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, what
        assert "bug" not in done.stderr, what
        if done.returncode != 0:
            assert done.returncode == 3, what
            assert LIMIT in done.stderr, what
            for job in limited.jobs():
                folder = limited.home / "jobs" / job
                assert (folder / "summary.json").exists(), what
                assert not (folder / "secret").exists(), what
                limited.wait_removed(job, 30)
    assert not list(limited.home.glob("crash-*"))


def test_a_shell_that_gets_no_process(limited: Lab) -> None:
    """That is the program's own misfortune: the job says what its shell said."""
    # Client, master, fork server, executor, watchdog and shell: none is left for `true`.
    text = 'command = "ulimit -u 1; true | true"\nstop_grace = "1s"\n'
    done = limited.submit(limited.job_file(text))
    assert done.returncode == 1
    assert "main:0 | bash: fork: retry: Resource temporarily unavailable" in done.stdout
    assert "bash: fork: Resource temporarily unavailable" in done.stderr


def test_the_table_fills_while_a_job_runs(limited: Lab) -> None:
    """It ends all the same: what has to be ended takes no further process, and no further thread."""
    gate = limited.root / "gate"
    limited.file("wait.py", f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)\n")
    text = 'source = "."\ncommand = ["python", "-S", "wait.py"]\nstop_grace = "1s"\n[roles.worker]\ninstances = 2\n'
    job = limited.detach(limited.job_file(text))
    limited.wait(job, "running")
    until(lambda: all(task["pid"] for task in limited.tasks(job).values()), "both programs run")
    with others(MOST - len(_processes())):
        gate.touch()
        folder = limited.home / "jobs" / job
        until((folder / "summary.json").exists, "the job ends")
    assert limited.wait(job)["state"] == "succeeded"


def test_a_control_group_without_room(lab: Lab) -> None:
    """The other limit that there may be: the message names it, too."""
    group = _pids_group(lab)
    (group / "pids.max").write_text("3\n")
    lab.prefix = ("bash", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "bash")
    try:
        done = lab.submit(lab.job_file(JOB))
        assert done.returncode == 3, done.stderr
        assert "this control group may have 3 processes and threads (pids.max)" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        lab.prefix = ()
        lab.close()
        until(lambda: not (group / "cgroup.procs").read_text().split(), "the control group is empty")
        group.rmdir()


def _pids_group(lab: Lab) -> Path:
    """A control group of our own with a limit of processes, version 1 or 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers not in ("", "pids"):
            continue
        mount = Path("/sys/fs/cgroup") / controllers
        for above in (mount / own.lstrip("/"), mount):
            group = above / f"test-{lab.root.name}"
            with suppress(OSError):
                group.mkdir()
                if os.access(group / "pids.max", os.W_OK):
                    return group
                group.rmdir()
    pytest.skip("no control group with a limit of processes may be made here")
