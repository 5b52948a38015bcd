"""Roles that run before all others, and what they hand on, on the cluster."""

from __future__ import annotations

import json

import pytest

from tests.yarn.lab import YarnLab

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change("hadoop", "schedulers", "mini")]

SEE = """
import json, os, sys
names = ("MODEL_PARAMS", "GONE", "TASK_NUM", "TF_CONFIG", "CLUSTER_SPEC", "TB_PORT")
with open(os.environ["OUT"] + "/{JOB_NAME}-{TASK_INDEX}-{SESSION_ID}".format(**os.environ), "w") as file:
    json.dump({name: os.environ.get(name) for name in names}, file)
print("Model parameters: --lr 0.1 " + os.environ["SESSION_ID"], file=sys.stderr)
sys.exit(os.environ["JOB_NAME"] == "worker" and os.environ["SESSION_ID"] == "1")
"""
JOB = """
command = "python3 x.py"
framework = "tensorflow"
max_restarts = 1
[roles.worker]
instances = 2
[roles.prepare]
kind = "setup"
exports = { MODEL_PARAMS = "Model parameters: ", GONE = "never said: " }
"""


def test_setup_hands_on_its_results(lab: YarnLab) -> None:
    """It runs once, alone, in nobody's cluster spec; the workers of both sessions have what it printed."""
    job = lab.detach(lab.job(JOB, {"src/x.py": SEE}, "src/job.toml"))
    assert lab.wait(job)["state"] == "succeeded"
    # What is as short as this is written at once: a file of one that was stopped is whole or empty.
    seen = {path.name: json.loads(said) for path in lab.out.iterdir() if (said := path.read_text())}
    workers = {f"worker-{index}-{session}" for index in range(2) for session in (1, 2)}
    assert {"prepare-0-1", "worker-0-2", "worker-1-2"} <= seen.keys() <= {"prepare-0-1", *workers}
    for name in workers & seen.keys():  # of the first session one may be stopped before it has said anything
        assert (seen[name]["MODEL_PARAMS"], seen[name]["GONE"], seen[name]["TASK_NUM"]) == ("--lr 0.1 1", None, "2")
        assert json.loads(seen[name]["CLUSTER_SPEC"]).keys() == {"worker"}
    first = seen["prepare-0-1"]
    assert {first[name] for name in ("MODEL_PARAMS", "TF_CONFIG", "CLUSTER_SPEC", "TB_PORT")} == {None}
    assert "GONE is not set" in lab.tasks(job)["prepare:0"]["note"]
    assert "exports MODEL_PARAMS; printed nothing for GONE" in lab.tony("events", job).stdout
    assert "identical" in lab.tony("replay", job).stdout
