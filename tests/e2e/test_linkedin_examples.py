"""The examples of LinkedIn TonY's users on this machine: XML and flags become a job file, which runs.

On a cluster, through `tony cluster-submit`: tests/yarn/test_linkedin_examples.py, also with environments of
their own.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e import linkedin_examples
from tests.e2e.lab import Lab, load_script
from tests.e2e.linkedin_examples import FOLDER, accuracy

pytestmark = [pytest.mark.e2e, pytest.mark.framework, pytest.mark.timeout(600)]


def run(lab: Lab, flags: list[str]) -> tuple[str, dict[str, str]]:
    """Converts and submits; answers what was printed, and task -> its state."""
    job = lab.root / "job.toml"
    xml = next(flag.partition("=")[2] or flags[i + 1] for i, flag in enumerate(flags) if "conf_file" in flag)
    given = [flag for i, flag in enumerate(flags) if "conf_file" not in flag and flags[i - 1] != "-conf_file"]
    made = lab.tony("convert", xml, *given)
    assert made.returncode == 0, made.stderr
    job.write_text(made.stdout)
    done = lab.submit(job, timeout=560)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-5000:]
    return printed, {task: each["state"] for task, each in lab.tasks(lab.only_job()).items()}


@pytest.mark.long  # tests/golden/convert has the job file, test_tensorflow_parameter_server trains so
def test_tensorflow_low_level(lab: Lab) -> None:
    """Three workers share the steps over a server that never ends; worker 0 shows the summaries at its port."""
    out = lab.root / "model"
    printed, states = run(lab, linkedin_examples.low_level(out, sys.executable))
    taken = {worker: int(count) for worker, count in re.findall(r"worker:(\d): took (\d+) of 150 steps", printed)}
    assert {"0", "1", "2"} == set(taken)
    assert 150 <= sum(taken.values()) < 160
    assert accuracy(printed) > 80
    assert re.search(r"worker:0: TensorBoard at http://0\.0\.0\.0:\d+/", printed)
    assert {*("worker:0", "worker:1", "worker:2")} == {task for task, state in states.items() if state == "succeeded"}
    assert states["ps:0"] == "stopped"
    assert list(out.glob("model.ckpt-*.index"))
    assert list(out.glob("events.out.tfevents.*"))


def test_images_may_be_mnist(tmp_path: Path) -> None:
    """A folder with mnist.npz counts; without one, scikit-learn's digits are there."""
    images = load_script(FOLDER / "mnist-tensorflow" / "images.py")
    sizes = [part.shape for part in images.load(str(tmp_path))]
    assert sizes == [(1437, 8, 8), (360, 8, 8), (1437,), (360,)]
    pixels, labels = np.full((3, 28, 28), 255, "uint8"), np.arange(3)
    np.savez(tmp_path / "mnist.npz", x_train=pixels, y_train=labels, x_test=pixels[:1], y_test=labels[:1])
    train_x, test_x, train_y, _ = images.load(str(tmp_path))
    assert (train_x.shape, test_x.shape, train_x.max()) == ((3, 28, 28), (1, 28, 28), 1.0)
    assert train_y.tolist() == [0, 1, 2]


def test_every_example_is_tested() -> None:
    """No folder of examples/from-tony is without a command line here."""
    names = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    assert names == {"horovod-on-tony", "linearregression-mxnet", "mnist-pytorch", "mnist-tensorflow", "ray-on-tony"}
