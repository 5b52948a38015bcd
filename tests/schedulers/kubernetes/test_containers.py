"""The pod of a task, seen from within."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.model.codec import to_plain
from tony.schedulers.kubernetes import containers
from tony.schedulers.kubernetes.containers import KubernetesExecutorContainer
from tony.schedulers.kubernetes.launch_payload import CREDENTIALS_KEY, encode_payload
from tony.testing.sample_jobs import build_credentials


def test_programs_get_the_variables_of_their_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the image, and of what the cluster adds, but not tony's own."""
    (tmp_path / CREDENTIALS_KEY).write_bytes(encode_payload(to_plain(build_credentials())))
    monkeypatch.setattr(containers, "SECRET", tmp_path)
    monkeypatch.setattr(containers, "WORK", tmp_path)
    for name, value in {
        "TONY_POD_NAME": "p",
        "TONY_POD_IP": "10.0.0.1",
        "TONY_NODE_NAME": "node-1",
        "TONY_AM_ADDRESS": "tls:10.0.0.2:7070",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    }.items():
        monkeypatch.setenv(name, value)
    container = KubernetesExecutorContainer()
    found = container.variables()
    assert (found["LD_LIBRARY_PATH"], found["TONY_NODE_NAME"]) == ("/usr/local/cuda/lib64", "node-1")
    assert [name for name in found if name.startswith("TONY_")] == ["TONY_NODE_NAME"]
    assert container.copies_output
    monkeypatch.setenv("TONY_NO_POD_LOGS", "true")
    assert not KubernetesExecutorContainer().copies_output
