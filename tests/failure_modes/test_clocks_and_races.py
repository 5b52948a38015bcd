"""Bad moments: a clock that goes back, two who come at once, a part of ours that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import Counter

import pytest

from tests.e2e.lab import CEILING, Lab, until
from tests.failure_modes.job_processes import children, parts_of
from tests.failure_modes.refusals import running
from tests.support.child_modules import JobModules, module_words
from tony.linux.process import is_alive

pytestmark = pytest.mark.e2e

HOUR = 3600.0


# --- a clock that goes back -------------------------------------------------------------------------------------------

#: A clock that is an hour back as soon as a file is there. The machine's own clock stays untouched.
BACKWARDS = """
import pathlib, time
real = time.time
gate = pathlib.Path({gate!r})
def an_hour_back():
    return real() - ({hour} if gate.exists() else 0.0)
time.time = an_hour_back
"""
#: Carries that clock into the application master and the executors, which read no file of the user but adapters.
ADAPTER = """
from tony.frameworks.framework_interface import Framework
class Backwards(Framework):
    name = "backwards"
    def build_shared(self, spec, cluster): return None
    def environment(self, shared, task): return [{}]
"""


@pytest.fixture
def backwards(lab: Lab) -> Lab:
    """A lab in which every process of ours has a clock that `lab.root / "back"` sets back."""
    clock = BACKWARDS.format(gate=str(lab.root / "back"), hour=HOUR)
    plug = lab.root / "plug"
    (plug / "b-1.dist-info").mkdir(parents=True)
    (plug / "b-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: b\nVersion: 1\n")
    (plug / "b-1.dist-info" / "entry_points.txt").write_text("[tony.frameworks]\nbackwards = backwards:Backwards\n")
    (plug / "backwards.py").write_text(clock + ADAPTER)
    (plug / "sitecustomize.py").write_text(clock)
    lab.env |= {"PYTHONPATH": str(plug), "TONY_SET_FRAMEWORK": "backwards"}
    return lab


TICKS = "n=0; while test ! -e {gate}; do n=$((n+1)); echo tick $n; sleep 0.1; done"


def test_a_clock_that_is_set_back_while_a_job_runs(backwards: Lab) -> None:
    """No task counts as silent or late, no duration is negative, the order is kept, the log can be replayed."""
    lab = backwards
    gate = lab.root / "gate"
    text = f'command = "{TICKS.format(gate=gate)}"\nheartbeat_interval = "100ms"\nheartbeat_timeout = "5s"\n'
    job = lab.detach(lab.job_file(f"{text}[roles.worker]\ninstances = 2\n"))
    lab.wait_output(job, "worker:1", "tick 5\n")
    (lab.root / "back").touch()
    lab.wait_output(job, "worker:1", "tick 65\n")  # longer than heartbeat_timeout
    status = lab.status(job)
    assert (status["state"], status["session"]) == ("running", 1)
    page = lab.tony("status", job).stdout
    assert "for 0 s" in page or "for 0.0 s" in page
    later = lab.detach(lab.job_file('command = "echo later"\n'))
    assert lab.wait(later)["state"] == "succeeded"
    assert lab.status("last")["job"] == later  # though its record looks an hour older
    gate.touch()
    status = lab.wait(job)
    assert (status["state"], status["exit_code"]) == ("succeeded", 0)
    assert 0 < status["ended"] - status["submitted"] < CEILING
    entries = lab.events(job)
    assert [entry["at"] for entry in entries] == sorted(entry["at"] for entry in entries)
    assert min(entry["wall"] for entry in entries) < status["submitted"] - HOUR / 2  # it was set back for the master
    for words in (("events", job), ("replay", job), ("list", "--since", "2h"), ("logs", job), ("history", job)):
        done = lab.tony(*words)
        assert (0, "") == (done.returncode, done.stderr), words
    lab.wait_removed(job, 30)


def test_time_limits_when_the_clock_is_set_back(backwards: Lab) -> None:
    """They count seconds that have passed: none of them waits for an hour to come again."""
    lab = backwards
    text = 'command = "echo up; sleep 3600"\nmax_restarts = 1\nbackoff = "100ms"\nstop_grace = "200ms"\n'
    job = lab.detach(lab.job_file(f'{text}execution_timeout = "1500ms"\njob_timeout = "60s"\n'))
    lab.wait_output(job, "main:0", "up")
    (lab.root / "back").touch()
    began = time.monotonic()
    status = lab.wait(job)
    assert time.monotonic() - began < 60
    assert (status["session"], status["failure"]["cause"], status["exit_code"]) == (2, "execution-timeout", 1)
    lab.wait_removed(job, 30)


def test_a_follower_whose_clock_is_set_back(backwards: Lab) -> None:
    """Output is shown as it arrives, and the end is seen."""
    lab = backwards
    gate = lab.root / "gate"
    follower = lab.follow("submit", lab.job_file(f'command = "{TICKS.format(gate=gate)}"\n'))
    job = lab.wait_submitted()
    lab.wait_output(job, "main:0", "tick 5\n")
    (lab.root / "back").touch()
    lab.wait_output(job, "main:0", "tick 15\n")
    gate.touch()
    out, err = follower.communicate(timeout=CEILING)
    assert (follower.returncode, err) == (0, "")
    assert "main:0 | tick 15\n" in out
    assert f"job {job} (" in out


def test_a_record_from_a_moment_that_has_not_come_yet(lab: Lab) -> None:
    """A job whose master never came up, submitted an hour ahead of the clock: its end is found at once all the same."""
    assert lab.tony("run", "--source", "", "--", "true").returncode == 0
    folder = lab.home / "jobs" / lab.only_job()
    for name in ("summary.json", "events.1.jsonl", "am.lock", "am.log"):
        (folder / name).unlink()
    (lab.home / "index.jsonl").unlink(missing_ok=True)
    record = json.loads((folder / "job.json").read_text())
    (folder / "job.json").write_text(json.dumps({**record, "submitted": time.time() + HOUR}))
    status = lab.status(folder.name)
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("failed", 3, "am-lost")
    assert lab.tony("list").returncode == 0


# --- two at once ------------------------------------------------------------------------------------------------------


def test_two_submissions_at_the_same_instant(lab: Lab) -> None:
    """Eight commands wait for one signal, then submit the same new source: eight jobs, each whole, nothing mixed up."""
    lab.file("data.txt", "".join(f"line {n}\n" for n in range(20_000)))
    job = lab.job_file('command = "wc -l < data.txt; echo I am {job_id}"\nsource = "."\n[roles.main]\nmemory = "64m"\n')
    start = lab.root / "start"
    lab.prefix = ("bash", "-c", f'until test -e {start}; do :; done; exec "$@"', "bash")
    followers = [lab.follow("submit", job) for _ in range(8)]
    start.touch()
    for follower in followers:
        out, err = follower.communicate(timeout=CEILING)
        assert follower.returncode == 0, out + err
        assert "Traceback" not in out + err
    lab.prefix = ()
    ids = lab.jobs()
    assert len(ids) == 8
    for each in ids:
        said = (lab.home / "jobs" / each / "logs" / "main-0.s1.t1.out").read_text()
        assert said == f"20000\nI am {each}\n"
    assert len([path for path in (lab.home / "cache").iterdir() if path.is_file()]) == 1  # one object for all
    listed = json.loads(lab.tony("list", "--json").stdout)
    assert Counter(entry["state"] for entry in listed) == {"succeeded": 8}
    assert lab.status("last")["job"] in ids
    shutil.rmtree(lab.home)


# --- a part of ours that is killed ------------------------------------------------------------------------------------


def family(lab: Lab, head: str = "") -> str:
    """A job of two workers that have children of their own; answers its id once all run."""
    text = f'command = "sleep 3600 & setsid sleep 3601 & echo up; wait"\nstop_grace = "1s"\n{head}\n'
    job = lab.detach(lab.job_file(f"{text}[roles.worker]\ninstances = 2\n"))
    lab.wait(job, "running")
    for task in ("worker:0", "worker:1"):
        lab.wait_output(job, task, "up")
    return job


def lost(lab: Lab, job: str, cause: str, state: str = "failed", code: int = 3) -> dict[str, object]:
    """The job has ended with this verdict; every command is told so, and nothing is left."""
    status = lab.wait(job)
    assert (status["state"], status["exit_code"], status["am"]) == (state, code, None)
    assert status["failure"]["cause"] == cause
    lab.wait_removed(job, 60)
    until(lambda: not [line for line in running(lab) if job in line], "no process names it")
    folder = lab.home / "jobs" / job
    assert (folder / "summary.json").exists()
    assert not (folder / "secret").exists()
    assert [] == [path.name for path in folder.rglob("*") if path.is_socket()]
    done = lab.tony("status", job)
    assert (0, "") == (done.returncode, done.stderr)
    assert status["failure"]["reason"] in done.stdout
    assert lab.tony("kill", job).returncode == 0
    answer: dict[str, object] = status
    return answer


def test_the_am_is_killed_before_any_executor_registered(lab: Lab) -> None:
    """The next one continues with new executors or the existing ones; no program starts twice."""
    late = JobModules(executor=module_words("faulty_executor", "delay-ready=5"))
    job = lab.detach(lab.job_file('command = "echo ran"\n[roles.worker]\ninstances = 2\n'), modules=late)
    os.kill(lab.masters(job)[0], signal.SIGKILL)  # found without a command, which takes as long as registering
    status = lab.wait(job)
    assert (status["state"], status["session"], status["attempt"]) == ("succeeded", 1, 2)
    assert lab.tony("logs", job).stdout.count("ran\n") == 2
    lab.wait_removed(job, 60)


def test_the_master_is_killed_while_it_stops_a_job(lab: Lab) -> None:
    """A user had requested the job's end, so it counts as killed; what ignores SIGTERM is stopped all the same."""
    command = "trap '' TERM; echo up; while true; do sleep 1; done"
    job = lab.detach(lab.job_file(f'command = "{command}"\nstop_grace = "60s"\n'))
    lab.wait_output(job, "main:0", "up")
    assert lab.tony("kill", job).returncode == 0
    os.kill(lab.wait(job, "stopping")["am"]["pid"], signal.SIGKILL)
    lab.tony("kill", job, "--now")
    lost(lab, job, "killed", "killed", 4)


def test_master_and_executors_are_killed_at_once(lab: Lab) -> None:
    """Only the watchdogs are left to clean up, and the next command that reads the job."""
    job = family(lab)
    parts = parts_of(lab, job)
    for pid in (parts.supervisor, parts.master, *parts.executors.values()):
        os.kill(pid, signal.SIGKILL)
    lost(lab, job, "am-lost")


def test_executor_and_watchdog_are_killed_at_once(lab: Lab) -> None:
    """The programs die with their executor; what they had started is swept away by the master."""
    job = family(lab)
    parts = parts_of(lab, job)
    os.kill(parts.watchdogs["worker:1"], signal.SIGSTOP)
    os.kill(parts.executors["worker:1"], signal.SIGKILL)
    os.kill(parts.watchdogs["worker:1"], signal.SIGKILL)
    failure = lost(lab, job, "lost")["failure"]
    assert isinstance(failure, dict)
    assert failure["task"] == "worker:1"
    assert "SIGKILL" in failure["reason"]


def test_the_fork_server_is_killed(lab: Lab) -> None:
    """Programs continue without it, and a new one starts when an executor is to be replaced."""
    job = family(lab, "max_restarts = 1")
    parts = parts_of(lab, job)
    (starter,) = {pid for pid in children(parts.master) if pid not in parts.executors.values()} or {0}
    if starter:
        os.kill(starter, signal.SIGKILL)
        until(lambda: not is_alive(starter), "it is dead")
    assert parts == parts_of(lab, job)
    os.kill(parts.executors["worker:1"], signal.SIGKILL)
    until(lambda: lab.status(job)["session"] == 2 and lab.status(job)["state"] == "running", "session 2 runs")
    assert parts_of(lab, job).executors["worker:1"] != parts.executors["worker:1"]
    assert lab.tony("kill", job).returncode == 0
    assert lab.wait(job)["exit_code"] == 4
    lab.wait_removed(job, 30)


def test_everything_of_ours_is_killed_at_once(lab: Lab) -> None:
    """Follower, supervisor, master, executors, watchdogs, as when a machine's memory is full: the next command finds
    the end."""
    text = 'command = "sleep 3600 & echo up; wait"\nstop_grace = "1s"\n[roles.worker]\ninstances = 2\n'
    follower = lab.follow("submit", lab.job_file(text))
    job = lab.wait_submitted()
    parts = parts_of(lab, job)
    all_pids = [follower.pid, parts.supervisor, parts.master, *parts.watchdogs.values(), *parts.executors.values()]
    for pid in all_pids:
        os.kill(pid, signal.SIGSTOP)  # so that none of them sees another one's end
    for pid in all_pids:
        os.kill(pid, signal.SIGKILL)
    follower.communicate(timeout=30)
    lost(lab, job, "am-lost")
