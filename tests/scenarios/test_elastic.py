"""A gang starts or continues with fewer tasks where there is no room for all, and has all again after a restart."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import Lab, kill, until
from tests.kubernetes.lab import KubernetesLab
from tests.scenarios.conftest import only_on
from tests.support.child_modules import JobModules, module_words

pytestmark = pytest.mark.e2e

LIMITED = "limits the room by its own AM; on YARN another job takes it: test_as_many_as_there_is_room_for"
#: Says who it is; ends in session 3 only.
WHO = """
import json, os, time
names = ("TASK_INDEX", "TASK_NUM", "RANK", "WORLD_SIZE", "MASTER_PORT", "IS_CHIEF")
print(json.dumps({name: os.environ.get(name) for name in names}), os.environ["SAID"], flush=True)
while os.environ["SESSION_ID"] != "3":
    time.sleep(0.1)
"""

JOB = """
command = "python who.py"
framework = "pytorch"
max_restarts = 2
backoff = "10ms"
stop_grace = "1s"
shrink_after = "3s"
env = { SAID = "{index} of {num_tasks}" }

[roles.worker]
instances = { min = 2, max = 4 }
memory = "64m"
"""


def runs(lab: Lab, job: str, session: int, count: int) -> dict[str, Any]:
    """Waits until so many programs of a session run; answers the status."""

    def there() -> Any:
        status = lab.status(job)
        pids = [task["pid"] for task in status["tasks"] if task["pid"] and task["session"] == session]
        return status if len(pids) == count else None

    status: dict[str, Any] = until(there, f"{count} programs of session {session} run")
    return status


def said(status: dict[str, Any], session: int, count: int) -> dict[str, tuple[dict[str, str], str]]:
    """Task -> what its program printed in a session: its variables, and its placeholders. Waits for so many."""
    logs = Path(status["folder"]) / "logs"

    def all_of_them() -> dict[str, str]:
        texts = {path.name.partition(".")[0]: path.read_text() for path in sorted(logs.glob(f"*.s{session}.t1.out"))}
        return texts if len(texts) == count and all(text.endswith("\n") for text in texts.values()) else {}

    texts = until(all_of_them, f"{count} programs of session {session} have printed")
    split = {name: text.partition("} ") for name, text in texts.items()}
    return {name: (json.loads(variables + end), words.strip()) for name, (variables, end, words) in split.items()}


@only_on("local", why=LIMITED)
def test_three_of_four_and_then_four_again(lab: Lab) -> None:
    """One executor of four is killed and not replaced: three continue, counted without gaps; then there are four."""
    room = lab.root / "room"
    master = JobModules(master=module_words("limited_allocator", str(room)))
    job = lab.detach(lab.job_file(JOB, {"who.py": WHO}), modules=master)
    status = runs(lab, job, 1, 4)
    assert status["sizes"] == [{"role": "worker", "tasks": 4, "least": 2, "most": 4, "left_out": []}]
    room.write_text("3")
    kill(status["tasks"][0]["executor_pid"])

    status = runs(lab, job, 2, 3)
    assert status["sizes"] == [{"role": "worker", "tasks": 3, "least": 2, "most": 4, "left_out": ["worker:0"]}]
    assert (status["tasks"][0]["state"], status["tasks"][0]["note"]) == (
        "pending",
        "left out of session 2: no container within 3 s (shrink_after)",
    )
    seen = said(status, 2, 3)
    assert list(seen) == ["worker-1", "worker-2", "worker-3"]
    assert [words for _, words in seen.values()] == ["0 of 3", "1 of 3", "2 of 3"]
    assert [v["TASK_INDEX"] for v, _ in seen.values()] == [v["RANK"] for v, _ in seen.values()] == ["0", "1", "2"]
    assert {(v["TASK_NUM"], v["WORLD_SIZE"], v["MASTER_PORT"]) for v, _ in seen.values()} == {
        ("3", "3", seen["worker-1"][0]["MASTER_PORT"])
    }
    assert [v["IS_CHIEF"] for v, _ in seen.values()] == ["true", None, None]

    room.write_text("4")
    kill(status["tasks"][2]["pid"])
    assert lab.wait(job)["exit_code"] == 0
    seen = said(status, 3, 4)
    assert [(v["RANK"], v["WORLD_SIZE"]) for v, _ in seen.values()] == [(str(rank), "4") for rank in range(4)]
    told(lab, job)


def told(lab: Lab, job: str) -> None:
    """Sizes stand in the status, in the events and in the history, for people and for programs; and it replays."""
    page = lab.tony("status", job).stdout
    assert "worker has 4 of 4 tasks (min 2)" in page
    assert "3 of 4 tasks of worker (without worker:0)" in page
    events = lab.tony("events", job).stdout
    assert "session 2 has 3 of 4 tasks of worker (without worker:0)" in events
    assert "session 3 has all 4 tasks of worker" in events
    assert page.splitlines()[-1] in lab.tony("history", job).stdout
    sessions = json.loads(lab.tony("history", job, "--json").stdout)["sessions"]
    assert [(each["tasks"], each["left_out"]) for each in sessions] == [
        ({"worker": 4}, []),
        ({"worker": 3}, ["worker:0"]),
        ({"worker": 4}, []),
    ]
    replayed = lab.tony("replay", job)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A job that takes what is needed to leave room for three tasks of `memory`."""

    hog: str
    memory: str
    options: tuple[str, ...] = ()
    quota: str = ""


#: On YARN the hog has two of the three nodes; the third one has room for three tasks beside two masters. On Kubernetes
#: a quota has room for two masters of 512 MiB, the hog, and three tasks, all with 64 MiB more for the executor.
ROOM = {
    "local": Room(hog="150m", memory="100m", options=("--set", "scheduler.local.memory=600m")),
    "yarn": Room(hog="4g", memory="1g"),
    "kubernetes": Room(hog="150m", memory="100m", quota="2000Mi"),
}
HOG = """
command = "touch $OUT/$TASK_INDEX; sleep 3600"
[roles.hog]
instances = 2
memory = "{memory}"
"""
GANG = """
command = "echo $TASK_INDEX of $TASK_NUM >> $OUT/s$SESSION_ID; test $SESSION_ID = 2 || sleep 3600"
max_restarts = 1
gang_wait = "8s"
shrink_after = "1m"
[roles.worker]
instances = {{ min = 2, max = 5 }}
memory = "{memory}"
"""


def test_as_many_as_there_is_room_for(lab: Lab, scheduler: str) -> None:
    """Three of five while another job has the rest; when that has ended and a program is killed, five of five.

    In between its application master is killed: the next one knows which are left out, and how much the job holds.
    """
    room = ROOM[scheduler]
    if room.quota:
        assert isinstance(lab, KubernetesLab)
        lab.set_quota({"limits.memory": room.quota})
    hog = lab.detach(lab.job(HOG.format(memory=room.hog), name="hog.toml"), *room.options)
    for started in "01":
        lab.wait_wrote(started)
    job = lab.detach(lab.job(GANG.format(memory=room.memory)), *room.options)
    for index in range(3):
        lab.wait_wrote("s1", f"{index} of 3")
    status = lab.wait(job, "running")
    left_out = ["worker:3", "worker:4"]
    size = {"role": "worker", "tasks": 3, "least": 2, "most": 5, "left_out": left_out}
    assert status["sizes"] == [size]
    notes = {task["note"] for task in status["tasks"] if task["task"] in left_out}
    assert notes == {"left out of session 1: no container within 8 s (gang_wait)"}
    kill(lab.master_of(job))
    until(lambda: lab.status(job)["attempt"] == 2, "another application master continues")
    assert runs(lab, job, 1, 3)["sizes"] == [size]
    assert lab.tony("kill", hog, "--now").returncode == 0
    lab.wait(hog)
    kill(lab.pid_of(job, "worker:0"))
    ended = lab.wait(job)
    assert (ended["state"], ended["exit_code"], ended["session"]) == ("succeeded", 0, 2)
    assert [task["state"] for task in ended["tasks"]] == ["succeeded"] * 5
    assert sorted(lab.wrote("s1").splitlines()) == [f"{index} of 3" for index in range(3)]
    assert sorted(lab.wrote("s2").splitlines()) == [f"{index} of 5" for index in range(5)]
    sessions = json.loads(lab.tony("history", job, "--json").stdout)["sessions"]
    assert [each["tasks"] for each in sessions] == [{"worker": 3}, {"worker": 5}]
