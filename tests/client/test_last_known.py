"""What was heard of a job last is kept, and told where nobody answers for it."""

from __future__ import annotations

from tests.client.played_master import recorded, standing
from tony.client.last_known import Heard, known
from tony.dataclass import replace
from tony.model.layout import Home
from tony.model.states import JobState, TaskState


def test_who_follows_keeps_what_he_heard_last(home: Home) -> None:
    """When he hears no more, or leaves; but not what the end has made old, and nothing of a job of this machine."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    for where, last, kept in ((None, running, None), (folder, None, None), (folder, running, running)):
        with Heard(where) as heard:
            heard.last = last
        state = known(folder, record, fresh=False).state
        assert state is (kept.state if kept else JobState.SUBMITTED)
    folder.heard.write_text("{")
    assert known(folder, record, fresh=False).state is JobState.SUBMITTED


def test_the_newer_one_counts(home: Home) -> None:
    """A report of a session that the log here does not know, be that as new as it can be."""
    folder, record = recorded(home)
    running = standing(folder, record, JobState.RUNNING, TaskState.RUNNING)
    with Heard(folder) as heard:
        heard.last = replace(running, session=2)
    assert known(folder, record, fresh=True).session == 2
