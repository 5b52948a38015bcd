"""A newcomer's first job, as docs/kubernetes.md tells it, on a real cluster: PyTorch with checkpoints in a claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.change_detection import KUBERNETES
from tests.e2e.lab import until
from tests.framework_envs import DEBIAN_PYTHON, has_torch
from tests.kubernetes.lab import KubernetesLab
from tests.tutorials.page import ROOT, follow
from tony.kube.resources import PODS
from tony.mini.kubernetes.software import PYTHON_IMAGE

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.framework, pytest.mark.on_change(*KUBERNETES)]


#: Folders of this machine in all pods: Debian's PyTorch.
MACHINE = """
[scheduler.kubernetes.template.spec]
volumes = [
  { name = "bin", hostPath = { path = "/usr/bin" } },
  { name = "lib", hostPath = { path = "/usr/lib" } },
  { name = "alternatives", hostPath = { path = "/etc/alternatives" } },
]
[[scheduler.kubernetes.template.spec.containers]]
name = "tony"
volumeMounts = [
  { name = "bin", mountPath = "/usr/bin", readOnly = true },
  { name = "bin", mountPath = "/bin", readOnly = true },
  { name = "lib", mountPath = "/usr/lib", readOnly = true },
  { name = "alternatives", mountPath = "/etc/alternatives", readOnly = true },
]
"""


@pytest.fixture
def checkpoint(lab: KubernetesLab) -> Iterator[Path]:
    """The page's file in the claim `data`, as this machine sees it; it does not exist yet."""
    path = lab.cluster.places.data / "first.pt"
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


def use_pytorch(lab: KubernetesLab) -> None:
    """Make the user one of the small cluster, with this machine's PyTorch in all pods."""
    site = Path(lab.env["XDG_CONFIG_HOME"], "tony", "tony.toml")
    site.write_text(MACHINE)
    lab.env |= {
        "KUBECONFIG": str(lab.cluster.kubeconfig),  # the claim is in the namespace `default`
        "TONY_SET_SCHEDULER__KUBERNETES__IMAGE": PYTHON_IMAGE,
        "TONY_SET_PYTHON": DEBIAN_PYTHON,
    }


@pytest.mark.skipif(not has_torch(), reason=f"{DEBIAN_PYTHON} has no torch; apt-get install python3-torch")
def test_the_first_job_of_the_page(lab: KubernetesLab, checkpoint: Path) -> None:
    """The pod of a worker is deleted on the way; the second submission continues from the checkpoint of the first."""
    use_pytorch(lab)

    def delete_a_pod() -> None:
        until(checkpoint.exists, "a checkpoint is saved")
        (job,) = lab.jobs()
        lab.send("DELETE", PODS.build_path("default", lab.find_pod(job, "worker:1")), {})
        until(lambda: lab.status(job)["session"] == 2, "the next session")
        first = checkpoint.stat().st_ino
        until(lambda: checkpoint.stat().st_ino != first, "it saves a checkpoint")

    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    section = page.partition("## Your first job\n")[2].partition("\n### The first job on the small cluster\n")[0]
    section = section.replace("time.sleep(0.5)", "time.sleep(0.1)")  # a reader needs longer for the commands
    follow(section, lab.root / "first", lab.env, {"tony kill last": delete_a_pod})
    reports = {each: lab.status(each) for each in lab.jobs()}
    assert sorted((each["state"], each["session"]) for each in reports.values()) == [("killed", 2), ("succeeded", 1)]
