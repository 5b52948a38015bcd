"""A disk that answers late: heartbeats continue, no task is given up, and every line arrives in the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, until
from tests.failure_modes.job_processes import parts_of

pytestmark = pytest.mark.e2e

#: Executors are given up after four seconds of silence.
QUICK = 'heartbeat_interval = "0.2s"\nheartbeat_timeout = "4s"\nstop_grace = "1s"\n'
#: Seconds that the disk takes: longer than that.
LATE = 6.0

#: Prints a numbered line every 20 ms until a file is there. The first try fails once another one is there.
PROGRAM = """
import os, sys, time
first, last = sys.argv[1:]
number = 0
while not os.path.exists(last):
    print("line", number, flush=True)
    number += 1
    time.sleep(0.02)
    if os.environ["SESSION_ID"] == "1" and os.path.exists(first):
        sys.exit(3)
print("done", flush=True)
"""


def submit(lab: Lab, head: str = "") -> str:
    command = f"exec python program.py {lab.root}/first {lab.root}/last"
    text = f'command = "{command}"\n{QUICK}{head}[roles.worker]\ninstances = 2\n'
    job = lab.detach(lab.job_file(text, {"program.py": PROGRAM}))
    for task in ("worker:0", "worker:1"):
        lab.wait_output(job, task, "line 1")
    return job


def assert_complete(printed: str) -> None:
    *lines, last = printed.splitlines()
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert last == "done"


def test_a_log_that_blocks(lab: Lab) -> None:
    """A log that blocks each process that opens or writes it, as on a network file system: here, a pipe without a
    reader."""
    job = submit(lab, "max_restarts = 1\n")
    folder = lab.home / "jobs" / job / "logs"
    slow = folder / "worker-0.s2.t1.out"
    os.mkfifo(slow)
    (lab.root / "first").touch()
    until(lambda: lab.status(job)["session"] == 2, "session 2 opens")
    until(lambda: lab.status(job)["state"] == "running", "session 2 runs")
    time.sleep(LATE)
    status = lab.status(job)
    assert (status["state"], status["session"]) == ("running", 2)
    with slow.open("rb", buffering=0) as reader:
        (lab.root / "last").touch()
        printed = reader.readall()
    assert lab.wait(job)["state"] == "succeeded"
    assert_complete(printed.decode())
    assert_complete((folder / "worker-1.s2.t1.out").read_text())
    lab.wait_removed(job, 30)


class Disk:
    """A small file system of its own, which can be suspended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def frozen(self) -> Iterator[None]:
        subprocess.run(["fsfreeze", "--freeze", self.folder], check=True)
        # If this test is killed, no process must wait for ever.
        thaw = f"sleep 100; exec fsfreeze --unfreeze '{self.folder}' 2> /dev/null"
        insurance = subprocess.Popen(["sh", "-c", thaw], start_new_session=True)
        try:
            yield
        finally:
            os.killpg(insurance.pid, 9)
            insurance.wait()
            subprocess.run(["fsfreeze", "--unfreeze", self.folder], check=True)


@pytest.fixture
def disk(lab: Lab) -> Iterator[Disk]:
    """The disk on which the user's TONY_HOME is."""
    for program in ("mkfs.ext4", "fsfreeze", "mount", "umount"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    image, folder = lab.root / "disk.img", lab.root / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    lab.home = folder / "home"
    lab.env["TONY_HOME"] = str(lab.home)
    try:
        yield Disk(folder)
    finally:
        lab.close()
        until(
            lambda: subprocess.run(["umount", str(folder)], capture_output=True).returncode == 0, "it is unmounted", 30
        )


def test_the_disk_blocks_while_programs_print(lab: Lab, disk: Disk) -> None:
    """Logs, event log, everything: executors say that they live, and the master knows that it was suspended itself."""
    job = submit(lab)
    with disk.frozen():
        time.sleep(LATE)
    (lab.root / "last").touch()
    status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", 1)
    for task in ("worker:0", "worker:1"):
        assert_complete(lab.wait_output(job, task, "done"))
    lab.wait_removed(job, 30)


def test_the_disk_blocks_while_programs_exit(lab: Lab, disk: Disk) -> None:
    """The exits are reported once they can be written."""
    job = submit(lab)
    parts = parts_of(lab, job)
    with disk.frozen():
        (lab.root / "last").touch()
        programs = parts.programs.values()
        until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in programs), "the programs have ended")
        time.sleep(LATE)
    status = lab.wait(job)
    assert (status["state"], status["session"]) == ("succeeded", 1)
    for task in ("worker:0", "worker:1"):
        assert_complete(lab.wait_output(job, task, "done"))
    lab.wait_removed(job, 30)


def test_the_disk_blocks_while_a_job_is_submitted(lab: Lab, disk: Disk) -> None:
    lab.submit(lab.job_file('command = "true"\n'))
    with disk.frozen():
        follower = lab.follow("submit", lab.job_file('command = "echo up"\n'))
        time.sleep(LATE)
        assert follower.poll() is None
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, err) == (0, "")
    assert "main:0 | up" in out
