"""The configuration of a small Kubernetes."""

from __future__ import annotations

import json
from pathlib import Path

from tony.kube.kubeconfig import load_cluster_access
from tony.mini.kubernetes.cluster_files import build_data_claim, write_cluster_files
from tony.mini.kubernetes.daemons import build_control_plane_commands, build_node_commands
from tony.mini.kubernetes.layout import CONTROL_PLANE, KubernetesLayout, Software


def test_files_and_commands_fit_together(tmp_path: Path) -> None:
    """Clients and daemons find the API server; only the user can read the token; each daemon finds its files."""
    places, programs = KubernetesLayout(tmp_path / "mini"), Software(tmp_path / "software")
    write_cluster_files(places, programs, 6443, 2)
    places.certificates.mkdir()
    places.authority.write_text("certificate")
    access = load_cluster_access([places.kubeconfig])
    assert ("https://127.0.0.1:6443", "certificate") == (access.server, access.authority)
    assert "https://10.96.0.1" == load_cluster_access([places.daemons_kubeconfig]).server
    assert {0o600} == {path.stat().st_mode & 0o777 for path in places.path.iterdir() if path.is_file()} - {0o644}
    assert places.token.read_text() in places.tokens.read_text()
    commands = build_control_plane_commands(places, programs)
    assert set(CONTROL_PLANE) == set(commands)
    assert f"--token-auth-file={places.tokens}" in commands["kube-apiserver"]
    assert "--runtime-config=scheduling.k8s.io/v1alpha2=true" in commands["kube-apiserver"]  # PodGroup
    for daemon in ("kube-scheduler", "kube-controller-manager"):
        assert f"--kubeconfig={places.daemons_kubeconfig}" in commands[daemon]
    for node in places.list_nodes():
        commands = build_node_commands(places, node, programs)
        assert set(node.daemons) == set(commands)
        kubelet = commands[f"kubelet{node.suffix}"]
        assert {f"--config={node.kubelet_config}", f"--kubeconfig={places.daemons_kubeconfig}"} <= set(kubelet)
        config = json.loads(node.kubelet_config.read_text())
        assert (f"/{node.cgroup}", node.ip) == (config["cgroupRoot"], config["address"])


def test_pods_leave_a_lost_node_only_where_there_is_another_one(tmp_path: Path) -> None:
    for nodes, expected in ((1, False), (2, True)):
        places, programs = KubernetesLayout(tmp_path / str(nodes)), Software(tmp_path / "software")
        write_cluster_files(places, programs, 6443, nodes)
        commands = build_control_plane_commands(places, programs)
        assert expected == ("--default-not-ready-toleration-seconds=3" in commands["kube-apiserver"])
        assert expected == ("--node-monitor-grace-period=10s" in commands["kube-controller-manager"])


def test_nodes_share_nothing(tmp_path: Path) -> None:
    """Names, addresses, control groups and files."""
    places = KubernetesLayout(tmp_path / "mini")
    write_cluster_files(places, Software(tmp_path / "software"), 6443, 3)
    nodes = places.list_nodes()
    assert ["mini", "mini2", "mini3"] == [node.name for node in nodes]
    assert ["containerd3", "kubelet3"] == nodes[2].daemons
    for values in ([node.ip for node in nodes], [node.cgroup for node in nodes], [node.bridge_mac for node in nodes]):
        assert len(set(values)) == len(nodes)
    ranges = [json.loads((node.cni / "mini.conflist").read_text())["plugins"][0]["ipam"]["ranges"] for node in nodes]
    assert "10.244.2.2" == ranges[2][0][0]["rangeStart"]


def test_pods_of_any_user_write_to_the_claim(tmp_path: Path) -> None:
    """Its volume is a folder of the cluster; users of this machine cannot get there."""
    places = KubernetesLayout(tmp_path / "mini")
    write_cluster_files(places, Software(tmp_path / "software"), 6443, 1)
    (_, volume), (_, claim) = build_data_claim(places)
    folder = Path(volume["spec"]["hostPath"]["path"])
    assert (0o777, 0o700) == (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777)
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"]
