"""Files and histories in S3: the client has keys in its environment, pods in a Secret."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from tests.change_detection import KUBERNETES
from tests.kubernetes.lab import KubernetesLab
from tony.kube.resources import SECRETS
from tony.schedulers.kubernetes.shared_objects import MAX_STAGED_BYTES

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

PROGRAM = """
import os, pathlib, time
out = pathlib.Path(os.environ["OUT"])
(out / "up").write_text(str(pathlib.Path("data.bin").stat().st_size))
print("is up", flush=True)
while not (out / "go").exists():
    time.sleep(0.05)
"""


@contextlib.contextmanager
def serve_s3(lab: KubernetesLab) -> Iterator[tuple[Mapping[str, str], list[list[str]]]]:
    """Serve on the node; give the variables of its user, and method and path of each request at the end."""
    address = lab.enter_node()
    server = [*lab.prefix, sys.executable, "-m", "tests.support.fake_s3", address]
    requests: list[list[str]] = []
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as s3:
        assert s3.stdout
        variables = json.loads(s3.stdout.readline())
        lab.env |= variables
        data = {key: base64.b64encode(value.encode()).decode() for key, value in variables.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-keys"}, "data": data}
        lab.client.create(SECRETS, secret)
        yield variables, requests
        output, _ = s3.communicate()
    requests += json.loads(output)


def build_options(**settings: str) -> list[str]:
    settings |= {"s3_secret": "s3-keys"}
    return [word for key, value in settings.items() for word in ("--set", f"scheduler.kubernetes.{key}={value}")]


def test_a_large_source_in_s3(lab: KubernetesLab) -> None:
    """A second job sends nothing."""
    with serve_s3(lab) as (_, requests):
        job = lab.roles(PROGRAM)
        (job.parent / "data.bin").write_bytes(os.urandom(MAX_STAGED_BYTES))
        (lab.out / "go").touch()
        for _ in range(2):
            assert lab.wait_ended(lab.detach(job, *build_options(staging="s3://bucket/ann"))) == "succeeded"
            assert lab.wrote("up") == str(MAX_STAGED_BYTES)
            (lab.out / "up").unlink()
    assert [method for method, _ in requests] == ["HEAD", "PUT", "GET", "HEAD", "GET"]


def test_a_history_in_s3(lab: KubernetesLab) -> None:
    """The next AM attempt continues from it, and another machine reads it when the job has ended."""
    with serve_s3(lab) as (variables, requests):
        job_file = lab.roles(PROGRAM)
        (job_file.parent / "data.bin").touch()
        job = lab.detach(job_file, *build_options(history="s3://bucket/ann"))
        lab.wait_wrote("up", "0")
        os.kill(lab.master_of(job), signal.SIGKILL)
        lab.wait_attempt(job, 2)
        (lab.out / "go").touch()
        assert lab.wait(job)["state"] == "succeeded"
        replayed = lab.tony("replay", job)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        other = lab.elsewhere("other")
        other.enter_node()
        other.env |= variables
        status = other.status(job)
        assert (status["state"], status["attempt"], status["session"]) == ("succeeded", 2, 1)
        assert "is up" in other.tony("logs", job).stdout
        events = other.tony("events", job).stdout
        assert events == lab.tony("events", job).stdout
        assert "worker:0" in events
        maps = [name for name in lab.list_objects(job) if name.startswith(f"configmaps/{job}.")]
        assert maps == []
    paths = {path.removeprefix(f"/bucket/ann/jobs/{job}/") for method, path in requests if method == "PUT"}
    assert {"events.1.jsonl.000000", "events.1.jsonl.000001", "events.2.jsonl.000000", "summary.json"} <= paths
