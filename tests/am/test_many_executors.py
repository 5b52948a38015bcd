"""Many executors at once before a real application master in a process of its own, as the bench has them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.child_modules import module_command
from tests.support.executor_load import LoadProfile
from tony import clock
from tony.client.credential_creation import make_credentials
from tony.frameworks import registry
from tony.history.event_log import read, segments
from tony.history.job_record import read_summary
from tony.history.replay import replay
from tony.model.codec import to_plain
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import TlsMode
from tony.model.state_directory import JobFolder
from tony.model.states import JobState
from tony.protocol.launch import JobCredentials
from tony.testing.sample_jobs import build_prepared_job

#: Far more than anything here takes on a loaded machine.
CEILING = 120.0
TASKS = 700


def job_of(framework: str) -> JobSpec:
    return JobSpec(framework=framework, command="true", roles={"worker": Role(instances=TASKS)}, tls=TlsMode.ALWAYS)


def submitted(home: Path, framework: str) -> tuple[JobFolder, JobCredentials]:
    """A job as a client leaves it to its application master."""
    job = build_prepared_job(home, job_of(framework), job_id="test-1")
    record = replace(job.record, submitted=clock.wall(), framework_module=registry.home_of(framework))
    credentials = make_credentials(tls=True)
    job.folder.secret_job.write_text(json.dumps(to_plain(record)))
    job.folder.credentials.write_text(json.dumps(to_plain(credentials)))
    return job.folder, credentials


@contextmanager
def process(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of ours, gone at the end."""
    running = subprocess.Popen(module_command(module, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def granted(folder: JobFolder) -> str:
    """The application master's address, once every task has its container."""
    until = time.monotonic() + CEILING
    while not folder.am.exists() or folder.events(1).read_bytes().count(b'"granted"') < TASKS:
        assert time.monotonic() < until
        time.sleep(0.01)
    return str(json.loads(folder.am.read_text())["address"])


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_hundreds_come_start_end_and_leave_together(tmp_path: Path, framework: str) -> None:
    """No connection is refused, nothing is lost, the log replays; with TensorFlow each task is sent the addresses of
    all."""
    folder, credentials = submitted(tmp_path, framework)
    with (
        process("instant_allocator", str(folder.path)) as master,
        process("executor_load") as crowd,
    ):
        casting = LoadProfile(
            address=granted(folder),
            credentials=credentials.executors,
            role="worker",
            first=0,
            count=TASKS,
            understudy=True,
        )
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        told = []
        for order in (json.dumps(to_plain(casting)), "join", "register", "", "exit"):
            if order:
                crowd.stdin.write(order.encode() + b"\n")
                crowd.stdin.flush()
            if not order.startswith("{"):
                told.append(json.loads(crowd.stdout.readline()))
        assert master.wait(CEILING) == 0
    assert [moment["what"] for moment in told] == ["joined", "told", "started", "left"]
    summary = read_summary(folder)
    assert summary is not None
    assert (summary.state, summary.exit_code) == (JobState.SUCCEEDED, 0)
    assert replay("test-1", job_of(framework), read(segments(folder.path))).mismatch is None
    # The whole list would be 18 KB for each.
    assert told[1]["received"] < TASKS * (8000 if framework == "tensorflow" else 1000)
