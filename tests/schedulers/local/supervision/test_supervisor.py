"""A supervisor has masters follow one another, and knows when to give up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.support.waiting import block_until
from tony.linux import process
from tony.model.state_directory import JobFolder
from tony.testing.allocator_bench import TIMEOUT_SECONDS

#: A job of masters that do what they are told, each a word: they note their pid, and whether they are the first.
JOB = """
import os, signal, subprocess, sys, time
from pathlib import Path
from tony.linux import liveness_lock
from tony.model.state_directory import JobFolder
from tony.schedulers.local.supervision import supervisor
folder = JobFolder(Path(sys.argv[1]))
words = sys.argv[2:]
pipe = os.pipe()[1]
def attempt(first):
    notes = folder.path / "notes"
    number = len(notes.read_text().splitlines()) if notes.exists() else 0
    present = supervisor.present()
    with notes.open("a") as out:
        taken = liveness_lock.take(folder.am_lock)
        print(os.getpid(), present.pid, present.is_running, first, taken, present.claim is not None,
              signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, file=out)
    word = words[number]
    if word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    if word == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "orphan":  # an executor, in a session of its own, whose parent dies
        other = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (folder.path / "orphan").write_text(str(other.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "fork-server":  # it ends after the master; only then is what it has started the supervisor's child
        executor = "trap 'touch " + str(folder.path) + "/told; exit' TERM; echo up; while :; do sleep 0.05; done"
        server = ["bash", "-c", 'setsid bash -c "$0" & wait', executor]
        subprocess.Popen(server, stdout=subprocess.PIPE).stdout.readline()
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "hand-on":
        file = os.open(folder.path / "claim", os.O_RDWR | os.O_CREAT)
        present.pass_on(file)
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "summary":
        folder.summary.write_text("{}")
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "wait":
        time.sleep(600)
    if word == "no-secret":
        folder.credentials.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return int(word)
if words == ["no-room"]:
    def fork():
        raise BlockingIOError(11, "Resource temporarily unavailable")
    os.fork = fork
sys.exit(supervisor.supervise(folder, attempt, pipe))
"""


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    made = JobFolder(tmp_path)
    made.secret.mkdir()
    made.credentials.write_text("{}")
    made.job.write_text(json.dumps({"spec": {"am_attempts": 3}}))
    return made


def start(folder: JobFolder, *words: str) -> subprocess.Popen[str]:
    """A job whose masters do this, one after the other."""
    argv = [sys.executable, "-c", JOB, str(folder.path), *words]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)


def play(folder: JobFolder, *words: str) -> tuple[int, str, list[list[str]]]:
    """Runs such a job; answers its exit code, what was logged, and the notes of each attempt."""
    job = start(folder, *words)
    said = job.communicate(timeout=TIMEOUT_SECONDS)[1]
    return job.returncode, said, notes(folder)


def notes(folder: JobFolder) -> list[list[str]]:
    path = folder.path / "notes"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def wait(condition: object, what: str) -> None:
    assert callable(condition)
    block_until(condition)


def test_one_that_ends_is_the_only_one(folder: JobFolder) -> None:
    """Whatever its exit code: it has said what there is to say."""
    assert play(folder, "0")[0] == 0
    (folder.path / "notes").unlink()
    code, said, attempts = play(folder, "3")
    assert (code, said, len(attempts)) == (3, "", 1)


def test_masters_follow_one_another(folder: JobFolder) -> None:
    """Each below the same supervisor, with the lock and signals of its own; the first alone has the pipe."""
    code, said, attempts = play(folder, "kill", "segv", "0")
    assert code == 0
    assert len({pid for pid, *_ in attempts}) == 3
    assert len({supervisor for _, supervisor, *_ in attempts}) == 1
    assert [rest for _, _, *rest in attempts] == [
        ["True", first, "True", "False", "True"] for first in ("True", "False", "False")
    ]
    assert "(SIGKILL); starting the next AM attempt" in said
    assert "(SIGSEGV); starting the next AM attempt" in said


def test_attempts_are_counted(folder: JobFolder) -> None:
    """As many deaths as the job says, and no more."""
    folder.am.write_text('{"pid":7,"supervisor":6}')
    code, said, attempts = play(folder, "kill", "kill", "kill", "0")
    assert json.loads(folder.am.read_text()) == {"pid": 7, "supervisor": None}  # so that no client reports it as killed
    assert (code, len(attempts)) == (128 + signal.SIGKILL, 3)
    assert mentions(said, "3 of 3", "10 minutes", "AM", "am_attempts")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"spec": {}}', '{"spec": {"am_attempts": "x"}}'])
def test_a_record_that_does_not_say_how_many(folder: JobFolder, text: str) -> None:
    """Five, the default of the setting."""
    folder.job.write_text(text)
    assert len(play(folder, *["kill"] * 9)[2]) == 5


@pytest.mark.parametrize("word", ["summary", "no-secret", "term"])
def test_a_job_that_has_ended_or_was_killed_gets_no_further_attempt(folder: JobFolder, word: str) -> None:
    """Its summary is there, or only that is missing; or a kill request was saved that no AM has read yet."""
    code, _, attempts = play(folder, word, "0")
    assert len(attempts) == 1
    assert (code == 0) == (word == "summary")


def test_orphans_are_reaped(folder: JobFolder) -> None:
    """An executor of a dead master is the supervisor's child: it leaves no zombie."""
    job = start(folder, "orphan", "wait")
    orphan = folder.path / "orphan"
    wait(lambda: len(notes(folder)) == 2 and orphan.exists(), "the second attempt")
    pid = int(orphan.read_text())
    assert process.parent_of(pid) == job.pid
    os.kill(pid, signal.SIGKILL)
    wait(lambda: process.start_time(pid) is None, "it is reaped")
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()


def test_when_it_gives_up_executors_are_stopped(folder: JobFolder) -> None:
    """And waited for; the job's lock is released at once, so that any command can close the job directory."""
    folder.job.write_text(json.dumps({"spec": {"am_attempts": 1}}))
    assert play(folder, "orphan")[0] == 128 + signal.SIGKILL
    assert process.start_time(int((folder.path / "orphan").read_text())) is None


def test_when_it_gives_up_the_fork_server_is_stopped_too(folder: JobFolder) -> None:
    """Executors are the fork server's children until it has ended as well."""
    folder.job.write_text(json.dumps({"spec": {"am_attempts": 1}}))
    assert play(folder, "fork-server")[0] == 128 + signal.SIGKILL
    assert (folder.path / "told").exists()


def test_a_claim_is_passed_to_the_next_attempt(folder: JobFolder) -> None:
    assert [claim for *_, claim, _ in play(folder, "hand-on", "kill", "0")[2]] == ["False", "True", "True"]


def test_signals_of_terminals_do_not_end_it(folder: JobFolder) -> None:
    """Nor one that is meant for the master, which can be told to end by its own."""
    job = start(folder, "wait")
    wait(lambda: notes(folder), "it runs")
    master = int(notes(folder)[0][0])
    wait(lambda: process.parent_of(master) == job.pid, "it is the parent")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGQUIT):
        wait(lambda number=number: _ignores(job.pid, number), f"it ignores {number.name}")
        os.kill(job.pid, number)
    assert process.is_alive(master)
    os.kill(master, signal.SIGTERM)
    assert "it was asked to stop" in job.communicate(timeout=TIMEOUT_SECONDS)[1]


def _ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_only_one_at_a_time(folder: JobFolder) -> None:
    """While a job lives there is no second supervisor of it, although the first was killed."""
    job = start(folder, "wait")
    wait(lambda: notes(folder), "it runs")
    master = int(notes(folder)[0][0])
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    code, said, attempts = play(folder, "0")
    assert (code, len(attempts)) == (70, 1)
    assert "another application master of" in said
    os.kill(master, signal.SIGKILL)
    wait(lambda: not process.is_alive(master), "it is dead")
    (folder.path / "notes").unlink()
    assert play(folder, "0")[0] == 0
    job.communicate()


def test_no_room_for_a_process(folder: JobFolder) -> None:
    """That is said in a sentence, as the machine's fault."""
    code, said, attempts = play(folder, "no-room")
    assert (code, attempts) == (3, [])
    assert said.startswith("cannot start the application master: Resource temporarily unavailable")
    assert "Traceback" not in said
