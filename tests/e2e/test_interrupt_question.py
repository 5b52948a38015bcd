"""Ctrl-C on a terminal: a question, and what each answer does to the job."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.lab import TONY, Lab
from tests.e2e.typed_terminal import CTRL_C, TypedTerminal, type_at
from tony.cli.interrupt_question import QUESTION

pytestmark = pytest.mark.e2e

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saving", flush=True), sys.exit(0)))
print("the program is up", flush=True)
time.sleep(3600)
"""


@contextmanager
def followed(lab: Lab, term: str = "xterm", **env: str) -> Iterator[tuple[TypedTerminal, str]]:
    """A job that is followed on a terminal, and its program runs."""
    file = lab.job_file('command = "python x.py"\n', {"x.py": PROGRAM})
    with type_at([TONY, "submit", str(file)], {**lab.env, "TERM": term, **env}, lab.root) as terminal:
        terminal.wait_shown("the program is up")
        yield terminal, lab.only_job()


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_stop(lab: Lab, term: str) -> None:
    """Keys typed before the question, and other keys, are no answer."""
    with followed(lab, term) as (terminal, job):
        terminal.type(b"s")
        terminal.type(CTRL_C)
        terminal.wait_shown(QUESTION)
        assert not terminal.has_echo()
        terminal.type(b"x")
        assert lab.status(job)["state"] == "running"
        terminal.type(b"s")
        terminal.wait_shown("saving")
        assert terminal.wait_exit() == 4
        assert lab.status(job)["state"] == "killed"


def test_a_second_one_stops(lab: Lab) -> None:
    with followed(lab) as (terminal, job):
        terminal.type(CTRL_C)
        terminal.wait_shown(QUESTION)
        terminal.type(CTRL_C)
        terminal.wait_shown(f"Stopping job {job}")
        assert terminal.wait_exit() == 4
        assert terminal.has_echo()


def test_detach_and_attach(lab: Lab) -> None:
    """The job continues; the terminal is as it was."""
    with followed(lab) as (terminal, job):
        terminal.type(CTRL_C)
        terminal.wait_shown(QUESTION)
        terminal.type(b"d")
        assert terminal.wait_exit() == 130
        assert terminal.has_echo()
        assert f"tony attach {job}" in terminal.seen
        assert lab.status(job)["state"] == "running"
    with type_at([TONY, "attach", job], lab.env, lab.root) as terminal:
        terminal.wait_shown("the program is up")
        terminal.type(CTRL_C)
        terminal.wait_shown(QUESTION)
        terminal.type(CTRL_C)
        assert terminal.wait_exit() == 4


def test_continue(lab: Lab) -> None:
    """The question is asked again by the next one."""
    with followed(lab) as (terminal, job):
        for _ in range(2):
            terminal.type(CTRL_C)
            terminal.wait_shown(QUESTION)
            terminal.type(b"c")
            terminal.wait_shown(f"Job {job} continues")
            assert terminal.has_echo()
        assert lab.status(job)["state"] == "running"
        lab.tony("kill", job)
        assert terminal.wait_exit() == 4


def test_the_job_ends_meanwhile(lab: Lab) -> None:
    with followed(lab) as (terminal, job):
        terminal.type(CTRL_C)
        terminal.wait_shown(QUESTION)
        lab.tony("kill", job)
        assert terminal.wait_exit() == 4
        assert terminal.has_echo()


def test_the_user_has_chosen_to_stop(lab: Lab) -> None:
    """In the user's configuration file."""
    config = lab.root / "user" / ".config" / "tony"
    config.mkdir(parents=True)
    (config / "tony.toml").write_text('on_interrupt = "stop"\n')
    with followed(lab) as (terminal, job):
        terminal.type(CTRL_C)
        terminal.wait_shown(f"Stopping job {job}")
        assert terminal.wait_exit() == 4
        assert QUESTION not in terminal.seen


def test_the_user_has_chosen_to_detach(lab: Lab) -> None:
    """By a variable; it holds without a terminal, too."""
    file = lab.job_file('command = "python x.py"\n', {"x.py": PROGRAM})
    follower = lab.follow("submit", file, env={"TONY_SET_ON_INTERRUPT": "detach"})
    job = lab.wait_submitted()
    lab.wait_output(job, "main:0", "the program is up")
    os.killpg(follower.pid, signal.SIGINT)
    _, err = follower.communicate(timeout=60)
    assert follower.returncode == 130
    assert f"tony attach {job}" in err
    assert lab.status(job)["state"] == "running"
