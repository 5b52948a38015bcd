"""Two gangs that each hold a part of what both need: one gives way, and both end right."""

from __future__ import annotations

from functools import partial

import pytest

from tests.change_detection import CLUSTER, RUNTIME
from tests.yarn.lab import YarnLab, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change(*CLUSTER, *RUNTIME)]

#: On three nodes of 4 GB there is room for five of these beside the masters at most, and for four at least.
GANG = """
[roles.prepare]
command = "touch $OUT/$JOB_ID; until test -e $OUT/both; do sleep 0.1; done"
memory = "256m"
[roles.worker]
instances = 4
memory = "2g"
after = ["prepare"]
"""
HOG = """
[roles.hog]
instances = 3
memory = "3g"
"""


def test_two_jobs_that_need_more_than_half(lab: YarnLab) -> None:
    """The cluster fills its two queues in turn, so that each job has two of four containers; nothing is charged, all
    succeed."""
    hogging = 'command = "touch $OUT/$TASK_INDEX; until test -e $OUT/enough; do sleep 0.1; done"\n'
    hog = lab.detach(lab.job(hogging + HOG, name="hog.toml"))
    for index in "012":
        lab.wait_wrote(index)
    file = lab.job('command = "echo $JOB_ID >> $OUT/ran"\ngang_patience = "8s"\n' + GANG)
    jobs = [lab.detach(file, "--set", f"scheduler.yarn.queue={queue}") for queue in ("default", "other")]
    for job in jobs:  # YARN reserves nodes for what does not fit yet, and lets no other application master there
        lab.wait_wrote(job)
    (lab.out / "both").touch()
    for job in jobs:  # one after the other: a gang that has just backed off waits for something else
        until(partial(_lacks_room, lab, job), f"{job} waits for room")
    (lab.out / "enough").touch()  # at once: one that gives way before has nothing to give, and the other gets all
    ended = [lab.wait(job) for job in jobs]
    assert lab.wait(hog)["state"] == "succeeded"
    assert [(each["state"], each["session"]) for each in ended] == [("succeeded", 1)] * 2
    told = [lab.events(job) for job in jobs]
    gave_way = [events for events in told if any(each["data"].get("deadline") == "gang-pause" for each in events)]
    assert gave_way
    causes = [each["data"].get("cause", "") for each in gave_way[0]]
    assert any(" missing; nothing was granted for 8 s (gang_patience)" in cause for cause in causes), causes
    assert sorted(lab.wrote("ran").split()) == sorted(jobs * 4)


def _lacks_room(lab: YarnLab, job: str) -> bool:
    return "pending in queue" in lab.status(job)["waiting"]
