"""The fork of the command line that becomes an application master, or nothing at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import block_until
from tony.linux import process
from tony.testing.allocator_bench import TIMEOUT_SECONDS

#: Makes one, tells its pid, and does with it what it is told.
CLIENT = """
import os, sys, signal
from pathlib import Path
from tony import isolated_interpreter
from tony.schedulers.local.supervision import am_prefork
am_prefork.prepare()
one = am_prefork.take()
assert am_prefork.take() is None
print(one.pid, flush=True)
what, folder = sys.argv[1:]
if what == "send":
    ready = one.become(isolated_interpreter.command("tony.rpc.am_address", "word"), Path(folder), Path(folder, "log"))
    assert os.read(ready, 1) == b""
    print(one.wait(), one.poll(), flush=True)
if what == "dismiss":
    one.dismiss()
    print(one.poll(), flush=True)
if what == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "gone":
    os.kill(one.pid, signal.SIGKILL)
    os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
    try:
        one.become(["x"], Path(folder), Path(folder, "log"))
    except OSError as error:
        print(type(error).__name__)
    one.dismiss()
"""


def client(what: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, what, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.stderr == ""
    return done.stdout.split()


def wait_removed(pid: int) -> None:
    block_until(lambda: not process.is_alive(pid))


def test_it_becomes_the_program(tmp_path: Path) -> None:
    """In the folder that is named, its output in the log; a module without `main` shows that it was entered."""
    pid, code, again = client("send", tmp_path)
    assert (code, again) == ("1", "1")
    assert "has no attribute 'main'" in (tmp_path / "log").read_text()
    assert process.start_time(int(pid)) is None


@pytest.mark.parametrize("what", ["dismiss", "die"])
def test_an_unused_prefork_leaves_no_trace(what: str, tmp_path: Path) -> None:
    """Dismissed, or its client killed: it ends by itself and has made nothing."""
    wait_removed(int(client(what, tmp_path)[0]))
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_killed_is_an_error(tmp_path: Path) -> None:
    """The caller starts a master in another way then."""
    assert client("gone", tmp_path)[1:] == ["BrokenPipeError"]


def test_a_job_without_a_standby_runs_as_well(tmp_path: Path) -> None:
    """The command line is called by other programs in their own process: no fork there, and the same job."""
    code = """
import sys
from tony.cli.main import main
sys.exit(main(["run", "--json", "--", sys.executable, "-c", "print('ran')"]))
"""
    env = {**os.environ, "TONY_HOME": str(tmp_path / "home"), "TONY_SET_SCHEDULER__LOCAL__LEDGER": str(tmp_path / "l")}
    (tmp_path / "source").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "source", env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "succeeded"
    assert "ran" in done.stderr
    [log] = (tmp_path / "home").glob("jobs/*/logs/*.executor.log")
    lines = log.read_text().splitlines()
    assert len(lines) == len(set(lines)), "an executor writes into the log of its master as well"
