"""A source in a registry of images: the node pulls it, and pods mount it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.change_detection import KUBERNETES
from tests.kubernetes.lab import KubernetesLab
from tony.schedulers.kubernetes.shared_objects import MAX_STAGED_BYTES

pytestmark = [pytest.mark.on_change(*KUBERNETES, "oci"), pytest.mark.slow, pytest.mark.e2e]

PROGRAM = """
import pathlib
print(pathlib.Path("data.bin").stat().st_size)
"""


def test_a_large_source_in_a_registry(lab: KubernetesLab) -> None:
    """A second job pushes nothing, and its node pulls nothing."""
    lab.enter_node()
    server = [*lab.prefix, sys.executable, "-m", "tests.support.fake_registry"]
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as registry:
        assert registry.stdout
        address = registry.stdout.readline().strip()
        job = lab.roles(PROGRAM)
        (job.parent / "data.bin").write_bytes(os.urandom(MAX_STAGED_BYTES))
        for _ in range(2):
            done = lab.submit(job, "--set", f"scheduler.kubernetes.staging=oci://{address}/ann/files")
            assert done.returncode == 0, done.stdout + done.stderr
            assert f"worker:0 | {MAX_STAGED_BYTES}\n" in done.stdout
        output, _ = registry.communicate()
    requests = json.loads(output)
    blobs = [(method, path.rpartition("/")[0]) for method, path in requests if "/blobs/sha256:" in path]
    assert blobs == [("HEAD", "/v2/ann/files/blobs"), *[("GET", "/v2/ann/files/blobs")] * 2]  # config and layer
    assert requests[-1] == requests[0]
    assert requests[0][0] == "HEAD"
