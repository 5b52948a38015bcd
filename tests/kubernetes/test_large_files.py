"""A source that is too large for the API: through a claim, once, and only as it was sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.change_detection import KUBERNETES
from tests.kubernetes.lab import KubernetesLab
from tony.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from tony.mini.kubernetes.cluster_files import build_data_claim
from tony.schedulers.kubernetes.shared_objects import MAX_STAGED_BYTES, OBJECT_LABELS

pytestmark = [pytest.mark.on_change(*KUBERNETES), pytest.mark.slow, pytest.mark.e2e]

PROGRAM = """
import os, pathlib, time
out = pathlib.Path(os.environ["OUT"])
(out / "up").write_text(str(pathlib.Path("data.bin").stat().st_size))
while not (out / "go").exists():
    time.sleep(0.05)
"""


def create_claim(lab: KubernetesLab, folder: Path) -> None:
    """Create a claim `data` in the user's namespace."""
    folder.mkdir()
    folder.chmod(0o777)
    (_, volume), (_, claim) = build_data_claim(lab.cluster.places)
    volume["metadata"]["name"] = claim["spec"]["volumeName"] = lab.namespace
    volume["spec"]["hostPath"]["path"] = str(folder)
    volume["spec"]["claimRef"]["namespace"] = lab.namespace
    lab.client.create(PERSISTENT_VOLUMES, volume)
    lab.client.create(PERSISTENT_VOLUME_CLAIMS, claim)


def test_a_large_source(lab: KubernetesLab) -> None:
    """Its objects are removed while a job runs, which is not harmed, and sent again; poisoned, they are refused."""
    folder = lab.out / "claim"
    create_claim(lab, folder)
    try:
        job = lab.roles(PROGRAM)
        data = os.urandom(MAX_STAGED_BYTES)
        (job.parent / "data.bin").write_bytes(data)
        staging = ("--set", "scheduler.kubernetes.staging=pvc:data/files")
        refused = lab.submit(job)
        assert refused.returncode == 2
        assert "the API of the cluster takes 8 MiB" in refused.stderr

        first = lab.detach(job, *staging)
        lab.wait_wrote("up", str(len(data)))
        (staged,) = (folder / "files").iterdir()
        staged.unlink()
        lab.client.delete_collection(CONFIG_MAPS, labels=OBJECT_LABELS)
        (lab.out / "go").touch()
        assert lab.wait(first)["state"] == "succeeded"

        second = lab.detach(job, *staging)
        assert lab.wait(second)["state"] == "succeeded"
        staged.chmod(0o644)
        staged.write_bytes(b"poison")
        third = lab.detach(job, *staging, "--set", "max_restarts=0")
        assert lab.wait(third)["state"] == "failed"
        assert "was changed in the claim data" in str(lab.failure(third))
        assert not [pod for pod in lab.client.list(PODS).items if pod["metadata"]["name"].endswith("-staging")]
    finally:
        lab.client.delete(PERSISTENT_VOLUME_CLAIMS, "data")
        lab.client.delete(PERSISTENT_VOLUMES, lab.namespace)
