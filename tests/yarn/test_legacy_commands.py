"""The commands of LinkedIn TonY on a real cluster, and ports of tasks that are reached from elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.change_detection import CLUSTER
from tests.e2e.tunnel_server import SERVER, call, end, get
from tests.yarn.lab import CEILING, YarnLab, until
from tony.linux.process import with_marker
from tony.mini.daemons import MARKER

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SMALL = ("--conf", "tony.am.memory=256m")


def source(lab: YarnLab, program: str) -> Path:
    return lab.file("x.py", program).parent


def said(process: subprocess.Popen[str], text: str) -> str:
    """Waits until a follower says something; answers the line."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"it never said {text!r}: {process.communicate()}")


@pytest.mark.on_change(*CLUSTER, "config", "cli")
def test_notebook_submit(lab: YarnLab) -> None:
    """As soon as the server answers its address is told. Its exit code is ours; Ctrl-C ends it, and the port too."""
    folder = source(lab, SERVER)
    flags = ("notebook-submit", *SMALL, "--src_dir", str(folder), "--executes", "python3 x.py")
    for status, code in ((0, 0), (7, 255), (None, 130)):
        follower = lab.follow(*flags, env={"SSH_CONNECTION": "10.0.0.2 50000 10.0.0.1 22"})
        place = re.search(r"the notebook is at http://127\.0\.0\.1:(\d+)", said(follower, "the notebook is at"))
        assert place
        port = int(place[1])
        assert f"ssh -N -L {port}:127.0.0.1:{port} " in said(follower, "from another machine")
        get(port, 100_000)
        if status is None:
            follower.send_signal(signal.SIGINT)
        else:
            end(port, status)
        told = follower.communicate(timeout=CEILING)[1]
        assert follower.returncode == code, told
        with pytest.raises(ConnectionRefusedError):
            call(port, "echo")


@pytest.mark.on_change(*CLUSTER, "config", "cli")
def test_local_submit(lab: YarnLab) -> None:
    """A cluster of its own, wherever else one runs; nothing of it is left but the job's record."""
    folder = source(lab, "import os; print('here', os.environ['JOB_NAME'], flush=True)\n")
    temp = lab.root / "temp"
    temp.mkdir()
    before = lab.applications()
    flags = ("--src_dir", str(folder), "--executes", "x.py", "--python_binary_path", "python3")
    done = lab.tony(
        "local-submit", *SMALL, *flags, "--conf", "tony.worker.instances=1", "--conf", "tony.worker.memory=256m",
        env={"TMPDIR": str(temp)}, timeout=3 * CEILING,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker:0 | here worker" in done.stdout
    assert lab.applications() == before
    until(lambda: not os.listdir(temp), "its files are gone")
    assert with_marker(f"{MARKER}={temp}") == []
    assert lab.status("last")["state"] == "succeeded"
    (lab.home / "jobs" / lab.only_job()).rename(lab.root / "done")  # the shared cluster is not to be asked for it
