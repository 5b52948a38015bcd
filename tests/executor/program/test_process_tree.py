"""The family of a program is ended by every handle there is."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tony.executor.program.process_tree import ProcessTree
from tony.linux import process


def test_control_group_is_killed_in_one_stroke_where_the_kernel_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that fork and exit all the time would outrun signals to single processes."""
    monkeypatch.setattr(process, "list_below", list)  # what runs below pytest, such as a cluster, must live on
    missing_pid = 2**22 + 1  # more than any pid
    (tmp_path / "cgroup.procs").write_text(f"{missing_pid}\n")
    (tmp_path / "cgroup.kill").write_text("")
    family = ProcessTree(f"TONY_TASK={tmp_path}", [str(tmp_path)], lambda: ())
    assert asyncio.run(family.end(timeout=0.01)) == [missing_pid]
    assert (tmp_path / "cgroup.kill").read_text() == "1"


#: An executor in short: its arguments say whether the kernel lists children. It starts a program that leaves a daemon
#: without any mark behind, and ends both; its helper lives on.
EXECUTOR = """
import asyncio, os, signal, subprocess, sys
from tony.executor.program.process_tree import ProcessTree
from tony.linux import process

process.set_child_subreaper()
helper = subprocess.Popen(["sleep", "600"])
searched = []
if sys.argv[1] == "unlisted":
    process.list_own_children = lambda: None
with_marker = process.with_marker
process.with_marker = lambda text: searched.append(text) or with_marker(text)
family = ProcessTree("TONY_TASK=test/" + str(os.getpid()), (), lambda: {helper.pid})
print(family.is_finished())
print(asyncio.run(family.end()), len(searched))
program = subprocess.Popen(
    ["bash", "-c", "env -i setsid sleep 600 & echo $!; exec sleep 600"], stdout=subprocess.PIPE, start_new_session=True
)
daemon = int(program.stdout.readline())
print(family.is_finished(), daemon in family.list_contained())


async def end():
    asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, reap)
    return await family.end()


def reap():
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


print(asyncio.run(end()), len(searched) > 0)
print(process.is_alive(program.pid), process.is_alive(daemon), process.is_alive(helper.pid), family.is_finished())
helper.kill()
"""


@pytest.mark.parametrize("way", ["listed", "unlisted"])
def test_an_orphan_is_found_without_a_marker(way: str) -> None:
    """Whether or not the kernel lists children; where it does, no search by marker is made."""
    if process.list_own_children() is None:
        pytest.skip("a kernel without CONFIG_PROC_CHILDREN")
    source = str(Path(process.__file__).parents[2])
    said = subprocess.run(
        [sys.executable, "-c", EXECUTOR, way],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": source},
    ).stdout.splitlines()
    listed = way == "listed"
    assert said == [
        str(True if listed else None),
        f"[] {0 if listed else 1}",
        f"{False if listed else None} True",
        "[] True",
        f"False False True {True if listed else None}",
    ]
