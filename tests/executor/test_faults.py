"""Executors that misbehave on order, for rehearsals."""

import time
from pathlib import Path

import pytest

from tests.executor.fake_am import Guest, Master, context
from tests.support.child_modules import module_words
from tests.support.faulty_executor import read_faults
from tony.protocol import executor_messages as msg

pytestmark = pytest.mark.slow
FAULTY = module_words("faulty_executor")


def test_heartbeats_are_skipped(master: Master, tmp_path: Path) -> None:
    """The first ones are missing, the others come."""
    began = time.monotonic()
    with Guest(context(master, tmp_path), *FAULTY, "skip-heartbeats=8"):
        master.wait(msg.Heartbeat)
        # Nine beats of 0.1 s, the first one at any time within its interval.
        assert time.monotonic() - began > 0.7


def test_end_is_reported_late_with_heartbeats_all_the_while(master: Master, tmp_path: Path) -> None:
    """The report's age says so, too: what it tells is when the program ended."""
    with Guest(context(master, tmp_path), *FAULTY, "skew=1", "only=worker:0"):
        master.wait(msg.Ready)
        master.start()
        master.wait(msg.ProgramStarted)
        began = time.monotonic()
        assert master.wait(msg.ProgramExited).ago > 1.0
        assert time.monotonic() - began > 0.7
        assert len(master.all(msg.Heartbeat)) > 4


def test_registration_comes_late(master: Master, tmp_path: Path) -> None:
    """It attaches, and is ready later."""
    with Guest(context(master, tmp_path), *FAULTY, "delay-ready=0.5"):
        master.wait(msg.Attach)
        began = time.monotonic()
        master.wait(msg.Ready)
        assert time.monotonic() - began > 0.3


def test_others_behave(master: Master, tmp_path: Path) -> None:
    """Faults may be meant for another task."""
    with Guest(context(master, tmp_path), *FAULTY, "skip-heartbeats=1000000", "only=worker:7"):
        master.wait(msg.Heartbeat)


def test_unknown_faults_are_refused() -> None:
    """A misspelt fault would rehearse nothing."""
    assert {"skew": "3"} == read_faults(["skew=3", ""])
    with pytest.raises(ValueError, match="no such fault: skeww"):
        read_faults(["skeww=3"])
