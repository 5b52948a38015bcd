"""Faults on order on a real cluster: the same plans, and the same job as on one machine."""

from __future__ import annotations

import pytest

from tests.e2e.rehearsal import Rehearsal, once_in
from tests.yarn.lab import CEILING, YarnLab, until
from tony.linux import process
from tony.model.layout import Home, JobFolder

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.on_change("hadoop", "schedulers", "mini")]


class OnYarn(Rehearsal):
    """The job there. Its newest application master writes into a folder of its container."""

    lab: YarnLab

    def masters_folder(self) -> JobFolder:
        def newest() -> JobFolder | None:
            found = sorted(
                (name, path) for name, path in self.lab.folders(self.job).items() if name.endswith("_000001")
            )
            folders = [Home(path / "tony-home").job(self.job) for _, path in found]
            return next((each for each in reversed(folders) if each.events(1).exists()), None)

        folder: JobFolder = until(newest, f"a master of {self.job} writes its log")
        return folder


def test_programs_and_executors_are_struck(lab: YarnLab) -> None:
    """A program is killed, then an executor; another one stands still for a while: two restarts, nothing more."""
    job = OnYarn(lab, calm=True, gate=False, restarts=3)
    job.wait_running(1)
    plan = """
        kill worker:1
        stop executor worker:2 when worker:2 started in session 2 for 1s
        kill executor worker:0 when worker:0 started in session 2 + 500ms
    """
    with job.striker(plan) as striker:
        assert striker.wait(CEILING)
    job.wait_running(3)
    job.open_gate()
    status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 3), status
    assert len(striker.struck) == 3
    lab.tony("events", job.job)  # which brings the log here
    assert job.replays() == ""


def test_the_master_is_struck(lab: YarnLab) -> None:
    """It stands still, then it is killed while programs run: they keep their pids, and the next one ends the job."""
    job = OnYarn(lab, gate=False)
    before = job.wait_running(2)
    with job.striker("stop master for 1s; kill master when session 2 opens + 1s") as striker:
        assert striker.wait(CEILING)
    until(lambda: lab.status(job.job)["attempt"] == 2, "the next one goes on")
    assert all(process.is_alive(pid) for pid in before.values())
    job.open_gate()
    status = lab.wait(job.job)
    assert (status["state"], status["session"]) == ("succeeded", 2), status
    assert job.starts() == once_in(1, 2)
    lab.tony("events", job.job)  # which brings the log here
    assert job.replays() == ""
