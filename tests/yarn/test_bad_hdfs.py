"""HDFS is full, takes no changes, or is dead: at the submission, and while a job runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.change_detection import CLUSTER
from tests.yarn.lab import YarnLab, until, user
from tony.hadoop.configuration import Configuration
from tony.hadoop.errors import FileMissingError
from tony.mini.daemon_requests import send_request
from tony.schedulers.yarn.cluster_clients import ClusterClients

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER)]

#: No limit, as HDFS has it.
NONE = -1
#: Ends task after task as the test opens their gates.
GATES = """
import os, time
out, task = os.environ["OUT"], os.environ["TASK_INDEX"]
open(f"{out}/up{task}", "w").write("up")
while not os.path.exists(f"{out}/gate{task}"):
    time.sleep(0.05)
"""
TWO = "[roles.worker]\ninstances = 2\n"


def records(job: str) -> str:
    """Where a job's record lies in HDFS."""
    return f"/user/{user()}/.tony/jobs/{job}"


def set_quota(lab: YarnLab, folder: str, *, space: int = NONE, names: int = NONE) -> None:
    """How many bytes, and how many names, may lie below a folder."""
    web(lab, "PUT", folder, f"SETQUOTA&namespacequota={names}&storagespacequota={space}")


def web(lab: YarnLab, method: str, path: str, query: str) -> bytes:
    return send_request(lab.cluster.state.address("nn.web"), method, f"/webhdfs/v1{path}?op={query}&user.name={user()}")


def master_said(lab: YarnLab, job: str) -> str:
    """What its application master has said so far."""
    logs = lab.logs(job)
    return (logs[min(logs)] / "stderr").read_text()


def kinds(data: bytes) -> list[str]:
    """Every event of a log; its last line may still be on its way."""
    return [json.loads(line).get("event", "") for line in data[: data.rfind(b"\n") + 1].splitlines()]


def wait_event(lab: YarnLab, job: str, kind: str, count: int = 1) -> None:
    """Until so many events of a kind are in HDFS."""
    files = ClusterClients.from_configuration(Configuration.load(lab.cluster.conf, {}), {}).web_files()

    def there() -> bool:
        try:
            return kinds(files.read(f"{records(job)}/events.1.jsonl")).count(kind) >= count
        except FileMissingError:
            return False

    with files:
        until(there, f"{count} {kind} of {job} in HDFS")


def events_elsewhere(lab: YarnLab, job: str) -> list[str]:
    """Every event of an ended job, as another machine reads them."""
    done = lab.elsewhere("there").tony("events", job, "--json")
    assert done.returncode == 0, done.stderr
    return kinds(done.stdout.encode())


def test_room_runs_out_while_jobs_run(lab: YarnLab) -> None:
    """Both jobs continue and end right. The one that gets room again has a whole record; of the other it is said."""
    file = lab.roles(GATES, TWO)
    first = lab.detach(file)
    lab.wait_wrote("up0"), lab.wait_wrote("up1")
    other = lab.detach(lab.job('command = "touch $OUT/other; while [ ! -e $OUT/gate0 ]; do sleep 0.05; done"\n'))
    until((lab.out / "other").exists, "it runs")
    wait_event(lab, first, "started", 2)
    wait_event(lab, other, "started")
    for job in (first, other):
        set_quota(lab, records(job), space=1)
    (lab.out / "gate0").touch()
    assert lab.tasks(first)["worker:1"]["state"] == "running"
    until(lambda: "writing the event log to" in master_said(lab, first), "its master has noticed")
    assert "quota" in master_said(lab, first)
    lab.wait_application(other)  # until then its master answers, which knows how the task ended
    lost = lab.wait(other)
    assert (lost["state"], lost["exit_code"], lost["failure"]) == ("succeeded", 0, None)
    assert lost["tasks"][0]["note"] == "the end of its event log is missing"
    assert all(lab.listed(records(other)).values()), "nothing is there by half"
    set_quota(lab, records(first))
    wait_event(lab, first, "exited")
    (lab.out / "gate1").touch()
    status = lab.wait(first)
    assert [task["state"] for task in status["tasks"]] == ["succeeded"] * 2
    assert events_elsewhere(lab, first).count("exited") == 2
    assert set(lab.kept(records(first))) == {"job.json", "summary.json", "am.log", "events.1.jsonl"}


def test_the_name_node_is_killed(lab: YarnLab) -> None:
    """The job continues and answers; a new submission is told which daemon does not answer. Its job directory is
    complete later."""
    job = lab.detach(lab.roles(GATES, TWO))
    lab.wait_wrote("up0"), lab.wait_wrote("up1")
    wait_event(lab, job, "started", 2)
    before = lab.applications()
    lab.cluster.kill("nn")
    try:
        (lab.out / "gate0").touch()
        until(lambda: lab.tasks(job)["worker:0"]["state"] == "succeeded", "its end was seen")
        refused = lab.submit(lab.job('command = "true"\n', name="other.toml"))
        until(lambda: "writing the event log to" in master_said(lab, job), "its master has noticed")
    finally:
        lab.cluster.restart("nn")
    assert refused.returncode == 3
    core = lab.cluster.conf / "core-site.xml"
    assert "HDFS does not respond: http://127.0.0.1:" in refused.stderr
    assert re.search(rf"It is hdfs://127\.0\.0\.1:\d+ \(fs\.defaultFS, {re.escape(str(core))}:\d+\)", refused.stderr)
    assert "Wait until its NameNode runs, or correct the address" in refused.stderr
    assert (lab.jobs(), lab.applications()) == ([job], before)
    _ends_whole(lab, job, lambda: None)


def _ends_whole(lab: YarnLab, job: str, mend: Callable[[], object]) -> None:
    (lab.out / "gate1").touch()
    try:
        until(lambda: "the job succeeded" in master_said(lab, job), "its master knows the end")
    finally:
        mend()
    status = lab.wait(job)
    assert (status["state"], status["exit_code"]) == ("succeeded", 0)
    assert [task["state"] for task in status["tasks"]] == ["succeeded"] * 2
    assert events_elsewhere(lab, job).count("exited") == 2
    assert set(lab.kept(records(job))) == {"job.json", "summary.json", "am.log", "events.1.jsonl"}
