"""A small Kubernetes that does not run."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.waiting import block_until
from tony.cli.commands import mini
from tony.errors import InfraError, UserError
from tony.jobs import cluster_jobs
from tony.linux.process import with_marker
from tony.mini.cluster import MiniCluster
from tony.mini.kubernetes import cluster as kubernetes_cluster
from tony.mini.kubernetes.cluster import KubernetesCluster
from tony.mini.kubernetes.layout import CONTROL_PLANE
from tony.model.state_directory import Home


def test_a_folder_that_the_node_would_hide(tmp_path: Path) -> None:
    cluster = KubernetesCluster(Home(Path("/var/lib/user/.tony")), {})
    with pytest.raises(UserError, match=r"cannot be in /var/lib/user/.*: /var is another folder"):
        cluster.start((), print)


def test_options_of_hadoop_are_refused() -> None:
    result = CliRunner().invoke(mini.command, ["start", "--kubernetes", "--datanodes", "2"])
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == "--datanodes is for Hadoop; with --kubernetes it has no meaning"


def test_no_cluster(tmp_path: Path) -> None:
    cluster = KubernetesCluster(Home(tmp_path / "home"), {})
    assert (None, False, 0) == (cluster.status(), cluster.is_running, cluster.stop())
    assert not cluster.home.path.exists()


def test_a_stop_cleans_up_after_a_crash(tmp_path: Path) -> None:
    """Processes are known by their environment, whatever the files say."""
    cluster = KubernetesCluster(Home(tmp_path / "home"), {})
    cluster.places.path.mkdir(parents=True)
    marker = cluster.places.marker
    name, _, value = marker.rstrip("\0").partition("=")
    with subprocess.Popen(["sleep", "600"], env={**os.environ, name: value}) as orphan:
        block_until(lambda: bool(with_marker(marker)))  # the kernel shows its environment only after its start
        assert not cluster.stop()
        assert orphan.wait() < 0
    assert with_marker(marker) == []
    assert list(cluster.home.path.iterdir()) == []


@pytest.mark.parametrize("words", [("stop",), ("start", "--kubernetes")])
def test_jobs_on_it_are_killed_first_and_their_ends_recorded_last(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before another one is started where one has crashed."""
    calls: list[str] = []

    @contextlib.contextmanager
    def end_jobs(_: Home, kubeconfig: Path, notice: object, *, is_running: bool) -> Iterator[None]:
        calls.append(f"kill jobs of {kubeconfig}, running: {is_running}")
        yield
        assert kubeconfig.parent.exists()  # followers look there
        calls.append("record ends")

    monkeypatch.setenv("TONY_HOME", str(tmp_path))
    cluster = KubernetesCluster(Home(tmp_path), {})
    cluster.places.path.mkdir(parents=True)
    monkeypatch.setattr(cluster_jobs, "end_jobs", end_jobs)
    monkeypatch.setattr(KubernetesCluster, "_kill", lambda _: calls.append("stop"))
    monkeypatch.setattr(KubernetesCluster, "_start", lambda *_: calls.append("start"))
    monkeypatch.setattr(MiniCluster, "stop", lambda *_: 0)
    monkeypatch.setattr(kubernetes_cluster, "fetch", lambda *_: (None, None))
    result = CliRunner().invoke(mini.command, words)
    assert (result.exit_code == 0) == (words == ("stop",))  # no cluster is there to talk to after the start
    assert calls[:3] == [f"kill jobs of {cluster.kubeconfig}, running: False", "stop", "record ends"]
    assert ("start" in calls) == (words != ("stop",))
    assert not cluster.places.path.exists()


@pytest.mark.parametrize("count", [0, 101])
def test_a_number_of_nodes_that_cannot_be(count: int, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--nodes {count}: expected a number from 1 to 100"):
        KubernetesCluster(Home(tmp_path), {}).start((), print, count)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("kill", "nm1"), "no daemon or node nm1 in this cluster; there are: etcd, kube-apiserver, "),
        (("restart", "kubelet2"), "no daemon or node kubelet2 in this cluster"),
        (("kill", "mini"), "mini has the control plane, too; stop all with: tony mini stop"),
    ],
)
def test_daemons_that_are_not_there(
    words: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONY_HOME", str(tmp_path))
    monkeypatch.setattr(KubernetesCluster, "is_running", True)
    result = CliRunner().invoke(mini.command, words)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_it_is_stopped_though_hadoop_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise InfraError("a daemon does not end")

    monkeypatch.setenv("TONY_HOME", str(tmp_path))
    monkeypatch.setattr(MiniCluster, "stop", refuse)
    cluster = KubernetesCluster(Home(tmp_path), {})
    cluster.places.path.mkdir(parents=True)
    result = CliRunner().invoke(mini.command, ["stop"])
    assert str(result.exception) == "a daemon does not end"
    assert not cluster.places.path.exists()


def test_status_after_all_daemons_died(tmp_path: Path) -> None:
    cluster = KubernetesCluster(Home(tmp_path / "home"), {})
    cluster.places.path.mkdir(parents=True)
    found = cluster.status()
    assert found is not None
    assert not found.running
    assert {"dead"} == {daemon.state for daemon in found.daemons}
    assert f"{', '.join(CONTROL_PLANE)}, containerd, kubelet are dead" in str(found.waiting_for)
