"""Programs that use more memory than their task has, and an application master that does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.change_detection import KUBERNETES
from tests.kubernetes.lab import AM_PART, KubernetesLab
from tony.linux.process import is_alive

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

#: Grows above its 128 MiB, but below the container's 192 MiB, until it is stopped.
GROWS = """
import time
kept = []
while len(kept) < 150:
    kept.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.01)
time.sleep(3600)
"""
#: In one piece, more than the container may have.
AT_ONCE = "kept = bytearray(b'x') * (400 << 20)"
LAST_WORDS = (
    "2 of 2 AM attempts (am_attempts) died within 10 minutes; the last one: the kernel killed it at its memory limit "
    "(128m): request more with `scheduler.kubernetes.am_memory`"
)
#: Fills the memory of a process's control group until the kernel has killed that process. It spares this one.
FILL = """
import os, sys
pid, group = sys.argv[1:]
open(f"{group}/cgroup.procs", "w").write(str(os.getpid()))
open("/proc/self/oom_score_adj", "w").write("-1000")
kept = []
while os.path.exists(f"/proc/{pid}"):
    kept.append(bytearray(b"x") * (1 << 20))
"""
WAIT = """
import os, time
open(f"{os.environ['OUT']}/up-{os.environ['SESSION_ID']}", "w").close()
time.sleep(3600)
"""


def test_out_of_memory_is_named_with_both_numbers(lab: KubernetesLab) -> None:
    """Of the program's own limit, and of the container's, which the kernel enforces."""
    programs = {"grows": GROWS, "at-once": AT_ONCE}
    jobs = {name: lab.detach(lab.roles(program)) for name, program in programs.items()}
    for job in jobs.values():
        assert lab.wait(job)["state"] == "failed"
    failures = {name: lab.failure(job) for name, job in jobs.items()}
    reasons = {name: failure["reason"] for name, failure in failures.items()}
    assert {failure["cause"] for failure in failures.values()} == {"memory"}, reasons
    used = re.search(r"\(limit 128m\): ([\d.]+)m used, killed by the executor", reasons["grows"])
    assert used, reasons
    assert float(used[1]) >= 128
    # On a slow machine the executor sees the program grow.
    assert re.search(r"peak [\d.]+m, limit 128m|\(limit 128m\): [\d.]+m used", reasons["at-once"]), reasons


def exhaust_memory(pid: int) -> None:
    """Have the kernel kill a process at its limit."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    (group,) = [path for _, kind, path in lines if kind == "memory"]
    folder = f"/sys/fs/cgroup/memory{group}"
    # With the container, runc may end what else is in its group.
    subprocess.run([sys.executable, "-c", FILL, str(pid), folder], check=False, timeout=60)
    assert not is_alive(pid)


@pytest.mark.long
def test_an_application_master_runs_out_of_memory(lab: KubernetesLab) -> None:
    """It is started again in its pod, and the program runs on; the last of its attempts fails the job and says why."""
    text = '[roles.worker]\n[scheduler.kubernetes]\nam_memory = "128m"\n'
    job = lab.detach(lab.roles(WAIT, text, "am_attempts = 2"))
    lab.wait_wrote("up-1")
    program, pods = lab.pid_of(job, "worker:0"), [*lab.list_pods(job, AM_PART)]
    first = lab.master_of(job)
    exhaust_memory(first)
    lab.wait_attempt(job, 2)
    assert lab.pid_of(job, "worker:0") == program
    assert [*lab.list_pods(job, AM_PART)] == pods
    exhaust_memory(lab.master_of(job))
    assert lab.wait(job)["state"] == "failed"
    failure = lab.failure(job)
    assert failure["cause"] == "am-lost"
    assert LAST_WORDS in failure["reason"], failure
    assert lab.wait_ended(job) == "failed"
