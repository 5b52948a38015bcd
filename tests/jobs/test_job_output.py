"""The output of a job is read to its end, however slow the reader is."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, closing

import pytest

from tests.jobs.fake_am import JOB, FakeAm, recorded, running, succeeded, write_log
from tony.history.job_record import write_summary
from tony.jobs.job_output import iterate_lines
from tony.jobs.log_files import Selection
from tony.jobs.remote.log_mirror import Mirror
from tony.model.log_name import LogName
from tony.model.state_directory import Home


async def test_to_the_end_of_the_job(home: Home) -> None:
    folder, record = recorded(home)
    async with FakeAm(folder, running(folder, record)) as master:
        write_log(folder, "worker-0.s1.t1.out", "a\n")
        async with aclosing(iterate_lines(home, JOB, Selection(), print, follow=True)) as stream:
            assert [line.text for line in await anext(stream)] == ["a"]
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            write_log(folder, "worker-1.s1.t1.out", "b\n")
            assert [line.text for line in await waiting] == ["b"]
            write_log(folder, "worker-1.s1.t1.out", "c")
            await master.finish(succeeded(folder, record))
            assert [line.text async for part in stream for line in part] == ["c"]


@pytest.mark.parametrize("follow", [False, True])
async def test_what_is_missing_is_noted(home: Home, *, follow: bool) -> None:
    """Unless only the last lines are wanted."""
    folder, record = recorded(home)
    write_summary(folder, succeeded(folder, record))
    with closing(Mirror(folder.logs)) as copies:
        copies.write(LogName("worker", 0, 1, 1, "out"), 0, 5000, b"last\n")
    for keep, expected in ((None, 1), (1, 0)):
        notices: list[str] = []
        lines = [
            line.text
            async for part in iterate_lines(home, JOB, Selection(), notices.append, follow=follow, keep=keep)
            for line in part
        ]
        assert lines == ["last"]
        assert notices == ["some output is missing: 4.9 KiB before the last 5 bytes of worker-0.s1.t1.out"][:expected]


async def test_a_slow_taker_loses_nothing(home: Home) -> None:
    """Portions wait in the files, not in memory."""
    folder, record = recorded(home)
    text = "".join(f"{n}\n" for n in range(3000))
    async with FakeAm(folder, running(folder, record)) as master:
        write_log(folder, "worker-0.s1.t1.out", text)
        seen: list[str] = []
        async for part in iterate_lines(home, JOB, Selection(), print, follow=True):
            seen += [line.text for line in part]
            if len(part) < 600 and master.folder.secret.exists():
                write_log(folder, "worker-0.s1.t1.out", text)
                await master.finish(succeeded(folder, record))
    assert seen == [str(n) for n in range(3000)] * 2
