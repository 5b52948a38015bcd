"""Jobs for which the cluster has no room now, or never will have."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.yarn.lab import YarnLab, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: What the hog leaves: a master of 512m and two tasks of 128m.
LEFT = 768
#: A name of the greatest length, with characters that could be misinterpreted.
ODD_NAME = "../../pwned $(touch pwned) `id` %s {role} <b>&amp;</b> 'x', \"y\" ☃ 漢字 \U0001f680 Grüße ".ljust(200, "n")
GRAB = "import os, time; open(os.environ['OUT'] + '/' + os.environ['JOB_NAME'], 'w'); time.sleep(3600)"


def hog(lab: YarnLab, left: int) -> str:
    """A job that takes all memory of all nodes but `left` megabytes; answers its id once it has it."""
    text = f"""
    [roles.whole]
    instances = 2
    memory = "4g"
    [roles.rest]
    memory = "{4096 - 512 - left}m"
    after = {{ started = ["whole"] }}
    """
    job = lab.detach(lab.job('command = "python3 x.py"\n' + text, {"hog/x.py": GRAB}, "hog/job.toml"))
    lab.wait_wrote("rest")
    return job


@pytest.fixture
def full(lab: YarnLab) -> Iterator[str]:
    """A cluster without room for another master."""
    job = hog(lab, 0)
    yield job
    lab.tony("kill", job, "--now")
    lab.wait(job)


def test_accepted_until_there_is_room(lab: YarnLab, full: str) -> None:
    """E26: one job waits and says for what, another that waits is killed; with room the first one runs."""
    waits, given_up = (lab.detach(lab.job('command = "true"\n')) for _ in range(2))
    for job in (waits, given_up):
        status = lab.wait(job, "queued", "pending", "submitted")
        assert "waiting" in status["waiting"] or "AM" in status["waiting"], status["waiting"]
        assert lab.application(job)["state"] == "ACCEPTED"
    done = lab.tony("kill", given_up)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (lab.wait(given_up)["state"], lab.wait_application(given_up)["finalStatus"]) == ("killed", "KILLED")
    assert lab.application(waits)["state"] == "ACCEPTED"
    assert lab.tony("kill", full, "--now").returncode == 0
    assert lab.wait(waits)["state"] == "succeeded"


def test_queue_time_out(lab: YarnLab, full: str) -> None:
    """E26 again: who follows a job that waits too long ends it, told where it stood; one detached waits until then."""
    before = lab.detach(lab.job('command = "true"\nqueue_timeout = "2s"\n'))
    done = lab.submit(lab.job('command = "true"\nqueue_timeout = "2s"\n'))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "position 2 of 2 pending applications in queue" in done.stderr
    job = lab.jobs()[-1]
    failure = lab.failure(job)
    assert (failure["cause"], "2 s (queue_timeout)" in failure["reason"]) == ("queue-timeout", True), failure
    ended = lab.wait_application(job)
    assert (ended["finalStatus"], "queue_timeout" in ended["diagnostics"]) == ("KILLED", True)
    assert lab.application(before)["state"] == "ACCEPTED"
    followed = lab.tony("logs", "--follow", before)
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert lab.failure(before)["cause"] == "queue-timeout"


def test_allocation_time_out(lab: YarnLab) -> None:
    """E25: says how many containers were granted and how many are missing; what was granted is free at once."""
    big = hog(lab, LEFT)
    head = 'allocation_timeout = "10s"'
    done = lab.submit(lab.roles("import time; time.sleep(3600)", "[roles.worker]\ninstances = 4\n", head))
    assert done.returncode == 3, done.stdout + done.stderr
    (job,) = {*lab.jobs()} - {big}
    failure = lab.failure(job)
    assert failure["cause"] == "allocation-timeout"
    assert "2 of 4" in failure["reason"], failure["reason"]
    assert "worker" in failure["reason"]
    lab.wait_application(job)
    until(lambda: lab.application(job)["allocatedMB"] in (-1, 0), "nothing is held any longer")
    assert lab.tony("kill", big, "--now").returncode == 0
    assert lab.wait(big)["state"] == "killed"


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("[roles.worker]\n", ["scheduler.yarn.queue=nowhere"], ["nowhere", "default, other"]),
        ("[roles.worker]\n", ["scheduler.yarn.queue=root"], ["default, other"]),
        ('[roles.worker]\ninstances = 10000\nmemory = "5g"\n', [], ["5g", "4g", "maximum-allocation-mb"]),
        ("[roles.worker]\nvcores = 9\n", [], ["9", "8", "vcores"]),
        ("[roles.worker]\ngpus = 3\n", [], ["3 yarn.io/gpu", "2"]),
        ('[roles.worker]\nresources = { "yarn.io/fpga" = 1 }\n', [], ["yarn.io/fpga", "memory-mb", "yarn.io/gpu"]),
        ('[roles.worker]\nnode_label = "fast"\n', [], ["fast", "none"]),
        ("[roles.worker]\n", ["scheduler.yarn.am_memory=9g"], ["9g", "4g", "application master"]),
        ('[roles.worker]\nyarn.placement = "in,node,ps"\n', [], ["no container of the job has the tag ps"]),
    ],
    ids=[
        *("no-queue", "parent-queue", "memory", "vcores", "gpus", "resource", "label", "master", "tag"),
    ],
)
def test_refused(lab: YarnLab, text: str, arguments: list[str], said: list[str]) -> None:
    """Exit 2, with the key, the numbers and what there is; no record here, no application there."""
    before = lab.applications()
    sets = [word for each in arguments for word in ("--set", each)]
    done = lab.submit(lab.roles("", text), *sets)
    assert done.returncode == 2, done.stdout + done.stderr
    assert not [each for each in said if each not in done.stderr], done.stderr
    assert (lab.jobs(), lab.applications()) == ([], before)


def test_no_constraints_here(lab: YarnLab) -> None:
    """Only the ResourceManager knows that it takes none: the job fails with the setting of its that needs them."""
    jobs = {
        "roles.worker.yarn.placement": lab.detach(
            lab.roles("", '[roles.worker]\nyarn.placement = "notin,node,worker"\n')
        ),
        "scheduler.yarn.placement": lab.detach(
            lab.job('command = "true"\n', name="all.toml"), "--set", "scheduler.yarn.placement=os=linux"
        ),
    }
    for key, job in jobs.items():
        assert lab.wait(job)["exit_code"] == 3
        reason = lab.failure(job)["reason"]
        assert f"this cluster has placement constraints disabled, but {key} needs them" in reason, reason
        assert "yarn.resourcemanager.placement-constraints.handler" in reason


def test_gpus_that_there_are(lab: YarnLab) -> None:
    """Pretended ones, on one node only: a task that wants them gets there."""
    done = lab.submit(lab.job('command = "true"\n[roles.worker]\ngpus = 2\n[roles.ps]\n'))
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.tasks(lab.only_job())["worker:0"]["host"] == "127.0.1.1"


def test_yarn_gets_the_jobs_queue_tags_and_lifetime(lab: YarnLab) -> None:
    """Also type and name. Priorities are cut at the cluster's maximum, 0."""
    sets = ["queue=other", "priority=3", "tags=night, mnist", "application_type=TRAINING", "lifetime=1h"]
    words = [word for each in sets for word in ("--set", f"scheduler.yarn.{each}")]
    job = lab.detach(
        lab.roles("import time; time.sleep(3600)", head=f"name = {json.dumps(ODD_NAME, ensure_ascii=False)}"), *words
    )
    seen = lab.application(job)
    shown = {name: seen[name] for name in ("queue", "applicationType", "name")}
    assert shown == {"queue": "root.other", "applicationType": "TRAINING", "name": ODD_NAME}
    assert set(seen["applicationTags"].split(",")) == {"night", "mnist", "tony"}  # ours, as the type does not say so
    (timeout,) = seen["timeouts"]["timeout"]
    assert (timeout["type"], timeout["remainingTimeInSeconds"] > 3000) == ("LIFETIME", True)
    assert lab.tony("kill", job, "--now").returncode == 0
    lab.wait(job, "killed")


def test_no_cluster(lab: YarnLab) -> None:
    """A configuration that does not exist, and daemons that do not answer: each has its message, and no job
    directory."""
    job = lab.job('command = "true"\n')
    done = lab.submit(job, env={"HADOOP_CONF_DIR": str(lab.root / "nothing")})
    assert done.returncode == 2, done.stderr
    assert str(lab.root / "nothing") in done.stderr
    conf = lab.root / "conf"
    conf.mkdir()
    for name in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml"):
        text = (lab.cluster.conf / name).read_text()
        (conf / name).write_text(text.replace(lab.cluster.state.address("rm.client"), "127.0.0.1:1"))
    done = lab.submit(job, env={"HADOOP_CONF_DIR": str(conf)})
    assert done.returncode == 3, done.stderr
    assert "127.0.0.1:1" in done.stderr
    assert "yarn-site.xml" in done.stderr
    assert "\\n" not in done.stderr
    assert lab.jobs() == []
