"""A gang goes on with fewer tasks where a container cannot be replaced, and has all again after the next restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import Lab, kill, until

pytestmark = pytest.mark.e2e

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
shrink_after = "300ms"
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


def said(status: dict[str, Any], session: int) -> dict[str, tuple[dict[str, str], str]]:
    """Task -> what its program printed in a session: its variables, and its placeholders."""
    found = {}
    for path in sorted((Path(status["folder"]) / "logs").glob(f"*.s{session}.t1.out")):
        variables, end, words = path.read_text().partition("} ")
        found[path.name.partition(".")[0]] = json.loads(variables + end), words.strip()
    return found


def test_three_of_four_and_then_four_again(lab: Lab) -> None:
    """One executor of four is killed and not replaced: three go on, counted without gaps; the next session has four."""
    room = lab.root / "room"
    master = f"scheduler.local.master=tony.testing.cramped_master {room}"
    job = lab.detach(lab.job_file(JOB, {"who.py": WHO}), "--set", master)
    status = runs(lab, job, 1, 4)
    assert status["sizes"] == [{"role": "worker", "tasks": 4, "least": 2, "most": 4, "left_out": []}]
    room.write_text("3")
    kill(status["tasks"][0]["executor_pid"])

    status = runs(lab, job, 2, 3)
    assert status["sizes"] == [{"role": "worker", "tasks": 3, "least": 2, "most": 4, "left_out": ["worker:0"]}]
    assert (status["tasks"][0]["state"], status["tasks"][0]["note"]) == (
        "pending",
        "left out of session 2: no container within 0.3 s (shrink_after)",
    )
    until(lambda: len(said(status, 2)) == 3 and all(words for _, words in said(status, 2).values()), "all have printed")
    seen = said(status, 2)
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
    seen = said(status, 3)
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


def test_with_what_there_is_of_the_machine(lab: Lab) -> None:
    """Another job holds a part: it starts with three at once when it has waited, and has four when the other ended."""
    limits = ("--set", "scheduler.local.memory=400m", "--set", 'roles.worker.memory="100m"')
    other = lab.detach(lab.job_file('command = "sleep 1000"\n[roles.main]\nmemory = "100m"\n'), *limits[:2])
    lab.wait(other, "running")
    text = JOB.replace("shrink_after", "gang_wait").replace('"python who.py"', '"test $SESSION_ID = 2 || sleep 1000"')
    job = lab.detach(lab.job_file(text), *limits)
    status = runs(lab, job, 1, 3)
    assert status["sizes"][0]["left_out"] == ["worker:3"]
    assert lab.tony("kill", other).returncode == 0
    lab.wait(other)
    kill(status["tasks"][0]["pid"])
    assert lab.wait(job)["exit_code"] == 0
    assert [task["state"] for task in lab.status(job)["tasks"]] == ["succeeded"] * 4
