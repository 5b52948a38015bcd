"""Every example does what its page says, through the orchestrator, with the real framework.

On every scheduler a session that fails is followed by one that continues from the checkpoint.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.lab import Lab
from tests.framework_envs import BUILD, DEBIAN_PYTHON, has_torch, interpreter
from tests.scenarios.conftest import only_on
from tony.history.metrics_reader import Metrics

pytestmark = [pytest.mark.e2e, pytest.mark.framework]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAME = "what the program does is the same everywhere; that it runs elsewhere: the tests of checkpoints below"


def run(lab: Lab, name: str, *arguments: str) -> tuple[Path, str, dict[str, object]]:
    """Runs a copy of an example; answers its output folder, what was printed, and the job's status."""
    folder = lab.root / name
    shutil.copytree(EXAMPLES / name, folder)
    out = lab.root / "out of example"
    param = ["--param", f"out={out}"] if "{params.out}" in (folder / "job.toml").read_text() else []
    done = lab.submit(folder / "job.toml", *param, *arguments, timeout=600)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-5000:]
    return out, printed, lab.status(lab.only_job())


def accuracy(printed: str) -> float:
    """The last accuracy that was printed, in percent."""
    return float(re.findall(r"accuracy[^0-9]*([0-9.]+) ?%", printed)[-1])


@only_on("local", why=SAME)
def test_plain(lab: Lab) -> None:
    """Three workers share work; a later role adds up."""
    _, printed, status = run(lab, "plain")
    assert "25997" in printed.replace(",", ""), printed
    assert {t["state"] for t in status["tasks"]} == {"succeeded"}  # type: ignore[attr-defined]


@pytest.mark.on_change("frameworks", "python_hooks", "examples")
@only_on("local", why=SAME)
def test_digits_with_tensorflow(lab: Lab) -> None:
    """Multi-worker training with an evaluator: accuracy, checkpoints, summaries, model."""
    out, printed, status = run(lab, "digits")
    assert accuracy(printed) > 95
    job = str(status["job"])
    steps = lab.tony("metrics", job, "--csv", "--series", "step,user.loss").stdout
    assert {f"{task},{series}" for task in ("chief:0", "worker:0", "worker:1") for series in ("step", "user.loss")} <= {
        ",".join(line.split(",")[:2]) for line in steps.splitlines()
    }
    with Metrics(lab.home / "jobs" / job / "metrics.db") as metrics:
        assert {each.task for each in metrics.checkpoints()} == {"chief:0"}
    assert list(out.rglob("*.index")), "no checkpoint"
    assert len(list(out.rglob("events.out.tfevents.*"))) >= 2, "summaries of the chief and of the evaluator"
    assert (out / "model.keras").exists()


@only_on("local", why=SAME)
@pytest.mark.on_change("frameworks", "python_hooks", "examples")
def test_tensorflow_parameter_server(lab: Lab) -> None:
    """Servers never end by themselves; the job ends with its chief."""
    _, printed, status = run(lab, "tensorflow-ps")
    assert accuracy(printed) > 90
    states = {t["task"]: t["state"] for t in status["tasks"]}  # type: ignore[attr-defined]
    assert states["chief:0"] == "succeeded"
    assert states["ps:0"] == "stopped"


@only_on("local", why=SAME)
@pytest.mark.on_change("frameworks", "python_hooks", "examples")
def test_jax(lab: Lab) -> None:
    _, printed, _ = run(lab, "jax")
    assert accuracy(printed) > 90


@only_on("local", why=SAME)
@pytest.mark.on_change("frameworks", "python_hooks", "examples")
def test_pytorch(lab: Lab) -> None:
    """Two DDP ranks under another interpreter than ours."""
    if not has_torch():
        pytest.skip(f"{DEBIAN_PYTHON} has no torch and scikit-learn (Debian's python3-torch, python3-sklearn)")
    _, printed, _ = run(lab, "pytorch-ddp", "--set", f"python={DEBIAN_PYTHON}")
    assert accuracy(printed) > 90


@only_on("local", why=SAME)
@pytest.mark.on_change("frameworks", "python_hooks", "examples")
def test_pytorch_rpc(lab: Lab) -> None:
    """A parameter server and two trainers find each other by rank; all three end by themselves."""
    if not has_torch():
        pytest.skip(f"{DEBIAN_PYTHON} has no torch and scikit-learn (Debian's python3-torch, python3-sklearn)")
    _, printed, status = run(lab, "pytorch-rpc")
    assert accuracy(printed) > 90
    assert {t["state"] for t in status["tasks"]} == {"succeeded"}  # type: ignore[attr-defined]


@only_on("local", why=SAME)
@pytest.mark.long  # its own environment; the address: tests/am/test_executor_instructions.py
@pytest.mark.timeout(BUILD)
def test_dask(lab: Lab) -> None:
    """The client finds the scheduler by its address; the job ends with the client."""
    _, printed, status = run(lab, "dask", "--set", f"python={interpreter('dask')}")
    assert "17984 primes below 200,000" in printed
    states = {t["task"]: t["state"] for t in status["tasks"]}  # type: ignore[attr-defined]
    assert states == {"scheduler:0": "stopped", "worker:0": "stopped", "worker:1": "stopped", "client:0": "succeeded"}


@only_on("local", why=SAME)
@pytest.mark.long  # an environment of its own
@pytest.mark.timeout(BUILD)
def test_xgboost(lab: Lab) -> None:
    """The tracker binds the port that was left free for it, so one session is enough."""
    _, printed, status = run(lab, "xgboost", "--set", f"python={interpreter('dask')}")
    assert accuracy(printed) > 90
    assert status["session"] == 1


@only_on("local", why=SAME)
@pytest.mark.long  # an environment of its own
@pytest.mark.timeout(BUILD)
def test_ray(lab: Lab) -> None:
    """Two workers join the head by its address; nothing of Ray is left when the job has ended."""
    _, printed, status = run(lab, "ray", "--set", f"python={interpreter('ray')}")
    assert "17984 primes below 200,000" in printed
    states = {t["task"]: t["state"] for t in status["tasks"]}  # type: ignore[attr-defined]
    assert states["head:0"] == "succeeded"


@only_on("local", why=SAME)
@pytest.mark.long  # an environment of its own; test_pytorch has the variables
@pytest.mark.timeout(BUILD)
@pytest.mark.parametrize("name", ["huggingface-accelerate", "huggingface-trainer"])
def test_huggingface(lab: Lab, name: str) -> None:
    """Two ranks train together, by the variables alone."""
    _, printed, _ = run(lab, name, "--set", f"python={interpreter('huggingface')}")
    assert printed.count("joined, 2 ranks") == 2
    assert accuracy(printed) > 90


@only_on("local", why=SAME)
@pytest.mark.long  # built from source; test_horovod_rendezvous.py has fake ranks
@pytest.mark.timeout(BUILD)
def test_horovod(lab: Lab) -> None:
    """Four ranks find each other without a driver; their numbers add up."""
    _, printed, _ = run(lab, "horovod", "--set", f"python={interpreter('horovod')}")
    assert printed.count("joined, 4 ranks, their numbers add up to 6\n") == 4
    assert accuracy(printed) > 90


@only_on("local", why=SAME)
@pytest.mark.long  # an environment of its own, with an old numpy; tests/frameworks/test_mxnet.py has what it is told
@pytest.mark.timeout(BUILD)
def test_mxnet(lab: Lab) -> None:
    """Both workers end with the same line, and the servers when the workers have."""
    _, printed, status = run(lab, "mxnet", "--set", f"python={interpreter('mxnet')}")
    lines = re.findall(r"worker ([01]): y = ([0-9.]+) x \+ ([0-9.]+)", printed)
    assert {worker for worker, _, _ in lines} == {"0", "1"}
    assert {(round(float(slope), 1), round(float(offset), 1)) for _, slope, offset in lines} == {(5.0, 2.0)}
    assert {t["state"] for t in status["tasks"]} == {"succeeded"}  # type: ignore[attr-defined]


def test_every_example_is_tested() -> None:
    """No folder of examples/ is without a test here."""
    names = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and os.listdir(path)}
    names -= {"from-tony"}  # those of LinkedIn TonY, which have tests of their own
    pytorch = {"huggingface-accelerate", "huggingface-trainer", "pytorch-ddp", "pytorch-rpc"}
    assert names == pytorch | {
        *("dask", "digits", "horovod", "jax", "mxnet", "plain", "ray", "tensorflow-ps", "xgboost"),
    }


def test_one_file_for_all() -> None:
    """Each example has a copy of its own of what keeps checkpoints, so that its folder can be taken as it is."""
    copies = {path.read_text() for path in EXAMPLES.glob("*/checkpoints.py")}
    assert len(copies) == 1


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


def run_twice(lab: Lab, name: str, place: str, *arguments: str) -> str:
    """Runs a copy of an example that dies once, with checkpoints in a place; answers what was printed."""
    folder = lab.root / name
    shutil.copytree(EXAMPLES / name, folder)
    (folder / "dies.py").write_text(DIES)
    job = folder / "job.toml"
    text = job.read_text().partition("[roles.evaluator]")[0]
    if place.startswith("webhdfs:"):
        text = re.sub(r"^volumes = .*\n", "", text, flags=re.MULTILINE)
    job.write_text(re.sub(r"(python3?) train\.py", r"\1 dies.py train.py", text))
    done = lab.submit(job, "--param", f"checkpoints={place}", *arguments, timeout=280)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-5000:]
    assert lab.status(lab.only_job())["session"] == 2
    return printed


@only_on("yarn", "kubernetes", why="on local: tests/tutorials, which resume after a crash")
@pytest.mark.long  # checkpoints are kept as in test_pytorch_continues; test_digits_with_tensorflow trains
def test_tensorflow_continues(lab: Lab) -> None:
    """Two processes train together; both read the checkpoint. The evaluator: test_digits_with_tensorflow."""
    sets = ["--set", "roles.worker.instances=1", *lab.use_packages()]
    place = lab.shared_folder("digits")
    printed = run_twice(lab, "digits", place, "--param", f"out={lab.out}", "--param", "steps=60", *sets)
    assert set(lab.shared_names("digits")) == {"step-00000020", "step-00000040", "step-00000060"}
    assert "chief:0: continues from step 20" in printed
    assert "worker:0: continues from step 20" in printed
    assert accuracy(printed) > 85


@only_on("yarn", "kubernetes", why="on local: tests/tutorials, which resume after a crash")
@pytest.mark.long  # checkpoints are kept as in test_pytorch_continues; test_jax trains
def test_jax_continues(lab: Lab) -> None:
    """Two processes train together; both read the checkpoint."""
    printed = run_twice(lab, "jax", lab.shared_folder("jax"), "--param", "steps=50", *lab.use_packages())
    assert set(lab.shared_names("jax")) == {"step-00000025", "step-00000050"}
    assert "process 0: continues from step 25" in printed
    assert "process 1: continues from step 25" in printed
    assert accuracy(printed) > 70


@only_on("yarn", why="on local: tests/tutorials, which resume after a crash")
def test_pytorch_continues(lab: Lab) -> None:
    """Two ranks, under another interpreter than ours; both read the checkpoint."""
    if not has_torch():
        pytest.skip(f"{DEBIAN_PYTHON} has no torch and scikit-learn (Debian's python3-torch, python3-sklearn)")
    place = lab.shared_folder("ddp")
    printed = run_twice(lab, "pytorch-ddp", place, "--param", "epochs=3", "--set", f"python={DEBIAN_PYTHON}")
    assert set(lab.shared_names("ddp")) == {"step-00000001", "step-00000002", "step-00000003"}
    assert "rank 0: continues after epoch 1" in printed
    assert "rank 1: continues after epoch 1" in printed
    assert accuracy(printed) > 80
