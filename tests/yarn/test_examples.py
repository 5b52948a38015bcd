"""The examples on YARN: a session that fails is followed by one that goes on from the checkpoint in HDFS."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.test_examples import DEBIAN_PYTHON, EXAMPLES, accuracy, has_torch
from tests.yarn.lab import YarnLab, user

pytestmark = [pytest.mark.e2e, pytest.mark.framework, pytest.mark.slow]

#: Runs a program that dies in its first session as soon as the first checkpoint is complete.
DIES = """
import os, runpy, sys
from contextlib import contextmanager
import checkpoints

complete = checkpoints.Checkpoints.writing

@contextmanager
def and_die(self, step):
    with complete(self, step) as folder:
        yield folder
    os._exit(7)

if os.environ["SESSION_ID"] == "1":
    checkpoints.Checkpoints.writing = and_die
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(lab: YarnLab, name: str, *arguments: str) -> tuple[str, set[str]]:
    """Runs a copy of an example that dies once; answers what was printed, and the checkpoints that lie in HDFS."""
    folder = lab.root / name
    shutil.copytree(EXAMPLES / name, folder)
    (folder / "dies.py").write_text(DIES)
    job = folder / "job.toml"
    text = job.read_text().partition("[roles.evaluator]")[0]
    job.write_text(re.sub(r"(python3?) train\.py", r"\1 dies.py train.py", text))
    kept = f"/user/{user()}/{lab.root.name}/{name}"
    where = f"webhdfs://{lab.cluster.state.address('nn.web')}{kept}"
    done = lab.submit(job, "--param", f"checkpoints={where}", *arguments, timeout=280)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-5000:]
    assert lab.status(lab.only_job())["session"] == 2
    return printed, set(lab.listed(kept))


@pytest.mark.on_change("hadoop", "schedulers", "mini")
def test_tensorflow(lab: YarnLab) -> None:
    """Two processes train together; both read the checkpoint. The evaluator is tested where imports cost less."""
    sets = ["--set", "roles.worker.instances=1", "--set", f"python={sys.executable}"]
    printed, kept = run(lab, "digits", "--param", f"out={lab.out}", "--param", "steps=60", *sets)
    assert kept == {"step-00000020", "step-00000040", "step-00000060"}
    assert "chief:0: continues from step 20" in printed
    assert "worker:0: continues from step 20" in printed
    assert accuracy(printed) > 85


@pytest.mark.on_change("hadoop", "schedulers", "mini")
def test_jax(lab: YarnLab) -> None:
    """Two processes train together; both read the checkpoint."""
    printed, kept = run(lab, "jax", "--param", "steps=50", "--set", f"python={sys.executable}")
    assert kept == {"step-00000025", "step-00000050"}
    assert "process 0: continues from step 25" in printed
    assert "process 1: continues from step 25" in printed
    assert accuracy(printed) > 70


def test_pytorch(lab: YarnLab) -> None:
    """Two ranks, under another interpreter than ours; both read the checkpoint."""
    if not has_torch():
        pytest.skip(f"{DEBIAN_PYTHON} has no torch and scikit-learn (Debian's python3-torch, python3-sklearn)")
    printed, kept = run(lab, "pytorch-ddp", "--param", "epochs=3")
    assert kept == {"step-00000001", "step-00000002", "step-00000003"}
    assert "rank 0: continues after epoch 1" in printed
    assert "rank 1: continues after epoch 1" in printed
    assert accuracy(printed) > 80


def test_one_file_for_all() -> None:
    """Each example has a copy of its own of what keeps checkpoints, so that its folder can be taken as it is."""
    copies = {path.read_text() for path in Path(EXAMPLES).glob("*/checkpoints.py")}
    assert len(copies) == 1
