"""The configuration of a small Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path

from tony.kube.kubeconfig import load_cluster_access
from tony.mini.kubernetes.cluster_files import build_data_claim, write_cluster_files
from tony.mini.kubernetes.daemons import build_commands
from tony.mini.kubernetes.layout import DAEMONS, KubernetesLayout, Software


def test_files_and_commands_fit_together(tmp_path: Path) -> None:
    """Clients and daemons find the API server; only the user can read the token; each daemon finds its files."""
    places, programs = KubernetesLayout(tmp_path / "mini"), Software(tmp_path / "software")
    write_cluster_files(places, programs, 6443)
    places.certificates.mkdir()
    places.authority.write_text("certificate")
    access = load_cluster_access([places.kubeconfig])
    assert ("https://127.0.0.1:6443", "certificate") == (access.server, access.authority)
    assert "https://10.96.0.1" == load_cluster_access([places.daemons_kubeconfig]).server
    assert {0o600} == {path.stat().st_mode & 0o777 for path in places.path.iterdir() if path.is_file()} - {0o644}
    assert places.token.read_text() in places.tokens.read_text()
    commands = build_commands(places, programs)
    assert set(DAEMONS) == set(commands)
    assert f"--config={places.kubelet_config}" in commands["kubelet"]
    assert f"--token-auth-file={places.tokens}" in commands["kube-apiserver"]
    assert f"/{places.cgroup}" == json.loads(places.kubelet_config.read_text())["cgroupRoot"]
    for daemon in ("kubelet", "kube-scheduler", "kube-controller-manager"):
        assert f"--kubeconfig={places.daemons_kubeconfig}" in commands[daemon]


def test_pods_of_any_user_write_to_the_claim(tmp_path: Path) -> None:
    """Its volume is a folder of the cluster; users of this machine cannot get there."""
    places = KubernetesLayout(tmp_path / "mini")
    write_cluster_files(places, Software(tmp_path / "software"), 6443)
    (_, volume), (_, claim) = build_data_claim(places)
    folder = Path(volume["spec"]["hostPath"]["path"])
    assert (0o777, 0o700) == (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777)
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"]
