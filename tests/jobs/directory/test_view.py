"""A job's events come in order, each once, also while it runs."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from tests.jobs.fake_am import JOB, FakeAm, recorded, standing, succeeded
from tony.core.events import Queued
from tony.history.event_log import FORMAT, VERSION, Header, LogWriter
from tony.jobs.directory.view import DirectoryJobView
from tony.model.layout import Home
from tony.model.states import JobState, TaskState


async def test_new_events_are_followed(home: Home) -> None:
    """Following ends with the job, and not before the last event."""
    folder, record = recorded(home)
    header = Header(format=FORMAT, version=VERSION, job=JOB, attempt=1, settings="")
    writer = LogWriter(folder.events(1), header)
    async with FakeAm(folder, standing(folder, record, JobState.RUNNING, TaskState.RUNNING)) as master:
        writer.append(Queued(reason="a"), 1.0, 1.0)
        writer.flush()
        async with aclosing(DirectoryJobView.from_home(home, JOB).events(follow=True)) as stream:
            assert (await anext(stream)).event == Queued(reason="a")
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            writer.append(Queued(reason="b"), 2.0, 2.0)
            writer.flush()
            assert (await waiting).event == Queued(reason="b")
            writer.append(Queued(reason="c"), 3.0, 3.0)
            writer.close()
            await master.finish(succeeded(folder, record))
            assert [entry.event async for entry in stream] == [Queued(reason="c")]
