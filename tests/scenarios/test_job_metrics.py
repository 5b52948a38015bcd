"""A job that is measured, from the programs to what is kept of them."""

from __future__ import annotations

import asyncio
import base64

import pytest

from tests.e2e.lab import Lab, kill, until
from tests.executor.event_records import VERSION, framed, scalar
from tests.scenarios.conftest import only_on
from tests.yarn.lab import YarnLab, user
from tony.history.metrics_reader import Metrics
from tony.jobs.am_client import request_metrics, request_stacks
from tony.model.state_directory import Home, JobFolder
from tony.protocol.client_messages import Measured
from tony.protocol.shared_messages import Stacks

pytestmark = pytest.mark.e2e

JOB = """
metrics_interval = "200ms"
[roles.teller]
command = "exec python3 teller.py {end}"
[roles.isolated]
command = "exec python3 -S teller.py {end}"
[roles.printer]
command = "echo Epoch 7/9: loss=0.5; until [ -e {end} ]; do sleep 0.05; done"
progress_pattern = 'Epoch (?P<step>[0-9]+)/(?P<total>[0-9]+): loss=(?P<loss>[0-9.]+)'
[roles.writer]
command = "python3 decode.py {events} > events.out.tfevents.1; until [ -e {end} ]; do sleep 0.05; done"
progress_summaries = "{{params.logs}}"
[params]
logs = "."
"""
DECODE = "import base64, sys; sys.stdout.buffer.write(base64.b64decode(sys.argv[1]))"
#: As users write it: their Python has a `tony`, or (`-S`) none but the one that lies beside their program.
TELLER = """
import os, sys, time
import tony

def train():
    step = 0
    while not os.path.exists(sys.argv[1]):
        step += 1
        tony.progress(step, total=1000000, loss=1 / step)
        if step % 10 == 0:
            with tony.checkpoint(step):
                time.sleep(0.02)
        time.sleep(0.02)
    with tony.checkpoint(424242):
        pass

train()
"""


async def _request_stacks(folder: JobFolder, *tasks: str) -> list[Stacks]:
    return [stacks async for stacks in request_stacks(folder, "tester", tasks)]


def test_a_job_is_measured(lab: Lab, scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its programs use and how far they are, whichever way they tell it, is seen while it runs and afterwards."""
    for name, value in lab.env.items():  # of the requests that the test itself sends
        monkeypatch.setenv(name, value)
    end = lab.out / "end"
    events = base64.b64encode(VERSION + framed(scalar(31, loss=0.25))).decode()
    job = lab.detach(lab.job(JOB.format(end=end, events=events), {"teller.py": TELLER, "decode.py": DECODE}))
    folder = Home(lab.home).job(job)
    lab.wait(job, "running")

    def newest() -> dict[str, dict[str, float]]:
        measured: Measured = asyncio.run(request_metrics(folder))
        found: dict[str, dict[str, float]] = {}
        for points in measured.points:
            if points.mean:
                found.setdefault(points.task, {})[points.series] = points.mean[-1]
        return found

    wanted = {"cpu", "rss", "threads", "files", "step"}
    tasks = ("teller:0", "isolated:0", "printer:0", "writer:0")
    seen = until(
        lambda: (
            found if all(wanted | {"user.loss"} <= (found := newest()).get(task, {}).keys() for task in tasks) else None
        ),
        "all tasks are measured",
    )
    assert (seen["printer:0"]["step"], seen["printer:0"]["total"], seen["printer:0"]["user.loss"]) == (7, 9, 0.5)
    assert (seen["writer:0"]["step"], seen["writer:0"]["user.loss"]) == (31, 0.25)
    assert seen["teller:0"]["rss"] > 4 << 20
    assert 0 < seen["teller:0"]["user.loss"] <= 1

    stacks, other = asyncio.run(_request_stacks(folder, "teller:0", "printer:0"))
    assert stacks.how in ("py-spy", "faulthandler"), stacks.problem
    assert "train" in stacks.text
    assert other.how == "kernel"

    end.touch()
    assert lab.wait(job)["state"] == "succeeded"
    if scheduler == "local":  # elsewhere it is where the container's logs are
        assert "train" in (folder.logs / stacks.name).read_text()
    assert lab.tony("events", job).returncode == 0  # brings what was measured
    with Metrics(folder.metrics) as kept:
        assert sorted(kept.tasks()) == sorted(tasks)
        assert wanted <= set(kept.series())
        assert kept.read_newest()["printer:0"]["user.loss"] == pytest.approx(0.5)
        for task in ("teller:0", "isolated:0"):
            saved = [each.step for each in kept.checkpoints(task)]
            assert saved[-1] == 424242, "one that was written at the very end"
            assert saved[:-1] == list(range(10, 10 * len(saved), 10)), "each once, and none is missing"
        assert kept.checkpoints("printer:0") == ()


PROGRAM = """
import os, time, tony
step, last = 0, None
while last is None or step < last:
    step += 1
    tony.progress(step, loss=1 / step)
    time.sleep(0.05)
    if last is None and os.path.exists(f"{os.environ['OUT']}/go"):
        last = step + 20
with open(f"{os.environ['OUT']}/last", "w") as file:
    print(step, file=file)
"""


def measured(lab: YarnLab, job: str) -> Metrics:
    return Metrics(Home(lab.home).job(job).metrics)


@only_on("yarn", why="local measures into the job's folder: nothing comes from elsewhere")
def test_measurements_come_here(lab: YarnLab) -> None:
    """They outlive the master that heard them, and lie in the job's folder when it has ended, wherever one looks."""
    job = lab.detach(lab.roles(PROGRAM, head='metrics_interval = "500ms"'))
    there = f"/user/{user()}/.tony/jobs/{job}"
    until(lambda: "metrics.db" in lab.listed(there), "the first of it is in HDFS")
    assert lab.tony("events", job).returncode == 0  # brings what is new
    with measured(lab, job) as metrics:
        early = metrics.points("worker:0", "rss")
        assert early.at
    kill(lab.master_of(job))
    until(lambda: lab.status(job)["attempt"] == 2 and lab.status(job)["state"] == "running", "the next master")
    (lab.out / "go").touch()
    assert lab.wait(job)["state"] == "succeeded"
    for each in (lab, lab.elsewhere("there")):
        assert each.tony("events", job).returncode == 0
        with measured(each, job) as metrics:
            assert metrics.points("worker:0", "rss").at[0] <= early.at[0] + early.every
            (told,) = metrics.progress()
            assert (told.first_step, told.session) == (1.0, 1)
            assert told.step == float((lab.out / "last").read_text())
            assert "user.loss" in metrics.series()
