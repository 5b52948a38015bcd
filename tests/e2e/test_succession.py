"""The application master of a job on this machine is killed, and no process of the user: another one continues."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import CEILING, Lab, command_of, frozen, kill, until
from tony.linux import process

pytestmark = pytest.mark.e2e

#: Counts until the gate is open. Every line is told apart from every other.
COUNT = (
    'trap "echo told to end; exit 7" TERM; echo up; n=0; '
    "until test -e {params.gate}; do n=$((n+1)); echo line $n; sleep 0.05; done; echo over"
)
DIED = "the application master died; AM attempt {} took over"


def counting(lab: Lab, head: str = "", role: str = "", tasks: int = 4) -> Path:
    """A job file of tasks that count until the gate is open."""
    return lab.job_file(
        f"command = '''{COUNT}'''\nstop_grace = \"10s\"\n{head}\n"
        f'[roles.worker]\ninstances = {tasks}\n{role}\n[params]\ngate = "{lab.root / "gate"}"\n'
    )


def submitted(lab: Lab, *arguments: Any, **more: Any) -> str:
    """Such a job, running; answers its id."""
    job = lab.detach(counting(lab, *arguments, **more))
    pids(lab, job)
    return job


def pids(lab: Lab, job: str) -> dict[str, tuple[int, int]]:
    """Waits until every task runs; answers task -> its program and its executor."""

    def all_run() -> dict[str, tuple[int, int]] | None:
        tasks = lab.tasks(job)
        if all(task["pid"] and task["executor_pid"] for task in tasks.values()):
            return {name: (task["pid"], task["executor_pid"]) for name, task in tasks.items()}
        return None

    found: dict[str, tuple[int, int]] = until(all_run, f"every task of {job} runs")
    return found


def kill_am(lab: Lab, job: str) -> int:
    """Kills the application master; returns once another one has come, and answers which attempt that is."""
    master, _ = lab.masters(job)
    kill(master)
    until(lambda: lab.masters(job)[0] != master, "another one has come")
    return int(lab.status(job)["attempt"])


def finish(lab: Lab, job: str) -> dict[str, Any]:
    """Opens the gate; the job succeeds, its log can be replayed, every line of every task is there, nothing is left."""
    (lab.root / "gate").touch()
    status = lab.wait(job)
    assert (status["state"], status["exit_code"]) == ("succeeded", 0), (status, log_of(lab, job))
    replayed = lab.tony("replay", job)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    for task in lab.tasks(job):
        check_lines(lab.tony("logs", job, task).stdout.splitlines())
    gone(lab, job)
    return status


def check_lines(lines: list[str]) -> None:
    assert (lines[0], lines[-1]) == ("up", "over")
    assert lines[1:-1] == [f"line {number}" for number in range(1, len(lines) - 1)]


def gone(lab: Lab, job: str) -> None:
    """Nothing of the job is left: no process, no claim, no file of those that are for the living."""
    lab.wait_removed(job, 60)
    until(lambda: not naming(job), "no process names it")
    folder = lab.home / "jobs" / job
    assert not [name for name in ("am.json", "am.sock", "remains", "secret", "kill.json") if (folder / name).exists()]
    until(lambda: not [name for name in claims(lab) if job in (lab.root / "ledger" / name).read_text()], "no claim")


def naming(job: str) -> list[int]:
    """Processes whose command line names the job's folder."""
    others = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if int(entry.name) != os.getpid()]
    commands = {pid: command_of(pid) for pid in others}
    return [pid for pid, text in commands.items() if f"jobs/{job}".encode() in text and text.startswith(b"tony.")]


def claims(lab: Lab) -> list[str]:
    return [path.name for path in (lab.root / "ledger").glob("*.claim")]


def log_of(lab: Lab, job: str) -> str:
    return (lab.home / "jobs" / job / "am.log").read_text()


# --- nothing is lost --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tls", ["auto", "always"], ids=["unix", "tls"])
def test_four_programs_do_not_notice(lab: Lab, tls: str) -> None:
    """The same processes continue in the same session; those who look on are told in one sentence, and lose no line.

    Over TLS, as on other machines, no later AM is where the one before it was.
    """
    follower = lab.follow("submit", counting(lab, f'tls = "{tls}"'))
    job = lab.wait_submitted()
    before = pids(lab, job)
    addresses = {address_of(lab, job)}
    reader = lab.follow("logs", job, "--follow", "worker:2")
    for attempt in (2, 3):
        assert kill_am(lab, job) == attempt
        assert pids(lab, job) == before
        addresses.add(address_of(lab, job))
        lab.wait_output(job, "worker:3", f"line {attempt * 20}\n")
    if tls == "always":
        assert len(addresses) == 3
        assert {address.rpartition(":")[0] for address in addresses} == {"tls:127.0.0.1"}
    status = lab.status(job)
    assert (status["state"], status["session"], status["attempt"]) == ("running", 1, 3)
    assert "attempt 3" in lab.tony("status", job).stdout
    ended = finish(lab, job)
    assert Counter(task["try"] for task in ended["tasks"]) == {1: 4}
    out, err = follower.communicate(timeout=CEILING)
    assert follower.returncode == 0, out + err
    said = [line for line in (out + err).splitlines() if "application master" in line or "connect" in line]
    assert [line.split(" ", 1)[1] for line in said] == [DIED.format(2), DIED.format(3)]
    check_lines(reader.communicate(timeout=CEILING)[0].splitlines())
    assert len(lab.list_started_programs(job)) == 4


def address_of(lab: Lab, job: str) -> str:
    return str(json.loads((lab.home / "jobs" / job / "am.json").read_text())["address"])


def test_killed_again_before_an_executor_reattached(lab: Lab) -> None:
    """Three AMs are killed within a moment; the fourth continues the job."""
    job = submitted(lab)
    before = pids(lab, job)
    for _ in range(3):
        kill(dead := lab.masters(job)[0])
        until(partial(differs, lab, job, dead), "another one has come")
    assert pids(lab, job) == before
    finish(lab, job)


def differs(lab: Lab, job: str, dead: int) -> bool:
    return lab.masters(job)[0] != dead


def test_an_executor_dies_without_an_am(lab: Lab) -> None:
    """The next AM learns of it and replaces it; the other executors keep their resources."""
    head = 'max_restarts = 1\nbackoff = "10ms"'
    job = lab.detach(counting(lab, head, "gpus = 1"), "--set", "scheduler.local.gpus=4")
    before = pids(lab, job)
    master, supervisor = lab.masters(job)
    with frozen(supervisor):
        kill(master)
        kill(before["worker:1"][1])
        until(lambda: not process.is_alive(before["worker:1"][0]), "its program is ended by its watchdog")
    until(lambda: lab.status(job)["session"] == 2, "session 2")
    after = pids(lab, job)
    for task in ("worker:0", "worker:2", "worker:3"):
        assert after[task][1] == before[task][1]
    assert after["worker:1"][1] != before["worker:1"][1]
    noted = [json.loads(line.partition(" ")[2]) for line in remains_of(lab, job) if line.startswith("launched")]
    devices = {held["container"]: held["devices"] for held in noted}
    assert len(devices) == 5  # no number is given twice
    assert (
        Counter(map(tuple, devices.values())) == {("0",): 1, ("1",): 2, ("2",): 1, ("3",): 1}
        or len({tuple(each) for each in devices.values()}) == 4
    )
    finish_restarted(lab, job)


def remains_of(lab: Lab, job: str) -> list[str]:
    return (lab.home / "jobs" / job / "remains").read_text().splitlines()


def finish_restarted(lab: Lab, job: str) -> None:
    (lab.root / "gate").touch()
    assert lab.wait(job)["state"] == "succeeded"
    assert lab.tony("replay", job).returncode == 0
    gone(lab, job)


def test_its_place_in_the_line_is_kept(lab: Lab) -> None:
    """A waiting job stays ahead of later ones, whichever of its processes dies; running programs keep their
    resources."""
    room = "[scheduler.local]\nmemory = '1g'\n"
    first = lab.detach(holding(lab, "first", room))
    pids(lab, first)
    second = lab.detach(holding(lab, "second", room))
    lab.wait(second, "queued")
    third = lab.detach(holding(lab, "third", room))
    lab.wait(third, "queued")
    before = sorted(claims(lab))
    assert kill_am(lab, first) == 2
    assert kill_am(lab, second) == 2
    assert lab.wait(second, "queued")
    assert sorted(claims(lab)) == before
    (lab.root / "first").touch()
    pids(lab, second)
    assert lab.status(third)["state"] == "queued"
    (lab.root / "second").touch()
    (lab.root / "third").touch()
    for job in (first, second, third):
        assert lab.wait(job)["state"] == "succeeded"
        gone(lab, job)


def holding(lab: Lab, name: str, room: str) -> Path:
    command = f"until test -e {lab.root / name}; do sleep 0.05; done"
    return lab.job_file(f"name = '{name}'\ncommand = '{command}'\n[roles.worker]\nmemory = '1g'\n{room}")


# --- the end of a job -------------------------------------------------------------------------------------------------


def test_the_supervisor_is_killed(lab: Lab) -> None:
    """The job continues. If the AM dies as well, there is no further attempt: the next command closes the job
    directory, and cleans up."""
    job = submitted(lab)
    before = pids(lab, job)
    master, supervisor = lab.masters(job)
    kill(supervisor)
    until(lambda: not process.is_alive(supervisor), "it is dead")
    assert pids(lab, job) == before
    assert lab.masters(job)[0] == master
    assert lab.status(job)["state"] == "running"
    kill(master)
    assert_lost(lab, job)


def assert_lost(lab: Lab, job: str) -> dict[str, Any]:
    status = lab.wait(job)
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("failed", 3, "am-lost")
    gone(lab, job)
    return status


def test_attempts_are_used_up(lab: Lab) -> None:
    """`am_attempts` within ten minutes, and no more; programs are asked to end by who gives up."""
    job = submitted(lab, "am_attempts = 2")
    assert kill_am(lab, job) == 2
    master, supervisor = lab.masters(job)
    kill(master)
    lab.wait_output(job, "worker:0", "told to end")
    until(lambda: not process.is_alive(supervisor), "it has given up")
    failure = assert_lost(lab, job)["failure"]
    assert "2 of 2 AM attempts (am_attempts) died within 10 minutes" in failure["tail"][-1]


# --- tony kill in the gap ---------------------------------------------------------------------------------------------


def test_a_kill_while_no_master_answers_is_kept(lab: Lab) -> None:
    """The next one obeys it before anything else: programs have their grace, and who asked is known."""
    job = submitted(lab)
    master, supervisor = lab.masters(job)
    with frozen(supervisor):
        kill(master)
        killing = lab.follow("kill", job)
        kept = lab.home / "jobs" / job / "kill.json"
        until(kept.exists, "it is kept")
        assert kept.stat().st_mode & 0o777 == 0o600
    assert killing.communicate(timeout=CEILING)[1] == ""
    assert killing.returncode == 0
    assert_killed(lab, job, graceful=True)


def test_a_kill_while_no_am_runs(lab: Lab) -> None:
    """Running programs are stopped all the same, within the grace and ten seconds; a later AM finds the job killed."""
    job = submitted(lab)
    running = [pid for pair in pids(lab, job).values() for pid in pair]
    master, supervisor = lab.masters(job)
    with frozen(supervisor):
        kill(master)
        began = time.monotonic()
        done = lab.tony("kill", job)
        assert (done.returncode, done.stderr) == (0, "")
        until(lambda: not any(map(process.is_alive, running)), "nothing of it runs")
        assert time.monotonic() - began < 10 + 10 + 10  # and a slow machine
    assert_killed(lab, job)


def test_a_kill_of_a_stopped_am(lab: Lab) -> None:
    """The command reports it, with what to do; once it is continued it obeys."""
    job = submitted(lab)
    master, _ = lab.masters(job)
    with frozen(master):
        done = lab.tony("kill", job)
        assert done.returncode == 3
        assert f"kill -9 {master}" in done.stderr
        assert "The request is saved" in done.stderr
    assert_killed(lab, job, graceful=True)


def assert_killed(lab: Lab, job: str, *, graceful: bool = False) -> None:
    status = lab.wait(job)
    assert (status["state"], status["exit_code"], status["failure"]["cause"]) == ("killed", 4, "killed"), log_of(
        lab, job
    )
    assert [each["now"] for each in lab.events_of(job, "kill-requested")] == [False]
    if graceful:
        said = [lab.tony("logs", job, f"worker:{n}", "--stdout").stdout.splitlines()[-1] for n in range(4)]
        assert said == ["told to end"] * 4
    gone(lab, job)
