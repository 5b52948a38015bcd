"""Roles that run before all others, and what they pass on."""

from __future__ import annotations

import json

import pytest

from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

SEE = """
import json, os, pathlib, sys, time
names = ("MODEL_PARAMS", "TASK_NUM", "WORLD_SIZE", "RANK", "TB_PORT")
print(json.dumps({name: os.environ.get(name) for name in names}), flush=True)
if os.environ["JOB_NAME"] == "worker":
    out, session = pathlib.Path(os.environ["OUT"]), os.environ["SESSION_ID"]
    (out / f"{session}-{os.environ['TASK_INDEX']}").touch()
    while not all((out / f"{session}-{index}").exists() for index in range(2)):
        time.sleep(0.01)
    sys.exit(session == "1")
"""
#: The first worker that fails ends its session, so each waits until both have printed. The sidecar is ended with the
#: workers, so they wait until it has printed as well.
RANKS = """
framework = "pytorch"
failure_policy = "any-task"
max_restarts = 1
[roles.worker]
instances = 2
command = "until [ -e $OUT/board-$SESSION_ID ]; do sleep 0.05; done; exec python3 x.py"
[roles.board]
kind = "sidecar"
command = "python3 x.py; touch $OUT/board-$SESSION_ID; sleep 60"
[roles.prepare]
kind = "setup"
instances = 2
env = { MODEL_PARAMS = "none yet" }
command = "python3 x.py; echo said in {session}; [ {index} = 0 ] || echo Model parameters: --lr 0.{index}"
exports = { MODEL_PARAMS = "Model parameters:" }
"""


def test_setup_hands_on_its_results(lab: Lab) -> None:
    """It runs once, by itself, without a rank; the others of both sessions have what its second task printed."""
    done = lab.submit(lab.job(RANKS, {"x.py": SEE}))
    assert done.returncode == 0, done.stderr
    job = lab.only_job()
    expectations: list[tuple[str, int, list[str | None]]] = [
        ("prepare:0", 1, ["none yet", "2", None, None, None]),
        ("worker:0", 1, ["--lr 0.1", "2", "2", "0"]),
        ("worker:1", 2, ["--lr 0.1", "2", "2", "1", None]),
        ("board:0", 2, ["--lr 0.1", "2", None, None, None]),
    ]
    for task, session, expected in expectations:
        printed = lab.tony("logs", job, task, "--session", str(session), "--stdout").stdout
        assert list(json.loads(printed.splitlines()[0]).values())[: len(expected)] == expected, (task, printed)
    assert lab.tony("logs", job, "prepare", "--session", "2").stdout == ""
    assert "exports MODEL_PARAMS" in lab.tony("events", job).stdout
    assert "OK:" in lab.tony("replay", job).stdout
