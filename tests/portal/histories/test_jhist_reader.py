"""Records of LinkedIn TonY are read and shown as ours are; damaged ones are said to be so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.portal import legacy_histories as of
from tests.support.timelines import timeline
from tony import clock
from tony.model.failure import FailureClass
from tony.model.states import JobState, TaskState
from tony.portal.histories import jhist_reader
from tony.portal.histories.history_layouts import list_places
from tony.portal.histories.jhist_reader import LinkedInTonyJob
from tony.portal.histories.record_reader import read
from tony.storage.stores.local_store import LocalStore


def seen(root: Path) -> LinkedInTonyJob:
    """The one job in a folder of records."""
    store = LocalStore(root)
    return jhist_reader.read(store, of.APP, store.list(of.APP))


def listed(root: Path) -> object:
    store = LocalStore(root)
    (place,) = list_places(store, "")
    entry = read(store, place)
    assert entry is not None
    return entry.head


def test_one_that_succeeded(tmp_path: Path) -> None:
    """Who, what, when, each task, and what it used."""
    of.lay_down(tmp_path / of.APP, of.whole())
    job = seen(tmp_path)
    report, spec = job.report, job.record.spec
    assert job.problem == ""
    assert (report.job, report.name, report.user, report.state) == (of.APP, "ctr <b>model", "ann", JobState.SUCCEEDED)
    assert (report.submitted, report.ended, report.exit_code) == (of.BEGAN / 1000, of.ENDED / 1000, 0)
    assert (report.queue, report.tags, report.framework) == ("ml", ("ads", "nightly"), "tensorflow")
    states = {task.task: task.state for task in report.tasks}
    assert states == {
        "worker:0": TaskState.SUCCEEDED,
        "worker:1": TaskState.SUCCEEDED,
        "ps:0": TaskState.STOPPED,
    }
    assert {task.host for task in report.tasks} == {"node1"}
    assert spec.roles["worker"].resources.memory == 4 << 30
    assert spec.params["tony.secret.key"] == "(hidden)" or "hunter2" not in repr(job)
    assert job.record.sources["params.tony.yarn.queue"] == "tony-final.xml:6"
    assert report.used is not None
    assert report.used.gpu_hours == pytest.approx((1798 + 3596) / 3600)


def test_its_timeline(tmp_path: Path) -> None:
    """The picture of a job of LinkedIn TonY is drawn as of ours."""
    of.lay_down(tmp_path / of.APP, of.whole())
    job = seen(tmp_path)
    line = timeline(job.record, job.entries)
    assert line.doubt == ""
    running = {span.task: round(span.seconds) for span in line.spans if span.what.value == "running"}
    assert running == {"ps:0": 3598, "worker:0": 1798, "worker:1": 3596}


def test_one_that_failed(tmp_path: Path) -> None:
    """The first task that failed, and what was said of it."""
    of.lay_down(tmp_path / of.APP, of.failing(), of.ended_name(status="FAILED", user="a-n-n"))
    report = seen(tmp_path).report
    assert (report.state, report.user, report.exit_code) == (JobState.FAILED, "a-n-n", 1)
    assert report.failure is not None
    assert report.failure.reason == "worker:1 failed: ValueError: no such column"
    assert {task.task: task.state.value for task in report.tasks} == {
        "worker:0": "stopped",
        "worker:1": "failed",
        "ps:0": "stopped",
    }
    assert report.failure.tail == ("Traceback", "ValueError: no such column")
    assert listed(tmp_path).reason == "worker:1 failed: ValueError: no such column"  # type: ignore[attr-defined]


def test_one_that_was_killed(tmp_path: Path) -> None:
    of.lay_down(tmp_path / of.APP, of.whole()[:4], of.ended_name(status="KILLED"))
    failure = seen(tmp_path).report.failure
    assert failure is not None
    assert (failure.failure_class, failure.cause) == (FailureClass.KILLED, "killed")


def test_one_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is being written: what is whole of it counts. Days without a word, and it runs no more."""
    name = f"{of.APP}-{of.BEGAN}-ann.jhist.inprogress"
    folder = of.lay_down(tmp_path / of.APP, of.whole()[:3], name)
    whole = (folder / name).read_bytes()
    for end in (len(whole), len(whole) - 5, len(whole) - 60, 2000, 10, 0):
        (folder / name).write_bytes(whole[:end])
        job = seen(tmp_path)
        assert (job.report.state, job.report.ended, job.problem) == (JobState.RUNNING, None, "")
    later = clock.wall() + 4 * 86400
    monkeypatch.setattr(clock, "wall", lambda: later)
    report = seen(tmp_path).report
    assert report.state is JobState.FAILED
    assert report.failure is not None
    assert report.failure.reason == "its application master ended without reporting a result"


def test_of_several_lives_the_last_one_counts(tmp_path: Path) -> None:
    """Each life of its master has a file."""
    folder = of.lay_down(tmp_path / of.APP, of.failing(), f"{of.APP}-{of.BEGAN - 5000}-ann.jhist.inprogress")
    (folder / of.ended_name()).write_bytes(of.container(of.whole(), "deflate"))
    assert seen(tmp_path).report.state is JobState.SUCCEEDED


def test_older_names_and_lost_settings(tmp_path: Path) -> None:
    """`config.xml` is read as well; without either, tasks are known by their events."""
    folder = of.lay_down(tmp_path / of.APP, of.whole())
    (folder / "tony-final.xml").rename(folder / "config.xml")
    assert seen(tmp_path).report.name == "ctr <b>model"
    (folder / "config.xml").unlink()
    job = seen(tmp_path)
    assert (job.report.name, len(job.report.tasks), job.problem) == ("TensorFlowApplication", 3, "")


@pytest.mark.parametrize(
    "settings",
    [
        '<!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]><configuration><name>&x;</name></configuration>',
        '<!DOCTYPE c [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><configuration>&b;</configuration>',
        '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="/etc/passwd"/></configuration>',
        '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="http://127.0.0.1/x"/></configuration>',
        "<configuration>",
        "",
        "\0",
    ],
)
def test_settings_lead_nowhere(tmp_path: Path, settings: str) -> None:
    """No entity, no other file, no address; the record is damaged, and its events are still shown."""
    of.lay_down(tmp_path / of.APP, of.whole(), settings=settings)
    job = seen(tmp_path)
    assert "tony-final.xml" in job.problem
    assert "root:" not in repr(job)
    assert (job.report.state, len(job.report.tasks)) == (JobState.SUCCEEDED, 3)
    assert "tony-final.xml" in listed(tmp_path).damaged  # type: ignore[attr-defined]


def test_damaged_events(tmp_path: Path) -> None:
    """What stands before the damage is shown, and the damage is named."""
    folder = of.lay_down(tmp_path / of.APP, of.whole())
    file = folder / of.ended_name()
    whole = file.read_bytes()
    for end, text in ((len(whole) - 3, "cut off"), (0, "cut off"), (600, "cut off")):
        file.write_bytes(whole[:end])
        job = seen(tmp_path)
        assert text in job.problem
        assert job.report.state is JobState.SUCCEEDED
    file.write_bytes(whole[:-20] + b"\xff" * 20)
    assert "damaged" in seen(tmp_path).problem


def test_tasks_without_end(tmp_path: Path) -> None:
    """Events may name any task: so many tasks are taken as a job may have, whichever comes first."""
    names = [f"role{number}" for number in range(50)]
    events = [of.inited(), *(of.started(name, 60_000, of.BEGAN + 1000) for name in names), of.over()]
    of.lay_down(tmp_path / of.APP, events, settings=None)
    assert [*seen(tmp_path).record.spec.roles] == ["role0"]


def test_a_folder_that_is_no_record(tmp_path: Path) -> None:
    """Names that make no sense are said to make none."""
    of.lay_down(tmp_path / of.APP, of.whole(), "x.jhist")
    assert "no event file with a valid name" in listed(tmp_path).damaged  # type: ignore[attr-defined]
