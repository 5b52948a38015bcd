"""What starts again after a failure, what is charged for it, and when nothing is: with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.lab import Lab, kill, until

pytestmark = pytest.mark.e2e

#: Prints its session and how often it was started, and waits for the file $GO.
WAITS = """
import os, pathlib, time
tries = pathlib.Path("tries-" + os.environ["TASK_INDEX"])
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
print("session", os.environ["SESSION_ID"], "try", len(tries.read_text()), flush=True)
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.02)
"""


def waiting_job(lab: Lab, settings: str) -> tuple[str, Path]:
    """Three workers that wait until the file exists whose path is answered, too."""
    go = lab.root / "go"
    text = (
        f'command = "python x.py"\nmax_restarts = 2\nbackoff = "10ms"\n{settings}\n'
        f'[roles.worker]\ninstances = 3\nrestart = "task"\n[env]\nGO = "{go}"\n'
    )
    return lab.detach(lab.job_file(text, {"x.py": WAITS})), go


def test_one_task_starts_again_alone(lab: Lab) -> None:
    """kill -9 of one worker's program, then of its container: the others keep theirs, in the same session."""
    job, go = waiting_job(lab, "")
    for index in range(3):
        lab.wait_output(job, f"worker:{index}", "session 1 try 1")
    before = lab.tasks(job)
    kill(before["worker:1"]["pid"])
    lab.wait_output(job, "worker:1", "session 1 try 2")
    until(lambda: lab.tasks(job)["worker:1"]["pid"] not in (None, before["worker:1"]["pid"]), "its pid is told")
    then = lab.tasks(job)
    assert {name: task["pid"] for name, task in then.items() if name != "worker:1"} == {
        name: task["pid"] for name, task in before.items() if name != "worker:1"
    }
    assert then["worker:1"]["executor_pid"] == before["worker:1"]["executor_pid"]
    assert (then["worker:1"]["session"], then["worker:1"]["try"]) == (1, 2)
    assert "restart 1 of 2" in then["worker:1"]["note"]
    kill(then["worker:1"]["executor_pid"])
    until(lambda: (lab.tasks(job)["worker:1"]["try"], lab.tasks(job)["worker:1"]["state"]) == (3, "running"), "try 3")
    go.touch()
    status = lab.wait(job, "succeeded")
    assert (status["session"], status["restarts"]["charged"] + status["restarts"]["free"]) == (1, 2)
    assert {task["pid"] for name, task in then.items() if name != "worker:1"}.isdisjoint({None})
    logs = Path(status["folder"]) / "logs"
    assert {p.name for p in logs.glob("worker-*.out")} == {
        *("worker-0.s1.t1.out", "worker-1.s1.t1.out", "worker-1.s1.t2.out", "worker-1.s1.t3.out", "worker-2.s1.t1.out")
    }
    events = lab.tony("events", job).stdout
    assert "worker:1: killed by SIGKILL" in events
    assert "-> retry (restart 1 of 2)" in events
    replayed = lab.tony("replay", job)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_a_restart_has_a_grace_of_its_own(lab: Lab) -> None:
    """Who does not mind SIGTERM holds up the next session for restart_grace only, not for stop_grace."""
    stubborn = """
    import os, signal, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("here", flush=True)
    if os.environ["SESSION_ID"] == "1":
        while not os.path.exists(os.environ["GO"]) or os.environ["TASK_INDEX"] == "0":
            time.sleep(0.02)
        sys.exit(1)
    """
    go = lab.root / "go"
    text = (
        'command = "python x.py"\nmax_restarts = 1\nstop_grace = "1h"\nrestart_grace = "100ms"\n'
        f'[roles.worker]\ninstances = 2\n[env]\nGO = "{go}"\n'
    )
    job = lab.detach(lab.job_file(text, {"x.py": stubborn}))
    for index in range(2):
        lab.wait_output(job, f"worker:{index}", "here")
    go.touch()
    assert lab.wait(job, "succeeded", "failed")["session"] == 2
