"""What `tony doctor` says of the cluster to which KUBECONFIG leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.facts import mentions
from tests.schedulers.kubernetes.fake_cluster import Cluster
from tony.model.health_check import Health
from tony.schedulers.kubernetes.health_checks import check_cluster


def test_what_jobs_need(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", cluster.settings["kubeconfig"])
    (check,) = check_cluster()
    assert (check.state, mentions(check.detail, "ml", "context c")) == (Health.OK, True)
    del cluster.api.objects["/api/v1/namespaces/ml/serviceaccounts", "tony"]
    (check,) = check_cluster()
    assert (check.state, mentions(check.remedy, "kubectl -n ml create serviceaccount tony")) == (Health.MISSING, True)
    cluster.rules = []
    (check,) = check_cluster()
    assert (check.state, mentions(check.remedy, "create pods")) == (Health.MISSING, True)


def test_without_a_kubeconfig_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said to users of other schedulers; one that KUBECONFIG names is missed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert list(check_cluster()) == []
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (check,) = check_cluster()
    assert check.state is Health.MISSING
