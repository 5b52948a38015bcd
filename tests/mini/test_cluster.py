"""A real Hadoop is started, harmed, mended and ended, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tony
from tests.facts import mentions
from tests.mini_clusters import options
from tests.support.waiting import block_until
from tony.errors import InfraError, UserError
from tony.linux.process import is_alive, with_marker
from tony.mini import conf_dir
from tony.mini.cluster import MiniCluster
from tony.mini.daemon_requests import send_request
from tony.mini.daemons import MARKER
from tony.model.state_directory import Home

SOURCE = str(Path(tony.__file__).parents[1])


def command(home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "TONY_HOME": str(home), "PYTHONPATH": SOURCE, **variables}
    return subprocess.run(
        [sys.executable, "-m", "tony", "mini", *words], env=environ, capture_output=True, text=True, check=False
    )


def ask(cluster: MiniCluster, port: str, path: str) -> Any:
    return json.loads(send_request(cluster.state.address(port), "GET", path))


def test_a_cluster_is_ready(cluster: MiniCluster) -> None:
    """Every daemon runs, HDFS takes files, and commands of the same home find the configuration."""
    found = cluster.status()
    assert (True, None) == (found.running, found.waiting_for)
    assert ["nn", "rm", "dn1", "nm1", "nm2", "nm3"] == [daemon.name for daemon in found.daemons]
    assert {"running"} == {daemon.state for daemon in found.daemons}
    assert cluster.conf == conf_dir(cluster.home)
    answer = command(cluster.home.path, "env")
    assert (0, f"export HADOOP_CONF_DIR={cluster.conf}\n") == (answer.returncode, answer.stdout)
    answer = command(cluster.home.path, "status", "--json")
    assert [daemon.pid for daemon in found.daemons] == [each["pid"] for each in json.loads(answer.stdout)["daemons"]]


def test_nodes_have_names_and_sizes_of_their_own(cluster: MiniCluster) -> None:
    """Three hosts of 4 GB and 8 vcores; two pretended GPUs on the first."""
    nodes = ask(cluster, "rm.web", "/ws/v1/cluster/nodes")["nodes"]["node"]
    assert {"127.0.1.1", "127.0.1.2", "127.0.1.3"} == {node["nodeHostName"] for node in nodes}
    assert {(4096, 8)} == {(node["totalResource"]["memory"], node["totalResource"]["vCores"]) for node in nodes}
    gpus = {
        node["nodeHostName"]: resource["value"]
        for node in nodes
        for resource in node["totalResource"]["resourceInformations"]["resourceInformation"]
        if resource["name"] == "yarn.io/gpu"
    }
    assert {"127.0.1.1": 2, "127.0.1.2": 0, "127.0.1.3": 0} == gpus


def test_daemons_listen_on_loopback_only(cluster: MiniCluster) -> None:
    pids = {process.pid for process in cluster.state.find_running().values()}
    inodes = {
        os.readlink(f"/proc/{pid}/fd/{number}")[len("socket:[") : -1]
        for pid in pids
        for number in os.listdir(f"/proc/{pid}/fd")
        if os.path.lexists(f"/proc/{pid}/fd/{number}")
    }
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = {line[1][:8] for line in lines if line[3] == "0A" and line[9] in inodes}
    assert addresses
    assert {"7F"} == {address[6:] for address in addresses}
    six = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    assert [] == [line for line in six if line[3] == "0A" and line[9] in inodes]


@pytest.mark.on_change("mini")
def test_a_killed_daemon_can_be_restarted(cluster: MiniCluster) -> None:
    """With the same ports; meanwhile the status shows it."""
    name = "nm2"
    before = cluster.state
    killed = cluster.kill(name)
    assert killed == before.processes[name]
    assert cluster.kill(name) is None
    found = cluster.status()
    assert mentions(found.waiting_for, name, f"tony mini restart {name}")
    assert "dead" == next(daemon.state for daemon in found.daemons if daemon.name == name)
    cluster.restart(name)
    assert cluster.status().waiting_for is None
    after = cluster.state
    assert before.ports == after.ports
    assert before.processes[name] != after.processes[name]


@pytest.mark.on_change("mini")
def test_several_come_back_one_after_the_other(cluster: MiniCluster) -> None:
    """A restart does not wait for those that are still dead: it names them."""
    for name in ("nm1", "nm2"):
        cluster.kill(name)
    assert ["nm2"] == list(cluster.restart("nm1"))
    assert [] == list(cluster.restart("nm2"))
    assert cluster.status().waiting_for is None


@pytest.mark.on_change("mini")
def test_a_daemon_can_be_held(cluster: MiniCluster) -> None:
    """SIGSTOP and SIGCONT show what a hanging daemon does to others."""
    cluster.kill("nm1", signal.SIGSTOP)
    try:
        block_until(lambda: ("nm1", "stopped") in [(daemon.name, daemon.state) for daemon in cluster.status().daemons])
    finally:
        cluster.kill("nm1", signal.SIGCONT)
    cluster.wait()


def test_there_is_no_other_daemon(cluster: MiniCluster) -> None:
    """The sentence lists those that there are; a kind of which there is one needs no number."""
    with pytest.raises(UserError, match="unknown daemon 'nm4'; this cluster has nn, rm, dn1, nm1, nm2, nm3"):
        cluster.kill("nm4")
    with pytest.raises(UserError, match="a cluster is already running"):
        cluster.start(options(), print)


def test_a_start_and_a_stop(tmp_path: Path) -> None:
    """Ready, a second start refused; what runs is ended and told of, what wandered off too; no file is left."""
    home = tmp_path / "home"
    answer = command(home, "start", "--nodes", "1")
    try:
        assert 0 == answer.returncode, answer.stderr
        assert "Next: tony submit job.toml --scheduler yarn" in answer.stdout
        places = MiniCluster(Home(home), os.environ)
        pids = [process.pid for process in places.state.processes.values()]
        assert 2 == command(home, "start").returncode
        marker = f"{MARKER}={places.places.path}"
        orphan = subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: str(places.places.path)}, cwd="/")
        job = submitted(home, tmp_path)
    finally:
        answer = command(home, "stop")
    assert mentions(answer.stderr, "1 application", job)
    assert (0, "Stopped 4 daemons\n") == (answer.returncode, answer.stdout)
    assert -signal.SIGKILL == orphan.wait(10)
    assert [] == [pid for pid in pids if is_alive(pid)]
    assert [] == with_marker(marker)
    assert not places.places.path.exists()
    assert conf_dir(Home(home)) is None
    assert "no cluster was running\n" == command(home, "stop").stdout


def submitted(home: Path, folder: Path) -> str:
    """A job on the cluster that does not end by itself."""
    (folder / "job.toml").write_text('name = "long"\ncommand = "sleep 600"\n[roles.main]\nmemory = "128m"\n')
    words = (sys.executable, "-m", "tony", "submit", "job.toml", "--scheduler", "yarn", "--detach")
    others = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
    environ = {name: value for name, value in os.environ.items() if name not in others}
    done = subprocess.run(
        words,
        env={**environ, "TONY_HOME": str(home), "PYTHONPATH": SOURCE},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.on_change("mini")
def test_a_daemon_that_dies_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    """The end of its log is shown, the others are stopped, and the log stays until the next start or stop."""
    cluster = MiniCluster(Home(tmp_path / "home"), os.environ)
    wrong = {"yarn.scheduler.capacity.root.default.capacity": "50"}
    try:
        with pytest.raises(InfraError) as caught:
            cluster.start(options(wrong, nodes=1), print)
        assert "the ResourceManager (rm) died; end of" in str(caught.value)
        assert "Illegal capacity sum of 0.5 for children of queue root" in str(caught.value)
        assert [] == with_marker(f"{MARKER}={cluster.places.path}")
        assert cluster.places.find_log("rm").exists()
    finally:
        cluster.stop()
    assert not cluster.places.path.exists()


def test_daemons_are_stopped_despite_a_damaged_state_file(tmp_path: Path) -> None:
    """No readable file lists them."""
    cluster = MiniCluster(Home(tmp_path / "home"), os.environ)
    cluster.places.path.mkdir(parents=True)
    cluster.places.state.write_text("{")
    with subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: str(cluster.places.path)}) as orphan:
        try:
            block_until(lambda: with_marker(f"{MARKER}={cluster.places.path}"))  # the kernel shows it after the start
            assert 0 == cluster.stop()
            assert -signal.SIGKILL == orphan.wait(60)
        finally:
            orphan.kill()
    assert not cluster.places.path.exists()
