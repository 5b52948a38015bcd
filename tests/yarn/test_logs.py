"""What programs print on a real cluster is seen while they run, from anywhere, and when everything has ended."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.change_detection import CLUSTER
from tests.mini_clusters import Clusters, options
from tests.yarn.lab import YarnLab, until, user
from tests.yarn.portals import history, seen
from tony.mini.cluster import MiniCluster

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Prints, waits for a file `go-<index>`, prints the rest; the last line has no end. A line is one write: followers show
#: one that is incomplete for a second.
TALKS = """
import os, time
task = os.environ["TASK_INDEX"]
os.write(1, f"up {task}\\n".encode())
while not os.path.exists(f"{os.environ['OUT']}/go-{task}"):
    time.sleep(0.05)
os.write(2, f"error {task}\\n".encode())
os.write(1, f"last {task}".encode())
"""


def shown(lab: YarnLab, name: str, *arguments: str | Path) -> tuple[subprocess.Popen[str], Path]:
    """Starts a command that follows; what it shows goes into a file."""
    path = lab.root / name
    line = " ".join(f"'{each}'" for each in arguments)
    lab.prefix = ("bash", "-c", f'exec "$0" {line} > {path} 2>&1')
    try:
        return lab.follow(), path
    finally:
        lab.prefix = ()


def wait_shown(path: Path, text: str) -> None:
    """Waits until a follower has shown a text."""
    until(lambda: path.exists() and text in path.read_text(), f"{path.name} shows {text!r}")


def test_output_is_seen_while_programs_run(lab: YarnLab) -> None:
    """By who submitted, by a second follower, and on another machine; to the last line, before the end is told."""
    following, screen = shown(
        lab, "screen", "submit", "--scheduler", "yarn", lab.roles(TALKS, "[roles.worker]\ninstances = 2\n")
    )
    wait_shown(screen, "up 0")
    wait_shown(screen, "up 1")
    job = lab.only_job()
    second, other_screen = shown(lab, "other-screen", "logs", "-f", job, "worker:1")
    away = lab.elsewhere("away")
    third, away_screen = shown(away, "screen", "logs", "-f", job)
    wait_shown(other_screen, "up 1")
    wait_shown(away_screen, "up 0")
    (lab.out / "go-0").touch()
    wait_shown(screen, "last 0")
    wait_shown(away_screen, "error 0")
    now = away.tony("logs", job, "worker:0", "--stdout")
    assert (now.returncode, now.stdout) == (0, "up 0\nlast 0\n")
    (lab.out / "go-1").touch()
    for process in (following, second, third):
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
    for path in (screen, away_screen):
        for text in ("up", "last", "error"):
            for task in range(2):
                (line,) = [line for line in path.read_text().splitlines() if line.endswith(f"{text} {task}")]
                assert f"worker:{task} | " in line
    *lines, end = other_screen.read_text().splitlines()
    assert lines == ["up 1", "error 1", "last 1"]
    for told in (end, screen.read_text()):
        assert f"job {job} (project) succeeded" in told


@pytest.fixture
def other_format(clusters: Clusters) -> MiniCluster:
    """A cluster that collects logs in the indexed format, and brings some every second."""
    roll = "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds"
    settings = {
        roll: "1",
        f"{roll}.min": "1",
        "yarn.log-aggregation.file-formats": "IFile",
        "yarn.log-aggregation.file-controller.IFile.class": (
            "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController"
        ),
    }
    return clusters.with_options(options(settings, nodes=1))


@pytest.fixture
def no_aggregation(clusters: Clusters) -> MiniCluster:
    return clusters.with_options(options({"yarn.log-aggregation-enable": "false"}, nodes=1))


def _run(folder: Path, cluster: MiniCluster) -> tuple[YarnLab, str]:
    lab = YarnLab(folder, cluster)
    done = lab.submit(lab.job('command = "echo hello; echo oh >&2"\n'))
    assert done.returncode == 0, done.stdout + done.stderr
    job = lab.only_job()
    lab.wait_application(job)
    return lab, job


@pytest.mark.on_change(*CLUSTER, "executor", "jobs")
def test_the_indexed_format(tmp_path: Path, other_format: MiniCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs that the cluster collected in its other format are read as well, on pages as by commands."""
    lab, job = _run(tmp_path, other_format)
    done = lab.elsewhere("away").tony("logs", job)
    assert done.stdout == "hello\noh\n", done.stderr
    monkeypatch.setenv("HADOOP_CONF_DIR", str(other_format.conf))

    async def look() -> None:
        async with seen(tmp_path / "portal", [history()]) as portal:
            page = await portal.page(f"/job/{job}/logs", "hello")
            assert "is missing" not in page
            await portal.page(f"/job/{job}/logs?stream=err", "oh")

    asyncio.run(look())
    lab.close()


@pytest.mark.on_change(*CLUSTER, "executor", "jobs")
def test_logs_aggregated_while_a_job_runs(tmp_path: Path, other_format: MiniCluster) -> None:
    """Those that are included are, and of a job that includes none, none; the rest is aggregated in the end."""
    lab = YarnLab(tmp_path, other_format)
    file = lab.roles(TALKS, "[roles.worker]\n")
    usual = lab.detach(file)
    rolled = lab.detach(file, "--set", "scheduler.yarn.rolled_log_include=worker-0.*[.]out")
    for job in (usual, rolled):
        until(lambda job=job: lab.tasks(job)["worker:0"]["state"] == "running", "its program runs")  # type: ignore[misc]
    until(lambda: lab.listed(_collected(rolled)), "a node has brought what it printed so far")
    assert lab.listed(_collected(usual)) == {}
    (lab.out / "go-0").touch()
    assert [lab.wait(job)["state"] for job in (usual, rolled)] == ["succeeded"] * 2
    lab.wait_application(rolled)
    assert lab.elsewhere("away").tony("logs", rolled, "--stdout").stdout == "up 0\nlast 0\n"
    lab.close()


def _collected(job: str) -> str:
    """Where the cluster brings what was printed in a job's containers."""
    return f"/app-logs/{user()}/bucket-logs-ifile/{job.rpartition('_')[2]}/{job}"


@pytest.mark.long  # a cluster of its own; tests/schedulers/yarn/client/test_container_logs.py has it with fakes
def test_a_cluster_without_aggregation(
    tmp_path: Path, no_aggregation: MiniCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the follower saw is here; on another machine it is said why there is nothing."""
    lab, job = _run(tmp_path, no_aggregation)
    assert lab.tony("logs", job).stdout == "hello\noh\n"
    done = lab.elsewhere("away").tony("logs", job)
    assert done.stdout in ("", "hello\noh\n")
    if not done.stdout:
        assert "yarn.log-aggregation-enable is false" in done.stderr
    monkeypatch.setenv("HADOOP_CONF_DIR", str(no_aggregation.conf))

    async def look() -> None:
        async with seen(tmp_path / "portal", [history()]) as portal:
            log = f"/job/{job}/logs"
            if done.stdout:
                await portal.page(log, "hello")
            else:
                assert "yarn.log-aggregation-enable is false" in await portal.page(log, "is missing")

    asyncio.run(look())
    lab.close()
