"""What goes wrong while a cluster starts, with daemons that are scripts; and what is written down of one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

import tony
from tests.mini.conftest import Machine
from tests.support.waiting import block_until
from tony.cli.commands import mini
from tony.errors import InfraError, RecordError, UserError
from tony.linux.process import with_marker
from tony.mini import cluster_state, conf_dir
from tony.mini.cluster import MiniCluster
from tony.mini.cluster_state import ClusterState, Process
from tony.mini.daemons import MARKER
from tony.mini.layout import ClusterLayout
from tony.mini.options import HadoopProperty, Label, MiniOptions
from tony.mini.processes import log_tail
from tony.mini.state_lock import lock_state_directory
from tony.model.state_directory import Home


@pytest.fixture
def cluster(machine: Machine) -> MiniCluster:
    machine.fill_cache()
    return MiniCluster(Home(machine.folder / "home"), machine.environment)


def test_a_taken_port(machine: Machine, cluster: MiniCluster) -> None:
    """Other ports are tried, twice; nothing is left running."""
    machine.install_java(daemon="echo 'java.net.BindException: Port in use: 127.0.0.1:1'; exit 1")
    notices: list[str] = []
    with pytest.raises(InfraError, match="BindException"):
        cluster.start(MiniOptions(nodes=1), notices.append)
    assert 2 == len(notices)
    assert notices[0].endswith(": trying other ports")
    assert [] == with_marker(f"{MARKER}={cluster.places.path}")


def test_a_daemon_that_dies(machine: Machine, cluster: MiniCluster) -> None:
    """Told with the end of its log, frames of stack traces left out."""
    machine.install_java(daemon="printf 'FATAL it broke\\n\\tat org.Some.frame(Some.java:1)\\n'; exit 1")
    with pytest.raises(InfraError) as caught:
        cluster.start(MiniOptions(nodes=1), print)
    lines = str(caught.value).splitlines()
    assert re.search(r"the \w+ \((nn|dn1|rm|nm1)\) died; end of ", lines[0])  # all die at once
    assert ["FATAL it broke"] == lines[1:]
    assert conf_dir(cluster.home) is None
    assert 0 == cluster.stop()
    assert [] == list(cluster.home.path.iterdir())


def test_one_that_is_never_ready(machine: Machine, cluster: MiniCluster) -> None:
    """Says what was waited for, and ends all."""
    machine.install_java()
    with pytest.raises(InfraError, match=r"was not ready after 0 s: the NameNode does not respond"):
        cluster.start(MiniOptions(nodes=1), print, timeout=0.3)
    assert [] == with_marker(f"{MARKER}={cluster.places.path}")


def test_a_format_that_fails(machine: Machine, cluster: MiniCluster) -> None:
    """What had been started by then is ended."""
    machine.install_java(format_code=1)
    with pytest.raises(InfraError, match=r"formatting the NameNode failed; see .*format\.log"):
        cluster.start(MiniOptions(nodes=1), print)
    assert [] == with_marker(f"{MARKER}={cluster.places.path}")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_start_that_is_ended(machine: Machine, cluster: MiniCluster, number: int, code: int) -> None:
    """By Ctrl-C, or otherwise: nothing is left of it."""
    machine.install_java()
    source = str(Path(tony.__file__).parents[1])
    environ = {**machine.environment, "TONY_HOME": str(cluster.home.path), "PYTHONPATH": source}
    with subprocess.Popen([sys.executable, "-m", "tony", "mini", "start"], env=environ) as starting:
        try:
            block_until(lambda: any(line.endswith("DataNode") for line in machine.asked))
            starting.send_signal(number)
            assert code == starting.wait(60)
        finally:
            starting.kill()
    assert [] == with_marker(f"{MARKER}={cluster.places.path}")
    assert [] == list(cluster.home.path.iterdir())


def test_a_folder_in_which_hadoop_cannot_live(machine: Machine) -> None:
    """Its lists are divided by blanks, commas and colons."""
    cluster = MiniCluster(Home(machine.folder / "my home"), machine.environment)
    with pytest.raises(UserError, match=r"Hadoop cannot use the path .*my home/mini: it may contain only letters"):
        cluster.start(MiniOptions(), print)
    assert 0 == cluster.stop()
    assert not cluster.home.path.exists()


def test_one_at_a_time(machine: Machine, cluster: MiniCluster) -> None:
    """A second command is refused with the reason."""
    other = MiniCluster(cluster.home, machine.environment)
    with (
        lock_state_directory(cluster.home),
        pytest.raises(UserError, match="another tony mini is changing the cluster"),
    ):
        other.stop()
    assert 0 == other.stop()


def test_no_cluster(cluster: MiniCluster) -> None:
    """Commands that need one say how one gets it."""
    commands: list[Callable[[], object]] = [cluster.wait, partial(cluster.kill, "rm"), partial(cluster.restart, "rm")]
    for ask in commands:
        with pytest.raises(UserError, match=r"no cluster is running in .*; start one with: tony mini start"):
            ask()
    assert not cluster.status().running


def test_options_round_trip(tmp_path: Path) -> None:
    options = MiniOptions(
        settings=(HadoopProperty.read("a=b"), HadoopProperty.read("nm1:c=d")),
        labels=(Label.read("gpu=nm1,nm2"),),
        path="/bin",
    )
    written = ClusterState(
        options=options,
        java="/java",
        jars="/jars",
        path="/bin",
        ports={"nn.rpc": 1},
        processes={"nn": Process(pid=os.getpid(), started=0)},
        ready=True,
    )
    places = ClusterLayout(tmp_path)
    cluster_state.save(places, written)
    assert written == cluster_state.load(places)
    assert [places.state] == list(tmp_path.iterdir())
    places.state.write_text("{}")
    with pytest.raises(RecordError, match=r"state.json is damaged \(.*\); stop the cluster with: tony mini stop"):
        cluster_state.load(places)


def test_a_later_process_of_the_same_pid_is_another(tmp_path: Path) -> None:
    assert not Process(pid=os.getpid(), started=1).living


def test_last_words(tmp_path: Path) -> None:
    """The last lines that say something, each of bounded length."""
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n\tat a.b.C\n" for n in range(100)) + "x" * 1000 + "\nSHUTDOWN_MSG: bye\n")
    words = log_tail(log)
    assert 12 == len(words)
    assert ("line 89", "x" * 400) == (words[0], words[-1])
    assert [] == log_tail(tmp_path / "none")


def test_the_start_warns_of_other_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cluster without passwords on a machine of several users is an open door."""

    class StartedCluster:
        conf = tmp_path

        def start(self, options: MiniOptions, notice: Callable[[str], None]) -> StartedCluster:
            return self

        def address(self, port: str) -> str:
            return "127.0.0.1:1"

    monkeypatch.setattr(mini, "_cluster", StartedCluster)
    result = CliRunner().invoke(mini.command, ["start"])
    assert result.exit_code == 0
    assert "any local user can run programs as you" in result.output
