"""Problems with kubeconfig files are those of the settings that name them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.schedulers.kubernetes.fake_cluster import write_kubeconfig
from tony.kube.kubeconfig import KubeconfigError
from tony.kube.service_account import is_in_pod, load_service_account
from tony.schedulers.kubernetes import cluster_clients
from tony.schedulers.kubernetes.cluster_clients import create_client, find_cluster_settings
from tony.schedulers.kubernetes.settings import KubernetesSettings


def find_problem(settings: KubernetesSettings) -> tuple[str, str | None, str]:
    with pytest.raises(KubeconfigError) as caught:
        create_client(settings)
    (problem,) = caught.value.problems
    return problem.key, problem.value, problem.message


def test_a_context_of_a_job_that_does_not_exist(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://10.0.0.1:6443")
    found = find_problem(KubernetesSettings(kubeconfig=path, context="prod"))
    assert found == ("scheduler.kubernetes.context", "prod", f"{path}: there is no such context; known: c")


def test_a_file_of_a_job_that_does_not_exist(tmp_path: Path) -> None:
    key, value, _ = find_problem(KubernetesSettings(kubeconfig=tmp_path / "none"))
    assert (key, value) == ("scheduler.kubernetes.kubeconfig", str(tmp_path / "none"))


def test_a_pod_without_a_kubeconfig_file_uses_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("token", "t"), ("ca.crt", ""), ("namespace", "ml")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cluster_clients, "is_in_pod", partial(is_in_pod, mount=tmp_path))
    monkeypatch.setattr(cluster_clients, "load_service_account", partial(load_service_account, mount=tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    client = create_client(KubernetesSettings())
    assert (client.access.server, client.namespace) == ("https://10.0.0.1:443", "ml")
    pinned = find_cluster_settings(KubernetesSettings(namespace="other"))
    assert pinned == {"context": "", "namespace": "other"}
    assert create_client(KubernetesSettings(namespace="other")).namespace == "other"
    (tmp_path / "token").unlink()
    assert "there is no such kubeconfig file" in find_problem(KubernetesSettings())[2]


def test_a_current_context_is_that_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("current-context: x")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert find_problem(KubernetesSettings())[:2] == ("context", "x")
