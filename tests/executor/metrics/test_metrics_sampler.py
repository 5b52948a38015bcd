"""What an executor measures of a real program, and what that program tells."""

import sys
from pathlib import Path

import pytest

from tests.executor.conftest import Start
from tests.executor.fake_am import Master
from tony.model.metric_definitions import series_of
from tony.protocol import executor_messages as msg

pytestmark = pytest.mark.slow

#: Ends when the file `end` is there.
_WAIT = "import os, time\nwhile not os.path.exists('end'): time.sleep(0.01)\n"


def start(master: Master, guest: Start, program: str, interval: float = 0.1, **more: object) -> None:
    """Runs a Python program that is measured."""
    master.sample_interval = interval
    guest((sys.executable, "-c", program), **more)
    master.wait(msg.Ready)
    master.start()


def end(master: Master, folder: Path) -> None:
    """Lets it end, and waits for that."""
    (folder / "work/end").touch()
    assert master.wait(msg.ProgramExited).status.ok


def test_a_program_is_measured(master: Master, guest: Start, tmp_path: Path) -> None:
    """Every metric has its usual name; child processes are included, and rates come with the first sample."""
    burn = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
    start(master, guest, burn + _WAIT)
    # One process may use that much while it starts, before there is a child.
    busy = {"cpu": 0.1, "threads": 2}
    sample = master.wait(msg.Sample, lambda it: all(it.values.get(name, 0) >= least for name, least in busy.items()))
    assert (sample.session, sample.try_) == (1, 1)
    assert all(series_of(name) for name in sample.values)
    assert {"cpu", "rss", "threads", "files", "major-faults", "disk-read", "disk-write"} <= sample.values.keys()
    assert sample.values["rss"] > 4 << 20
    assert any("pss" in each.values for each in master.all(msg.Sample))
    end(master, tmp_path)


def test_a_program_reports_its_progress(master: Master, guest: Start, tmp_path: Path) -> None:
    """Step, total and its own numbers come with a sample; a checkpoint comes once, and with its time."""
    tell = "import tony\ntony.progress(3, 10, loss=0.5)\n"
    save = "with tony.checkpoint(3): time.sleep(0.05)\n"
    start(master, guest, tell + _WAIT + save)
    sample = master.wait(msg.Sample, lambda sample: "step" in sample.values)
    told = {name: sample.values[name] for name in ("step", "total", "user.loss")}
    assert told == {"step": 3, "total": 10, "user.loss": 0.5}
    assert sample.first_step == 3
    assert 0 <= sample.step_ago <= sample.first_ago < 30
    later = master.wait(msg.Sample, lambda each: each.first_ago > sample.first_ago)
    assert (later.values["step"], later.first_step) == (3, 3), "what it said last holds"
    end(master, tmp_path)
    saved = [each for sample in master.all(msg.Sample) for each in sample.saved]
    assert [each.step for each in saved] == [3]
    assert saved[0].took >= 0.05
    kinds = [type(each) for each in master.messages if isinstance(each, msg.Sample | msg.ProgramExited)]
    assert kinds[-1] is msg.ProgramExited
