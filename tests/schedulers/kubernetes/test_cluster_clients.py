"""Problems with kubeconfig files are those of the settings that name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schedulers.kubernetes.fake_cluster import write_kubeconfig
from tony.kube.kubeconfig import KubeconfigError
from tony.schedulers.kubernetes.cluster_clients import create_client
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


def test_a_current_context_is_that_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("current-context: x")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert find_problem(KubernetesSettings())[:2] == ("context", "x")
