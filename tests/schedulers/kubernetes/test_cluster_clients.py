"""Problems with kubeconfig files are those of the settings that name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schedulers.kubernetes.fake_cluster import write_kubeconfig
from tony.kube import service_account
from tony.kube.kubeconfig import KubeconfigError
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
    monkeypatch.setattr(service_account, "MOUNT", tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    client = create_client(KubernetesSettings())
    assert (client.access.server, client.namespace) == ("https://10.0.0.1:443", "ml")
    pinned = find_cluster_settings(KubernetesSettings(namespace="other"))
    assert (pinned["kubeconfig"], pinned["namespace"]) == (str(tmp_path), "other")
    later = KubernetesSettings(kubeconfig=tmp_path, context=pinned["context"], namespace="other")
    write_kubeconfig(tmp_path, "https://10.0.0.9:6443")  # of another cluster: the job is not there
    assert create_client(later).access.server == "https://10.0.0.1:443"
    (tmp_path / "ca.crt").write_text("another")
    assert find_problem(later)[:2] == ("scheduler.kubernetes.context", pinned["context"])
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert "this process runs in no pod" in find_problem(later)[2]
    assert "there is no such kubeconfig file" in find_problem(KubernetesSettings())[2]


def test_a_current_context_is_that_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("current-context: x")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert find_problem(KubernetesSettings())[:2] == ("context", "x")
