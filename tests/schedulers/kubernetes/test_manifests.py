"""Pods of tasks that differ from those of the golden file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tony.schedulers.kubernetes.manifests import build_task_pod
from tony.schedulers.kubernetes.settings import KubernetesSettings
from tony.testing.sample_jobs import build_prepared_job, build_two_roles


def test_a_pod_avoids_nodes_on_which_tasks_have_failed(tmp_path: Path) -> None:
    """It may run there if there is no other node: else a cluster of one node would run nothing."""
    record = build_prepared_job(tmp_path, replace(build_two_roles(), scheduler="kubernetes")).record
    pod = build_task_pod(
        record,
        "worker",
        "worker-0",
        KubernetesSettings(image="python:3.12"),
        runtime=("0" * 64, 1),
        pieces={},
        am_address="tls:10.0.0.1:7070",
        owner="uid-1",
        memory=1 << 20,
        excluded=["bad"],
    )
    (preferred,) = pod["spec"]["affinity"]["nodeAffinity"].pop("preferredDuringSchedulingIgnoredDuringExecution")
    assert preferred["preference"]["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["bad"]}
    ]
    assert pod["spec"]["affinity"] == {"nodeAffinity": {}}
