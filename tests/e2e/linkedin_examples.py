"""The command lines of examples/from-tony, as their pages have them, for the tests of all schedulers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.framework_envs import ROOT, interpreter

FOLDER = ROOT / "examples" / "from-tony"


def tensorflow(script: str, params: str, python: str, *more: str) -> list[str]:
    folder = FOLDER / "mnist-tensorflow"
    return [
        f"--src_dir={folder}",
        f"--executes={script}",
        f"--task_params={params}",
        f"--conf_file={folder / 'tony-test.xml'}",
        f"--python_binary_path={python}",
        "--shell_env=TF_CPP_MIN_LOG_LEVEL=2",
        "--shell_env=OMP_NUM_THREADS=1",
        *more,
    ]


def low_level(out: Path, python: str) -> list[str]:
    params = f"--steps 150 --data_dir /tmp/data --working_dir {out}"
    return tensorflow("mnist_distributed.py", params, python, "--conf", "tony.ps.instances=1")


def estimator(out: Path, python: str) -> list[str]:
    """A chief, workers, an evaluator, and a TensorBoard beside them."""
    params = f"--learning_rate 0.002 --model_dir {out} --dropout 0.5 --max_steps 150 --save_checkpoints_steps 50"
    more = ["--conf", "tony.chief.instances=1", "--conf", "tony.evaluator.instances=1"]
    fewer = ["--conf", "tony.worker.instances=1"]  # an import of TensorFlow costs more than all the training
    beside = f"--sidecar_tensorboard_log_dir={out}"
    return tensorflow("mnist_estimator_distributed.py", params, python, *more, *fewer, beside)


def keras(out: Path, python: str) -> list[str]:
    return tensorflow("mnist_keras_distributed.py", f"--working-dir {out}", python)


def pytorch(python: str, archive: Path) -> list[str]:
    """Two ranks. One dash and no equals sign, which is the other way to write LinkedIn TonY's flags.

    Args:
        python: has PyTorch; it lends its packages to an environment, which is packed as LinkedIn TonY's pages say.
    """
    folder, environment = FOLDER / "mnist-pytorch", archive.with_suffix("")
    make = [python, "-m", "venv", "--without-pip", "--system-site-packages", str(environment)]
    subprocess.run(make, check=True, timeout=120)
    shutil.make_archive(str(environment), "zip", environment)  # as `zip -r`: links become what they lead to
    shutil.rmtree(environment)
    return [
        *("-python_venv", str(archive)),
        *("-src_dir", str(folder)),
        *("-executes", "mnist_distributed.py"),
        *("-conf_file", str(folder / "tony-test.xml")),
        *("-python_binary_path", "bin/python"),
    ]


def mxnet() -> list[str]:
    return [
        f"--src_dir={ROOT / 'examples' / 'mxnet'}",
        "--shell_env=DMLC_USE_KUBERNETES=1",
        "--shell_env=PS_VERBOSE=0",
        f"--conf_file={FOLDER / 'linearregression-mxnet' / 'tony_mxnet_job.xml'}",
        "--executes=train.py",
        '--task_params="--steps 50"',
        f"--python_binary_path={interpreter('mxnet')}",
    ]


def horovod(xml: str, *more: str) -> list[str]:
    """Four ranks, without the Docker that no machine for tests has."""
    return [
        f"--src_dir={ROOT / 'examples' / 'horovod'}",
        "--executes=train.py",
        "--task_params=--epochs 3",
        f"--conf_file={FOLDER / 'horovod-on-tony' / xml}",
        f"--python_binary_path={interpreter('horovod')}",
        "--conf",
        "tony.docker.enabled=false",
        *more,
    ]


def horovod_debug() -> list[str]:
    """The same with a driver of the user's; in an image its `python` would be the one with Horovod."""
    driver = FOLDER / "horovod-on-tony" / "horovod_debug_driver.py"
    command = f"{interpreter('horovod')} {driver.name}"
    more = ["--conf", f"tony.driver.resources={driver}", "--conf", f"tony.driver.command={command}"]
    return horovod("tony-test-debug.xml", *more)


def ray(archive: Path) -> list[str]:
    """A head and two workers, from an archive of an environment that is made here.

    Usage is not reported to Ray's makers, and workers miss their head after seconds.
    """
    environment = Path(interpreter("ray")).parents[1]
    pack = [str(environment / "bin" / "venv-pack"), "--quiet", "--compress-level", "1"]
    pack += ["--prefix", str(environment), "--output", str(archive)]
    done = subprocess.run(pack, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    folder = FOLDER / "ray-on-tony"
    version = next(environment.joinpath("lib").glob("python3.*")).name
    xml = archive.with_name("tony-test.xml")
    xml.write_text((folder / "tony-test.xml").read_text().replace("python3.11", version))
    return [
        f"--python_venv={archive}",
        f"--src_dir={folder}",
        f"--conf_file={xml}",
        "--shell_env=RAY_USAGE_STATS_ENABLED=0",
        "--shell_env=RAY_gcs_rpc_server_reconnect_timeout_s=5",
    ]


def accuracy(printed: str) -> float:
    """The last accuracy that was printed, in percent."""
    return float(re.findall(r"accuracy[^0-9]*([0-9.]+) ?%", printed)[-1])
