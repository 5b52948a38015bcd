"""The commands of LinkedIn TonY: their flags, their usage, their two exit codes; and what signals do to their jobs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Tony
from tests.cli.in_process_am import Beside, living
from tests.cli.test_submission import Ending, end_with, killed
from tests.cli.test_submission_follower import killed as killed_by_ann
from tests.cli.test_submission_follower import running
from tests.facts import mentions
from tests.jobs.fake_am import JOB, failed, recorded, succeeded
from tests.jobs.recording_scheduler import Desk, Office
from tony.cli.submission_follower import follow_to_end
from tony.cli.submission_signals import SignalGuard
from tony.config.legacy.flags import FLAGS
from tony.model.state_directory import Home
from tony.schedulers import registry

COMMANDS = ("cluster-submit", "local-submit", "notebook-submit")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    """Every scheduler is this one, and every job succeeds at once."""
    desk = Desk()
    monkeypatch.setattr(registry, "load", lambda name: Office(desk))
    monkeypatch.chdir(tmp_path)
    end_with(desk, succeeded)
    return desk


@pytest.mark.parametrize("name", COMMANDS)
def test_usage(tony: Tony, name: str) -> None:
    """With one dash or two, whatever else is said: all flags, and what they mean."""
    for word in ("--help", "-help", "-h"):
        answer = tony(name, "-executes", "x", word)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith(f"Usage: tony {name} [FLAGS]\n")
        assert all(f"  --{row.name} " in f"{answer.out} " for row in FLAGS)


@pytest.mark.parametrize("name", COMMANDS)
def test_unknown_flags_are_named(tony: Tony, desk: Desk, name: str) -> None:
    """With the nearest flag, all of them at once; neither a job nor a cluster is started."""
    answer = tony(name, "--executes", "x.py", "-src_dri", "src", "--", "--conf=a=b", "more")
    assert answer.code == 255
    assert mentions(answer.err.replace("Did", "did"), "-src_dri (command line)", "--src_dir")
    assert "`more` belongs to no flag" in answer.err
    assert answer.err.endswith("errors; nothing was started\n")
    assert desk.jobs == []


@pytest.mark.parametrize(("ending", "code"), [(succeeded, 0), (failed, 255), (killed, 255)])
def test_two_exit_codes(tony: Tony, desk: Desk, ending: Ending, code: int) -> None:
    """0 for success, and -1 for everything else."""
    end_with(desk, ending)
    (Path.cwd() / "src").mkdir()
    (Path.cwd() / "src" / "x.py").touch()
    flags = ("-executes", "x.py", "--src_dir=src", "--python_binary_path=python3", "--conf", "tony.worker.instances=2")
    answer = tony("cluster-submit", *flags)
    assert answer.code == code, answer.err
    spec = desk.jobs[0].record.spec
    assert (spec.scheduler, spec.command_of("worker")) == ("yarn", "python3 x.py")
    assert "(TensorFlowApplication): 2 tasks on yarn" in answer.out


def test_without_a_job(tony: Tony, desk: Desk) -> None:
    """Errors in the settings are -1 as well, and told as ever."""
    answer = tony("cluster-submit", "--conf_file", "missing.xml", "--executes", "x")
    assert answer.code == 255
    assert "missing.xml" in answer.err
    assert desk.jobs == []


@pytest.mark.parametrize(("flags", "limit"), [((), 86400.0), (("--conf", "tony.application.timeout=60000"), 60.0)])
def test_a_notebook_has_a_day(tony: Tony, desk: Desk, flags: tuple[str, ...], limit: float) -> None:
    assert tony("notebook-submit", "--executes", "jupyter", *flags).code == 0
    assert desk.jobs[0].record.spec.timeouts.job == limit


def test_a_notebook_needs_a_port(tony: Tony, desk: Desk) -> None:
    """A job of which no task has one is refused."""
    answer = tony("notebook-submit", "--executes", "jupyter", "--conf", "tony.gadget.instances=2")
    assert answer.code == 255
    assert mentions(answer.err, "TB_PORT")
    assert desk.jobs == []


def test_a_cluster_that_does_not_start(tony: Tony, desk: Desk, monkeypatch: pytest.MonkeyPatch, home: Home) -> None:
    """It is told why, and nothing is left."""
    temp = home.path / "a folder"
    temp.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    answer = tony("local-submit", "--executes", "x.py")
    assert answer.code == 255
    assert "Hadoop cannot use the path " in answer.err
    assert list(temp.iterdir()) == []
    assert desk.jobs == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_job_ends_with_its_command(home: Home, number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever ends that; a second time at once. It answers by which signal, when the job has ended."""
    job = recorded(home)

    def tell(beside: Beside) -> None:
        beside.wait(lambda: beside.master.watched)
        for count in (1, 2):
            os.kill(os.getpid(), number)
            beside.wait(lambda count=count: len(beside.master.kills) == count)  # type: ignore[misc]
        beside.finish(killed_by_ann(job))

    with living(job[0], running(job)) as beside:
        with beside.story(tell), pytest.raises(click.exceptions.Exit) as left:
            follow_to_end(home, JOB, sys.stdout, SignalGuard(tied=True))
        assert [message.now for message in beside.master.kills] == [False, True]
    assert left.value.exit_code == 128 + number
    printed = capsys.readouterr().out
    (stopping,) = [line for line in printed.splitlines() if "Stopping" in line]
    name = "Ctrl-C" if number is signal.SIGINT else number.name
    assert JOB in stopping
    assert stopping.count(name) == (1 if number is signal.SIGINT else 2), "what stops the job, and what would kill it"


def test_a_signal_before_the_job_is_followed(home: Home) -> None:
    """It takes effect as soon as the client follows the job."""
    job = recorded(home)
    early = SignalGuard(tied=True)
    early.begin()
    os.kill(os.getpid(), signal.SIGTERM)

    def tell(beside: Beside) -> None:
        beside.wait(lambda: len(beside.master.kills) == 1)
        beside.finish(killed_by_ann(job))

    with living(job[0], running(job)) as beside, beside.story(tell), pytest.raises(click.exceptions.Exit) as left:
        follow_to_end(home, JOB, sys.stdout, early)
    assert left.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
