"""The examples of LinkedIn TonY's users on a real cluster: nothing but the name of the command is another."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from tests.change_detection import CLUSTER
from tests.e2e import linkedin_examples
from tests.e2e.linkedin_examples import accuracy
from tests.framework_envs import BUILD, DEBIAN_PYTHON, has_torch
from tests.mini_clusters import Clusters
from tests.yarn.lab import YarnLab, one_user
from tony.mini.options import MiniOptions

pytestmark = [pytest.mark.e2e, pytest.mark.framework, pytest.mark.slow]


@pytest.fixture
def roomy(clusters: Clusters) -> Iterator[YarnLab]:
    """A user of a cluster as `tony mini` makes it: room for three workers of 4 GB and all that belongs to them."""
    with one_user(lambda folder: YarnLab(folder, clusters.with_options(ROOMY))) as lab:
        yield lab


ROOMY = MiniOptions(datanodes=1)


def run(lab: YarnLab, flags: list[str], timeout: float = 280) -> tuple[str, dict[str, str]]:
    """Submits; answers what was printed, and task -> its state."""
    done = lab.tony("cluster-submit", *flags, timeout=timeout)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-5000:]
    return printed, {task: each["state"] for task, each in lab.tasks(lab.only_job()).items()}


@pytest.mark.on_change(*CLUSTER, "frameworks", "examples", "config")
def test_pytorch(lab: YarnLab) -> None:
    """Two ranks; the XML says nothing of memory, so each has 2 GB."""
    if not has_torch():
        pytest.skip(f"{DEBIAN_PYTHON} has no torch and scikit-learn (Debian's python3-torch, python3-sklearn)")
    printed, _ = run(lab, linkedin_examples.pytorch(DEBIAN_PYTHON, lab.root / "venv.zip"))
    assert "rank 1: joined, 2 ranks train together" in printed
    assert accuracy(printed) > 90


@pytest.mark.long
@pytest.mark.timeout(600)
def test_tensorflow_low_level(roomy: YarnLab) -> None:
    """Three workers of 4 GB share the steps over a server; TensorBoard is at the port that was kept for it."""
    printed, states = run(roomy, linkedin_examples.low_level(roomy.out, sys.executable), timeout=580)
    assert 3 == len(re.findall(r"worker:\d: took \d+ of 150 steps", printed))
    assert "TensorBoard at http://0.0.0.0:" in printed
    assert accuracy(printed) > 80
    assert states["ps:0"] == "stopped"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_keras(roomy: YarnLab) -> None:
    """Three workers of 4 GB hold one model; worker 0 saves it."""
    printed, _ = run(roomy, linkedin_examples.keras(roomy.out, sys.executable), timeout=580)
    assert "worker:2: joined, 3 workers train together" in printed
    assert accuracy(printed) > 90
    assert (roomy.out / "model.keras").exists()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_estimator(roomy: YarnLab) -> None:
    """A chief and a worker train, an evaluator judges the checkpoints."""
    printed, states = run(roomy, linkedin_examples.estimator(roomy.out, sys.executable), timeout=580)
    assert "evaluator:0: step 150, held-out accuracy" in printed
    assert states.pop("tensorboard:0") == "stopped"
    assert {"succeeded"} == set(states.values())


@pytest.mark.long
@pytest.mark.timeout(BUILD)
def test_mxnet(roomy: YarnLab) -> None:
    """Both workers end with the same line, and the servers when the workers have."""
    printed, states = run(roomy, linkedin_examples.mxnet())
    lines = re.findall(r"worker ([01]): (y = .*)", printed)
    assert {"0", "1"} == {worker for worker, _ in lines}
    assert 1 == len({line for _, line in lines})
    assert {"succeeded"} == set(states.values())


@pytest.mark.long
@pytest.mark.timeout(BUILD)
def test_horovod(roomy: YarnLab) -> None:
    """Four ranks find each other; their numbers add up."""
    printed, _ = run(roomy, linkedin_examples.horovod("tony-test.xml"))
    assert 4 == printed.count("joined, 4 ranks, their numbers add up to 6\n")
    assert accuracy(printed) > 80


@pytest.mark.long
@pytest.mark.timeout(BUILD)
def test_horovod_with_a_driver_of_ones_own(roomy: YarnLab) -> None:
    """The ranks meet at the user's driver, which the job ends."""
    printed, states = run(roomy, linkedin_examples.horovod_debug())
    assert "driver: workers meet at port" in printed
    assert 4 == printed.count("joined, 4 ranks, their numbers add up to 6\n")
    assert states["driver:0"] == "stopped"


@pytest.mark.long
@pytest.mark.timeout(BUILD)
def test_ray(roomy: YarnLab) -> None:
    """A head and two workers, found by TF_CONFIG, from an archive that is unpacked to venv/; work goes to all three."""
    printed, states = run(roomy, linkedin_examples.ray(roomy.root / "ray.zip"), timeout=580)
    assert "head:0: all 3 nodes have joined" in printed
    assert "through 3 nodes" in printed
    assert {"succeeded"} == set(states.values())
