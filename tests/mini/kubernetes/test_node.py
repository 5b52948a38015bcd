"""A real Kubernetes is started, runs a job, and is ended; nothing is left of it.

Where it has not been built these tests wait for the build of `make test`, or are skipped: tests/kubernetes_build.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tony
from tests.change_detection import KUBERNETES
from tests.facts import mentions
from tests.kubernetes_build import wait_for_software
from tests.support.waiting import block_until
from tony.linux.process import name, parent_of, with_marker
from tony.mini.kubernetes.cgroups import list_hierarchies
from tony.mini.kubernetes.layout import KubernetesLayout
from tony.mini.kubernetes.mounts import list_writable_mounts
from tony.mini.kubernetes.software import PYTHON_IMAGE
from tony.model.state_directory import Home

pytestmark = [
    pytest.mark.on_change(*KUBERNETES),
    pytest.mark.slow,
    pytest.mark.xdist_group("shared-kubernetes"),  # these have clusters of their own, but not at the same time
]
#: Seconds of a command; it takes a tenth on an idle machine.
CEILING = 150.0


class Lab:
    """A user with an empty state directory, and a small Kubernetes in it if one was started."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.places = KubernetesLayout(self.home.mini_kubernetes)

    def tony(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        source = str(Path(tony.__file__).parents[1])
        return subprocess.run(
            [sys.executable, "-m", "tony", *words],
            env={**os.environ, "TONY_HOME": str(self.home.path), "PYTHONPATH": source, **variables},
            cwd=self.home.path.parent,
            capture_output=True,
            text=True,
            timeout=CEILING,
            check=False,
        )

    def list_left(self) -> list[str]:
        """Return processes, control groups and mounts of the cluster on this machine."""
        groups = [str(path) for each in list_hierarchies() for path in each.glob(f"{self.places.cgroup}*")]
        processes = [name(pid) for pid in with_marker(self.places.marker)]
        mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.places.path) in line]
        return [*processes, *groups, *mounts]

    def list_writable(self) -> list[str]:
        """Return the machine's mounts that the daemons can write to, but for those of `/proc` and control groups."""
        (kubelet,) = [pid for pid in with_marker(self.places.marker) if name(pid) == "kubelet"]
        excluded = [Path(path) for path in ("/run", "/var", "/proc", "/sys/fs/cgroup")]
        mounts = list_writable_mounts(Path("/proc/self/mountinfo").read_text(), excluded)
        test = ("sh", "-c", 'for path; do if test -w "$path"; then echo "$path"; fi; done', "sh")
        paths = [str(mount.path) for mount in mounts]
        enter = ("nsenter", "--target", str(kubelet), "--mount", *test, *paths)
        return subprocess.run(enter, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A lab on a machine that can run Kubernetes; it is stopped at the end."""
    wait_for_software(os.environ)
    with tempfile.TemporaryDirectory(prefix="tony-kubernetes-", dir="/tmp") as folder:
        found = Lab(Path(folder))
        yield found
        found.tony("mini", "stop")


def test_a_job_on_a_small_kubernetes(lab: Lab) -> None:
    """Started, a second start is refused; a gang runs, and its output is there; nothing is left after the stop."""
    interfaces = sorted(os.listdir("/sys/class/net"))
    answer = lab.tony("mini", "start", "--kubernetes")
    assert answer.returncode == 0, answer.stderr
    assert mentions(answer.stdout, "is ready after", str(lab.places.kubeconfig), PYTHON_IMAGE, "tony mini stop")
    again = lab.tony("mini", "start", "--kubernetes")
    assert again.returncode == 2
    assert "a small Kubernetes is already running" in again.stderr
    status = json.loads(lab.tony("mini", "status", "--json").stdout)["kubernetes"]
    assert (True, None) == (status["running"], status["waiting_for"])
    assert {"running"} == {daemon["state"] for daemon in status["daemons"]}
    assert lab.tony("mini", "env").stdout == f"export KUBECONFIG={lab.places.kubeconfig}\n"

    assert lab.list_writable() == []

    # Output of a program that ends at once may be lost.
    program = (
        "import os, ssl, sqlite3, time; print('task %s of %d' % (os.environ['TASK_INDEX'], os.getuid())); time.sleep(3)"
    )
    words = ("run", "-n", "2", "--memory", "128m", "--source", "", "--scheduler", "kubernetes")
    image = ("--set", f"scheduler.kubernetes.image={PYTHON_IMAGE}")
    job = lab.tony(*words, *image, "--", "python3", "-u", "-c", program, KUBECONFIG=str(lab.places.kubeconfig))
    assert job.returncode == 0, job.stdout + job.stderr
    assert mentions(job.stdout + job.stderr, "task 0 of 1000", "task 1 of 1000", "succeeded after")

    assert sorted(os.listdir("/sys/class/net")) == interfaces
    answer = lab.tony("mini", "stop")
    assert (0, "Stopped 6 daemons\n") == (answer.returncode, answer.stdout), answer.stderr
    assert lab.list_left() == []
    assert not lab.places.path.exists()


@pytest.mark.on_change("kube", "mini", "mini/kubernetes")
def test_all_ends_with_its_first_process(lab: Lab) -> None:
    """It is killed, and no daemon outlives it; the status says so, and the next start cleans up."""
    assert lab.tony("mini", "start", "--kubernetes", "--nodes", "2", "--json").returncode == 0
    pids = with_marker(lab.places.marker)
    (outermost,) = [pid for pid in pids if name(pid) == "unshare" and parent_of(pid) not in pids]
    os.kill(outermost, signal.SIGKILL)
    block_until(lambda: not with_marker(lab.places.marker))
    assert "is not ready: etcd, kube-apiserver" in lab.tony("mini", "status").stdout
    answer = lab.tony("mini", "start", "--kubernetes", "--json")
    assert answer.returncode == 0, answer.stderr
    assert str(lab.places.kubeconfig) == json.loads(answer.stdout)["kubeconfig"]
    assert lab.tony("mini", "stop").stdout == "Stopped 6 daemons\n"
    assert lab.list_left() == []


@pytest.mark.on_change("kube", "mini", "mini/kubernetes")
@pytest.mark.timeout(1800)
def test_nodes_and_daemons_are_killed_and_restarted(lab: Lab) -> None:
    """A killed node takes its pods with it; a daemon that is started again finds the others; all is stopped."""
    assert lab.tony("mini", "start", "--kubernetes", "--nodes", "2", "--json").returncode == 0
    before = len(with_marker(lab.places.marker))
    assert "Sent SIGKILL to mini2" in lab.tony("mini", "kill", "mini2").stdout
    status = lab.tony("mini", "status").stdout
    assert "is not ready: containerd2, kubelet2 are dead" in status
    assert "node mini2 does not run" in lab.tony("mini", "restart", "kubelet2").stderr
    for daemon in ("mini2", "kubelet2", "kube-apiserver"):
        answer = lab.tony("mini", "restart", daemon)
        assert f"Restarted {daemon}; the cluster was ready after" in answer.stdout, answer.stderr
    block_until(lambda: len(with_marker(lab.places.marker)) == before)  # kubelet has others for a moment
    assert lab.tony("mini", "stop").stdout == "Stopped 8 daemons\n"
    assert lab.list_left() == []
