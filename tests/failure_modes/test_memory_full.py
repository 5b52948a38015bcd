"""The machine's memory is full: the kernel ends a program, never its executor or the application master."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, kill, until
from tests.failure_modes.job_processes import children, parts_of
from tests.failure_modes.unknown_users import become_other_user
from tony.linux import container_cgroup

pytestmark = pytest.mark.e2e

MIB = 1 << 20
#: Room for a client, an application master and an executor, and some for a program.
FULL_AT = 256 * MIB
EATER = "x = []\nwhile True:\n    x.append(bytearray(8 << 20))\n    print(len(x), 'pieces', flush=True)\n"
FAMILY = "import subprocess, time\nsubprocess.Popen(['sleep', '3600'])\nprint('up', flush=True)\ntime.sleep(3600)\n"


@pytest.fixture
def small_machine(lab: Lab) -> Iterator[Lab]:
    """A machine that has 256 MiB and believes that it has 8 GiB, as others' programs may make it believe.

    In truth a control group around everything that is started.
    """
    made = container_cgroup.create(f"test-full-{lab.root.name}", FULL_AT, None)
    if not made:
        pytest.skip("no control group with a memory limit may be made here")
    lab.env["TONY_SET_SCHEDULER__LOCAL__MEMORY"] = "8g"
    enter = f'echo $$ > "{made[0]}/cgroup.procs"; exec "$@"'
    lab.prefix = ("sh", "-c", enter, "sh")
    try:
        yield lab
    finally:
        lab.close()
        container_cgroup.kill(made)
        assert container_cgroup.remove(made), "control groups are left"


def score(pid: int) -> int:
    """How many thousandths of the memory the kernel adds to what a process uses."""
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def assert_order(lab: Lab) -> None:
    """Master < executors < programs and what these start; watchdogs as the master."""
    text = 'command = "python family.py"\nstop_grace = "1s"\n[roles.worker]\ninstances = 2\n'
    job = lab.detach(lab.job_file(text, {"family.py": FAMILY}))
    parts = parts_of(lab, job)
    for task in parts.programs:
        lab.wait_output(job, task, "up")
    own = score(parts.master)
    assert {own} == {score(pid) for pid in parts.watchdogs.values()}
    executors = {score(pid) for pid in parts.executors.values()}
    programs = {score(pid) for pid in parts.programs.values()}
    assert own < min(executors)
    assert max(executors) < min(programs)
    grandchildren = {score(child) for pid in parts.programs.values() for child in children(pid)}
    assert grandchildren == programs
    # A watchdog that comes later is as valuable as the first.
    kill(parts.watchdogs["worker:0"], signal.SIGKILL)
    old = parts.watchdogs["worker:0"]
    until(lambda: _watchdog(parts.executors["worker:0"], parts.programs["worker:0"], old), "there is a new watchdog")
    again = _watchdog(parts.executors["worker:0"], parts.programs["worker:0"], old)
    until(lambda: score(again) == own, "it has the score of the first")
    assert lab.tony("kill", job).returncode == 0
    assert lab.wait(job)["exit_code"] == 4


def _watchdog(executor: int, program: int, but: int) -> int:
    return next((pid for pid in children(executor) if pid not in (program, but)), 0)


def test_the_order_in_which_the_kernel_ends_processes(lab: Lab) -> None:
    """Programs first, then executors, the application master last."""
    assert_order(lab)


def test_the_order_holds_without_rights(other_user: Lab) -> None:
    """Every user may raise a process's own score; lowering it below its start takes rights that are missing here."""
    assert_order(other_user)


def test_a_task_takes_all_memory(small_machine: Lab) -> None:
    """The kernel kills the program alone; the verdict says so, with the bytes, and that it was not the task's limit."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        pytest.skip("with control groups of version 2 a task's group would lie outside of the small machine")
    job = _eat(small_machine, "2g")
    status = small_machine.wait(job)
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("failed", 1, "memory")
    reason = status["failure"]["reason"]
    assert re.search(
        r"ran out of memory: the machine had none left; at [\d.]+m of its limit 2g 1 process killed by the kernel",
        reason,
    )
    assert small_machine.tasks(job)["main:0"]["signal"] == "SIGKILL"
    small_machine.wait_removed(job)


def test_a_task_takes_all_memory_where_no_control_group_can_be_made(small_machine: Lab) -> None:
    """The kernel tells only that it killed a process: the verdict names the most likely cause, with the bytes. The
    small machine is a control group of its own where this machine has those of version 1: the container of the job."""
    enter = small_machine.prefix
    become_other_user(small_machine)
    small_machine.prefix = (*enter, *small_machine.prefix)
    job = _eat(small_machine, "2g")
    status = small_machine.wait(job)
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("failed", 1, "memory")
    reason = status["failure"]["reason"]
    assert re.search(
        r"ran out of memory: (the machine|its container) had none left, and the kernel most likely .*; "
        r"peak [\d.]+m, limit 2g",
        reason,
    )
    small_machine.wait_removed(job)


def test_a_task_reaches_its_own_limit(small_machine: Lab) -> None:
    """That is another verdict: the machine has more."""
    job = _eat(small_machine, "64m")
    status = small_machine.wait(job)
    assert (status["exit_code"], status["failure"]["cause"]) == (1, "memory")
    assert "ran out of memory (limit 64m): 1 process killed by the kernel" in status["failure"]["reason"]


def _eat(lab: Lab, memory: str) -> str:
    """Submits a program that eats what there is; checks that the master saw its end."""
    text = f'command = "exec python eater.py"\n[roles.main]\nmemory = "{memory}"\n'
    job = lab.detach(lab.job_file(text, {"eater.py": EATER}))
    lab.wait(job, "running", "failed")
    return job
