"""The local scheduler as its users meet it: memory, GPUs, waiting in line, TLS."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.lab import Lab, until

pytestmark = pytest.mark.e2e

EATER = """
import time
eaten = []
print("hungry", flush=True)
while True:
    eaten.append(bytearray(8 << 20))
    time.sleep(0.01)
"""


def test_memory_is_a_limit(lab: Lab) -> None:
    """A program that takes more than its memory ends with a verdict that says so, not with "exit 137"."""
    done = lab.submit(lab.job_file('command = "python x.py"\n[roles.worker]\nmemory = "128m"\n', {"x.py": EATER}))
    assert done.returncode == 1, done.stdout + done.stderr
    failure = lab.status(lab.only_job())["failure"]
    assert failure["cause"] == "memory"
    assert "ran out of memory (limit 128m)" in failure["reason"]
    assert "ran out of memory (limit 128m)" in done.stdout + done.stderr


def test_memory_of_a_child_counts(lab: Lab) -> None:
    """The limit is the task's: a child that eats is the program's own memory."""
    parent = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, 'eater.py']).returncode and 3)"
    text = 'command = ["python", "x.py"]\n[roles.worker]\nmemory = "128m"\n'
    done = lab.submit(lab.job_file(text, {"x.py": parent, "eater.py": EATER}))
    assert done.returncode == 1
    assert lab.status(lab.only_job())["failure"]["cause"] == "memory"


def test_gpus_are_given_out_once(lab: Lab) -> None:
    """Pretended GPUs: each task sees its own, no two the same, and a task without sees none."""
    text = """
    command = "echo cuda=$CUDA_VISIBLE_DEVICES."
    [roles.worker]
    instances = 2
    gpus = 2
    [roles.ps]
    [scheduler.local]
    gpus = 4
    """
    done = lab.submit(lab.job_file(text))
    assert done.returncode == 0, done.stdout + done.stderr
    logs = lab.home / "jobs" / lab.only_job() / "logs"
    seen = [re.findall(r"cuda=(.*)\.", p.read_text())[0] for p in sorted(logs.glob("*.out"))]
    ps, *workers = sorted(seen)
    assert ps == ""
    assert sorted(",".join(workers).split(",")) == ["0", "1", "2", "3"]


def test_two_jobs_never_hold_one_gpu(lab: Lab) -> None:
    """The second job waits for the first, says behind whom, and runs when the first has ended."""
    text = 'command = "sleep 3600"\nstop_grace = "1s"\n[roles.worker]\ngpus = 3\n[scheduler.local]\ngpus = 4\n'
    first = lab.detach(lab.job_file(text))
    lab.wait(first, "running")
    second = lab.detach(lab.job_file(text.replace("sleep 3600", "echo got $CUDA_VISIBLE_DEVICES")))
    queued = lab.wait(second, "queued")
    assert first in queued["waiting"]
    assert lab.tony("kill", first).returncode == 0
    assert lab.wait(second)["state"] == "succeeded"


def test_a_claim_dies_with_its_job(lab: Lab) -> None:
    """The holder's application master is killed for good: who looks ends the rest, and the next in line has room."""
    text = (
        'command = "sleep 3600"\nstop_grace = "1s"\n[roles.worker]\nmemory = "1g"\n[scheduler.local]\nmemory = "1g"\n'
    )
    first = lab.detach(lab.job_file(text))
    until(lambda: lab.tasks(first)["worker:0"]["pid"], "the first one runs")
    second = lab.detach(lab.job_file(text.replace("sleep 3600", "true")))
    lab.wait(second, "queued")
    lab.end_for_good(first)
    assert lab.wait(first)["failure"]["cause"] == "am-lost"
    assert lab.wait(second)["state"] == "succeeded"


def test_tls_inside_one_machine(lab: Lab) -> None:
    """One setting forces TLS; the job runs, can be watched and killed the same way."""
    text = 'command = "sleep 3600"\ntls = "always"\nstop_grace = "1s"\n[roles.worker]\ninstances = 2\n'
    job = lab.detach(lab.job_file(text))
    lab.wait(job, "running")
    assert json.loads((lab.home / "jobs" / job / "am.json").read_text())["address"].startswith("tls:")
    assert lab.tony("kill", job).returncode == 0
    assert lab.wait(job)["exit_code"] == 4


def test_no_secret_is_left_or_shown(lab: Lab) -> None:
    """The token is in no argv, environment or log while the job runs, and gone when it has ended."""
    text = 'command = "env; sleep 3600"\nstop_grace = "1s"\nenv = { API_TOKEN = "hunter2-secret" }\n'
    job = lab.detach(lab.job_file(text))
    folder = lab.home / "jobs" / job
    token = json.loads((folder / "secret" / "credentials.json").read_text())["am"]["token"]
    lab.wait_output(job, "main:0", "API_TOKEN=" + "*" * len("hunter2-secret"))
    for pid in lab.processes(job):
        for name in ("cmdline", "environ"):
            try:
                assert token.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
    lab.tony("kill", job, "--now")
    lab.wait(job)
    lab.wait_gone(job)
    assert not (folder / "secret").exists()
    for path in folder.rglob("*"):
        if path.is_file():
            assert token.encode() not in path.read_bytes(), path
            if "logs" not in path.parts:
                assert b"hunter2" not in path.read_bytes(), path


def test_work_folders_are_copies(lab: Lab) -> None:
    """A task that changes a file of its source changes neither the user's, nor a peer's, nor a later job's."""
    text = 'command = "echo changed-by-$TASK_INDEX >> data.txt; cat data.txt"\n[roles.worker]\ninstances = 2\n'
    job = lab.job_file(text, {"data.txt": "original\n"})
    for _ in range(2):
        assert lab.submit(job).returncode == 0
    assert (job.parent / "data.txt").read_text() == "original\n"
    for job_id in lab.jobs():
        out = (lab.home / "jobs" / job_id / "logs" / "worker-1.s1.t1.out").read_text()
        assert out == "original\nchanged-by-1\n"
