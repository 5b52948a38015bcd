"""Jobs whose programs wait forever: noticed, and the task that the others wait for named."""

from __future__ import annotations

import os

import pytest

from tests.e2e.lab import Lab, until
from tests.facts import mentions

#: Tasks make each step together; one of them leaves the others waiting.
TRAIN = """
import os, pathlib, time
import tony

OUT, INDEX = pathlib.Path(os.environ["OUT"]), os.environ["TASK_INDEX"]

def exchange(step):
    arrived = OUT / f"{os.environ['SESSION_ID']}-{step}"
    arrived.mkdir(exist_ok=True)
    (arrived / INDEX).touch()
    while len(os.listdir(arrived)) < 3: time.sleep(0.01)  # one line: stack traces name it

def load():
    time.sleep(1000)

for step in range(1, 1000):
    if step == 20 and INDEX == "1":
        load()
    exchange(step)
    tony.progress(step, total=1000)
    time.sleep(0.1)
"""
#: Tasks wait for each other once, without steps or output; one of them never does.
SILENT = """
import os, pathlib, time

OUT, INDEX = pathlib.Path(os.environ["OUT"]), os.environ["TASK_INDEX"]

def barrier():
    (OUT / INDEX).touch()
    while len(os.listdir(OUT)) < 3: time.sleep(0.1)  # one line: stack traces name it

def load():
    time.sleep(1000)

if INDEX == "1":
    load()
barrier()
"""
#: A task limits its own processor time; the others make the same steps.
THROTTLED = """
import os, pathlib, time
import tony

def limit_own_cpu():
    group = next(line for line in open("/proc/self/cgroup") if ":cpu:" in line or ":cpu,cpuacct:" in line)
    path = group.rstrip().partition(":")[2].partition(":")[2]
    pathlib.Path(f"/sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us").write_text("2000")

def compute(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass

if os.environ["TASK_INDEX"] == "1":
    limit_own_cpu()
for step in range(1, 100_000):
    compute(0.02)
    tony.progress(step)
    time.sleep(0.1)
"""
DEADLOCK = """
import threading, time
lock = threading.Lock()
for number in range(60):
    print("batch", number, flush=True)
    time.sleep(0.2)
with lock:
    lock.acquire()
"""
#: Tasks make steps independently; one of them takes four times as long, and another one hangs for good.
INDEPENDENT = """
import os, time
import tony

INDEX = os.environ["TASK_INDEX"]

def load():
    time.sleep(1000)

for step in range(1, 100_000):
    if step == 60 and INDEX == os.environ.get("HANGS"):
        load()
    tony.progress(step)
    time.sleep(0.4 if INDEX == os.environ.get("SLOW") else 0.1)
"""
HEAD = """
metrics_interval = "250ms"
heartbeat_interval = "200ms"
"""
WORKERS = """
[roles.worker]
instances = 3
memory = "128m"
"""


def test_a_session_that_makes_no_steps_fails_and_names_the_task(lab: Lab) -> None:
    """Restarted once, then failed; its frame is the evidence."""
    head = f'{HEAD}stall_timeout = "20s"\non_stall = "restart"\nmax_restarts = 1\nbackoff = "0s"'
    job = lab.detach(lab.roles(TRAIN, WORKERS, head))
    lab.wait(job, "failed")
    failure = lab.failure(job)
    assert (failure["cause"], failure["task"], failure["session"]) == ("hang", "worker:1", 2)
    status = lab.status(job)
    assert (status["class"], status["root_task"], status["exit_code"]) == ("hang", "worker:1", 1)
    assert status["evidence"][0]["text"].startswith("load at x.py:")
    assert "the other 2 are in exchange at x.py:" in failure["reason"]
    assert [event["session"] for event in lab.events_of(job, "stalled")] == [1, 2]
    assert "load at x.py" in lab.tony("why", job).stdout


@pytest.mark.on_change("am", "diagnosis")
def test_a_task_that_others_wait_for_is_named_early_without_steps_and_output(lab: Lab) -> None:
    """Two tenths of `stall_timeout` are enough where the stack traces prove it."""
    job = lab.detach(lab.roles(SILENT, WORKERS, f'{HEAD}stall_timeout = "40s"'))
    event = lab.wait_event(job, "stalled")
    assert event["task"] == "worker:1"
    assert mentions(event["reason"], "worker:1 is in load at x.py", "the other 2 are in barrier at x.py")
    status = lab.status(job)
    assert status["stalled_task"] == "worker:1"
    assert status["stalled"]
    assert f"tony stacks {job} worker:1" in lab.tony("status", job).stdout
    lab.tony("kill", job)


def test_a_deadlock_without_steps_is_reported(lab: Lab) -> None:
    head = f'{HEAD}stall_timeout = "4s"'
    job = lab.detach(lab.roles(DEADLOCK, head=head))
    lab.wait_event(job, "stalled")
    said = lab.tony("status", job).stdout
    assert "worker:0 is in <module> at x.py:" in said
    assert lab.status(job)["state"] == "running"
    lab.tony("kill", job)


def test_a_single_task_that_hangs_is_named_while_the_others_continue(lab: Lab) -> None:
    job = lab.detach(lab.roles(INDEPENDENT, WORKERS, f'{HEAD}stall_timeout = "20s"', HANGS="1"))
    event = lab.wait_event(job, "stalled")
    assert (event["task"], event["alone"]) == ("worker:1", True)
    assert mentions(event["reason"], "worker:1", 59, "load at x.py", "2 other tasks")
    status = lab.status(job)
    assert [task["step"] for task in status["tasks"]][1] == 59
    assert "worker:1" in status["waiting"]
    lab.tony("kill", job)


@pytest.mark.on_change("am")
def test_a_slow_task_is_named(lab: Lab) -> None:
    job = lab.detach(lab.roles(INDEPENDENT, WORKERS, HEAD, SLOW="2"))
    event = lab.wait_event(job, "straggler")
    assert event["task"] == "worker:2"
    assert mentions(lab.tony("status", job).stdout, "worker:2 is slow")

    def is_slower() -> bool:
        rates = [task["rate"] for task in lab.status(job)["tasks"]]
        return bool(rates[0] > 2 * rates[2])

    until(is_slower, "the rate of worker:2 is less than half of the others'")
    assert all(task["memory"] > 1e6 for task in lab.status(job)["tasks"])
    assert mentions(lab.tony("why", job).stdout, "worker:2 is slow")
    lab.tony("kill", job)


@pytest.mark.on_change("am", "linux")
@pytest.mark.skipif(
    not os.access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", os.W_OK), reason="no control group for CPU limits is writable"
)
def test_a_task_that_its_cpu_limit_slows_down_is_named_with_the_throttling(lab: Lab) -> None:
    job = lab.detach(lab.roles(THROTTLED, WORKERS, HEAD))
    event = lab.wait_event(job, "straggler")
    assert event["task"] == "worker:1"
    assert mentions(event["reason"], "its CPU limit throttles it")
    lab.tony("kill", job)
