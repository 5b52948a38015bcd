"""The local scheduler as its users meet it: memory, GPUs, waiting in line, TLS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


def test_two_jobs_never_hold_one_gpu(lab: Lab) -> None:
    """The second job waits for the first, names it, and runs when the first has ended."""
    text = 'command = "sleep 3600"\nstop_grace = "1s"\n[roles.worker]\ngpus = 3\n[scheduler.local]\ngpus = 4\n'
    first = lab.detach(lab.job_file(text))
    lab.wait(first, "running")
    second = lab.detach(lab.job_file(text.replace("sleep 3600", "echo got $CUDA_VISIBLE_DEVICES")))
    queued = lab.wait(second, "queued")
    assert first in queued["waiting"]
    assert lab.tony("kill", first).returncode == 0
    assert lab.wait(second)["state"] == "succeeded"


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
    lab.wait_removed(job)
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
