"""What is printed on other machines comes into the job's folder: at once, once, whole; and what is missing is said."""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.facts import mentions
from tests.jobs.fake_am import FakeAm, failed, logged, recorded, running, succeeded
from tests.jobs.recording_scheduler import Desk, Office
from tests.jobs.remote.capabilities import CAPABILITIES
from tests.support.waiting import wait_until
from tony.core.events import ContainerEnded, Event, FirstOutput, Granted
from tony.errors import SchedulerError
from tony.history.job_record import write_summary
from tony.history.json_files import write_json
from tony.jobs.job_follower import follow
from tony.jobs.log_files import Selection, find_log_files
from tony.jobs.remote import log_fetcher
from tony.jobs.remote.log_fetcher import LogFetcher, fetch_current_output, fetch_failed_output, fetch_logs
from tony.jobs.remote.log_mirror import Mirror, complete, describe_missing_bytes
from tony.jobs.remote.shared_log_fetchers import SharedLogFetchers
from tony.model.codec import to_plain
from tony.model.ids import TaskId
from tony.model.job_report import JobReport
from tony.model.log_file_tail import LogFileTail
from tony.model.log_name import LogName
from tony.model.state_directory import Home, JobFolder
from tony.model.submission_record import JobRecord
from tony.protocol.error_codes import Code
from tony.protocol.message_base import Message
from tony.protocol.output_messages import LogPiece, ReadLog
from tony.rpc.connection import RpcConnection
from tony.schedulers import registry
from tony.schedulers.capabilities import Capabilities
from tony.schedulers.client_interface import LogSink


class Far(Desk):
    """A scheduler whose tasks' files are elsewhere.

    Attributes:
        shows: name -> older file, newer file, as it would find them now.
        tails: what it has instead of whole files.
        asked: the containers that it was asked for, each time; owners: whose they had to be.
        error: what is in the way.
    """

    capabilities: Capabilities = CAPABILITIES

    def __init__(self) -> None:
        super().__init__()
        self.shows: dict[str, tuple[bytes, bytes]] = {}
        self.tails: list[LogFileTail] = []
        self.asked: list[dict[str, str]] = []
        self.owners: list[str] = []

    async def fetch_logs(
        self, folder: JobFolder, containers: Mapping[str, str], sink: LogSink, *, owner: str = ""
    ) -> None:
        self.asked.append(dict(containers))
        self.owners.append(owner)
        if self.error:
            raise self.error
        for name, (older, newer) in self.shows.items():
            have = sink.find_start(name, len(older), len(newer))
            if have is None:
                continue
            if have < len(older):
                sink.put(name, 0, have, older[have:])
                have = len(older)
            await asyncio.sleep(0)
            sink.put(name, len(older), have, newer[have - len(older) :])
        for tail in self.tails:
            sink.put_tail(tail)

    def am_alive(self, folder: JobFolder) -> bool | None:
        return not folder.summary.exists()


class FarScheduler(Office):
    """Makes the one above."""

    theirs = Far()

    def __init__(self) -> None:
        super().__init__(FarScheduler.theirs)


class TalkingMaster(FakeAm):
    """An application master that has output to tell.

    Attributes:
        printed: task and stream -> its files in order: name, and everything that was ever printed to it.
        asked: every request.
    """

    def __init__(self, folder: JobFolder, report: JobReport) -> None:
        super().__init__(folder, report)
        self.printed: dict[tuple[str, str], list[tuple[str, bytes]]] = {}
        self.asked_logs: list[ReadLog] = []
        self.answers: Callable[[RpcConnection, ReadLog], bool] = lambda connection, message: False
        self._open: dict[tuple[RpcConnection, int], ReadLog] = {}
        self._over = False

    def say(self, name: str, data: bytes) -> None:
        task, stream = name.partition(".")[0].replace("-", ":"), name.rpartition(".")[2]
        files = self.printed.setdefault((task, stream), [])
        if not files or files[-1][0] != name:
            files.append((name, b""))
        files[-1] = (name, files[-1][1] + data)
        self._answer_all()

    async def tell(self, piece: LogPiece) -> None:
        """Send one piece to all readers that wait; wait for the first of them."""
        await wait_until(lambda: bool(self._open))
        waiting, self._open = self._open, {}
        for connection, number in waiting:
            connection.send(replace(piece, reader=number))

    def over(self) -> None:
        self._over = True
        self._answer_all()

    def on_message(self, connection: RpcConnection, message: Message) -> None:
        if not isinstance(message, ReadLog):
            super().on_message(connection, message)
        elif not self.answers(connection, message):
            self.asked_logs.append(message)
            self._open[connection, message.reader] = message
            self._answer_all()

    def _answer_all(self) -> None:
        for (connection, number), ask in list(self._open.items()):
            piece = self._piece(ask)
            if piece is not None:
                del self._open[connection, number]
                connection.send(piece)

    def _piece(self, ask: ReadLog) -> LogPiece | None:
        if ask.tail:
            said = dict(self.printed.get((str(ask.task), ask.stream), ())).get(ask.name, b"")
            offset, text = max(0, len(said) - ask.most), base64.b64encode(said[-ask.most :]).decode()
            return LogPiece(reader=ask.reader, name=ask.name, offset=offset, data=text)
        begun = not ask.name
        for name, data in self.printed.get((str(ask.task), ask.stream), ()):
            offset = ask.offset if name == ask.name else 0
            begun = begun or name == ask.name
            rest = data[offset : offset + ask.most]
            if begun and rest:
                text = base64.b64encode(rest).decode()
                return LogPiece(reader=ask.reader, name=name, offset=offset, data=text)
        if self._over:
            return LogPiece(reader=ask.reader, over=True)
        return None if ask.wait else LogPiece(reader=ask.reader)


RemoteJob = tuple[JobFolder, JobRecord, Far]


@pytest.fixture
def remote_job(home: Home, monkeypatch: pytest.MonkeyPatch) -> RemoteJob:
    """A recorded job that went far away."""
    FarScheduler.theirs = Far()
    monkeypatch.setitem(registry._BUILT_IN, "far", f"{__name__}:FarScheduler")
    folder, record = recorded(home)
    record = replace(record, spec=replace(record.spec, scheduler="far"))
    write_json(folder.job, to_plain(record))
    return folder, record, FarScheduler.theirs


def read(folder: JobFolder, name: str) -> bytes:
    """A copy's content; nothing if there is none."""
    path = folder.logs / name
    return path.read_bytes() if path.exists() else b""


def missing_in(folder: JobFolder, prefix: str = "") -> str:
    """What is missing of the logs whose names begin so."""
    names = find_log_files(folder.logs, Selection())
    return describe_missing_bytes(folder.logs, [name for name in names if name.file.startswith(prefix)])


class Notes(list[str]):
    """What was noticed."""

    def __call__(self, text: str) -> None:
        self.append(text)


async def test_output_is_shown_as_it_is_printed(home: Home, remote_job: RemoteJob) -> None:
    """Every stream of every task, over a further task attempt, to the end; then it is known to be complete."""
    folder, record, far = remote_job
    notes = Notes()
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.say("worker-0.s1.t1.out", b"before\n")
        async with fetch_logs(home, record, Selection(), notes) as logs:
            assert logs is not None
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"before\n")
            master.say("worker-0.s1.t1.out", b"after\n")
            master.say("worker-1.s1.t1.err", b"\x00\xff\n" * 100_000)
            master.say("worker-0.s1.t2.out", b"again")
            await wait_until(lambda: read(folder, "worker-0.s1.t2.out") == b"again")
            assert read(folder, "worker-0.s1.t1.out") == b"before\nafter\n"
            master.over()
            await logs.wait_until_finished()
            assert read(folder, "worker-1.s1.t1.err") == b"\x00\xff\n" * 100_000
    assert complete(folder.logs) == {"worker:0 out", "worker:0 err", "worker:1 out", "worker:1 err"}
    assert (notes, far.asked) == ([], [])


async def test_only_missing_output_is_requested(home: Home, remote_job: RemoteJob) -> None:
    """One stream; what is here already is not fetched again."""
    folder, record, _ = remote_job
    (folder.logs / "worker-1.s1.t1.out").write_bytes(b"had ")
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.say("worker-1.s1.t1.out", b"had more")
        await _bring(folder, record, Selection(tasks=("worker:1",), streams=("out",)))
        assert read(folder, "worker-1.s1.t1.out") == b"had more"
        assert {(str(ask.task), ask.stream, ask.wait) for ask in master.asked_logs} == {("worker:1", "out", False)}
        assert (master.asked_logs[0].name, master.asked_logs[0].offset) == ("worker-1.s1.t1.out", 4)
    assert complete(folder.logs) == frozenset()


async def test_a_connection_that_breaks_costs_nothing(home: Home, remote_job: RemoteJob) -> None:
    """It continues where it was, also with an application master that comes up later."""
    folder, record, _ = remote_job
    notes = Notes()
    async with fetch_logs(home, record, Selection(), notes) as logs:
        assert logs is not None
        async with TalkingMaster(folder, running(folder, record)) as master:
            master.say("worker-0.s1.t1.out", b"one ")
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"one ")
            master.hang_up()
            master.say("worker-0.s1.t1.out", b"two ")
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"one two ")
    assert notes == []


async def test_connections_that_are_cut_all_the_time_lose_no_byte(
    home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third request is lost with its connection, and every third one after its answer was sent."""
    folder, record, _ = remote_job
    monkeypatch.setattr(log_fetcher, "_RECONNECT_SECONDS", 0.01)
    data, requests = random.Random(1).randbytes(3 << 20), itertools.count()

    def cut(connection: RpcConnection, message: ReadLog) -> bool:
        match next(requests) % 3:
            case 0:
                connection.abort(reset=True)
                return True
            case 1:
                asyncio.get_running_loop().call_soon(connection.abort)
        return False

    notes = Notes()
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.answers = cut
        master.say("worker-0.s1.t1.out", data)
        async with fetch_logs(home, record, Selection(), notes) as logs:
            assert logs is not None
            await wait_until(lambda: len(read(folder, "worker-0.s1.t1.out")) >= len(data))
    assert (read(folder, "worker-0.s1.t1.out") == data, notes) == (True, [])


async def test_two_followers_do_not_write_twice(home: Home, remote_job: RemoteJob) -> None:
    """The second one writes as soon as the first one has gone."""
    folder, record, _ = remote_job
    async with TalkingMaster(folder, running(folder, record)) as master, AsyncExitStack() as first:
        assert await first.enter_async_context(fetch_logs(home, record, Selection(), Notes()))
        await wait_until(lambda: len(master.asked_logs) >= 4)
        async with fetch_logs(home, record, Selection(), Notes()) as second:
            assert second is not None
            for number in range(50):
                master.say("worker-0.s1.t1.out", b"%d\n" % number)
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out").endswith(b"49\n"))
            before = len({id(ask) for ask in master.asked_logs})
            await first.aclose()
            master.say("worker-0.s1.t1.out", b"last\n")
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out").endswith(b"last\n"))
            assert len(master.asked_logs) > before
    assert read(folder, "worker-0.s1.t1.out") == b"".join(b"%d\n" % n for n in range(50)) + b"last\n"


async def test_output_of_ended_containers_is_fetched_from_the_scheduler(home: Home, remote_job: RemoteJob) -> None:
    """The stream continues meanwhile, and is not noted as complete."""
    folder, record, far = remote_job
    events: list[Event] = [
        Granted(container="c1", role="worker", host="h1"),
        Granted(container="c2", role="worker", host="h2"),
        ContainerEnded(container="c1", cause="lost"),
    ]
    logged(folder, events)
    far.shows = {
        "worker-0.s1.t1.out": (b"", b"half and the rest"),
        "no log": (b"", b"x"),
        "worker-7.s1.t1.out": (b"", b"x"),
    }
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.say("worker-0.s1.t1.out", b"half")
        async with fetch_logs(home, record, Selection(tasks=("worker:0",), streams=("out",)), Notes()) as logs:
            assert logs is not None
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"half")
            await master.tell(LogPiece(reader=0, missed=True))
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"half and the rest")
            master.say("worker-0.s1.t2.out", b"next")
            await wait_until(lambda: read(folder, "worker-0.s1.t2.out") == b"next")
            master.over()
            await logs.wait_until_finished()
    assert far.asked[0] == {"c1": "h1"}
    assert complete(folder.logs) == frozenset()
    assert sorted(path.name for path in folder.logs.iterdir() if not path.name.startswith(".")) == [
        "worker-0.s1.t1.out",
        "worker-0.s1.t2.out",
    ]


async def test_the_end_of_a_log_is_shown_when_the_job_has_ended(home: Home, remote_job: RemoteJob) -> None:
    """With its times, once; what is missing before it is known."""
    folder, record, far = remote_job
    write_summary(folder, succeeded(folder, record))
    logged(folder, [])
    (folder.logs / "worker-1.s1.t1.out").write_bytes(b"0123")
    far.tails = [
        LogFileTail(name="worker-0.s1.t1.out", offset=5000, data=b"the end\n", times=((0, 178_000_000_000),)),
        LogFileTail(name="worker-0.s1.t2.err", offset=0, data=b"whole\n"),
        LogFileTail(name="worker-1.s1.t1.out", offset=2, data=b"2345\n"),
        LogFileTail(name="worker-9.s1.t1.out", offset=0, data=b"of no task\n"),
        LogFileTail(name="../../evil", offset=0, data=b"x"),
    ]
    notes = Notes()
    for _ in range(2):
        async with fetch_logs(home, record, Selection(), notes):
            pass
    assert read(folder, "worker-0.s1.t1.out") == b"the end\n"
    assert read(folder, "worker-0.s1.t2.err") == b"whole\n"
    assert read(folder, "worker-1.s1.t1.out") == b"012345\n"
    assert len([path for path in folder.logs.iterdir() if not path.name.startswith(".")]) == 3
    assert (len(far.asked), notes) == (1, [])
    missing = missing_in(folder)
    assert missing == "4.9 KiB before the last 8 bytes of worker-0.s1.t1.out"
    assert missing_in(folder, "worker-1") == ""
    assert (folder.logs / ".worker-0.s1.t1.out.times").exists()


@pytest.mark.parametrize("keeps_output", [True, False])
async def test_the_output_of_the_task_that_failed_is_fetched_with_the_report(
    home: Home, remote_job: RemoteJob, keeps_output: bool
) -> None:
    """Unless the scheduler may have to be waited for."""
    folder, record, far = remote_job
    far.capabilities = replace(CAPABILITIES, keeps_output=keeps_output)
    far.tails = [LogFileTail(name=f"worker-{index}.s1.t1.err", offset=0, data=b"x") for index in range(2)]
    write_summary(folder, failed(folder, record))
    await fetch_failed_output(home, failed(folder, record))
    await fetch_failed_output(home, succeeded(folder, record))
    assert [name.file for name in find_log_files(folder.logs, Selection())] == ["worker-1.s1.t1.err"] * keeps_output


async def test_lost_output_is_named(home: Home, remote_job: RemoteJob) -> None:
    """Of a task attempt that printed something, there is no log at all; it is looked for again the next time."""
    folder, record, far = remote_job
    write_summary(folder, succeeded(folder, record))
    printed = [FirstOutput(task=TaskId("worker", index), session=1, try_=1 + index) for index in range(2)]
    logged(folder, printed)
    far.tails = [LogFileTail(name="worker-0.s1.t1.err", offset=0, data=b"x")]
    notes = Notes()
    for number in (1, 2):
        async with fetch_logs(home, record, Selection(), notes):
            pass
        assert len(far.asked) == number
    assert set(notes) == {
        "nothing was kept of the output of worker:1 (session 1, attempt 2): its container ended before it was read"
    }
    async with fetch_logs(home, record, Selection(tasks=("worker:0",)), notes):
        pass
    assert len(notes) == 2


async def test_the_end_of_a_log_does_not_replace_what_still_arrives(home: Home, remote_job: RemoteJob) -> None:
    """Only when the AM has nothing more is the end taken without what was before it."""
    folder, record, far = remote_job
    logged(folder, [Granted(container="c1", role="worker", host="h1"), ContainerEnded(container="c1", cause="lost")])
    far.tails = [LogFileTail(name="worker-0.s1.t1.out", offset=9, data=b"the end")]
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.say("worker-0.s1.t1.out", b"half")
        async with fetch_logs(home, record, Selection(tasks=("worker:0",), streams=("out",)), Notes()) as logs:
            assert logs is not None
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"half")
            await master.tell(LogPiece(reader=0, missed=True))
            await wait_until(lambda: far.asked)
            master.say("worker-0.s1.t1.out", b" an")
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"half an")
            master.over()
            await logs.wait_until_finished()
    assert read(folder, "worker-0.s1.t1.out.1") == b"half an"
    assert read(folder, "worker-0.s1.t1.out") == b"the end"
    assert missing_in(folder) == "2 bytes before the last 7 bytes of worker-0.s1.t1.out"


async def test_missing_output_is_requested_once(home: Home, remote_job: RemoteJob) -> None:
    """A scheduler that is away costs its timeout once."""
    folder, record, far = remote_job
    logged(folder, [Granted(container="c1", role="worker", host="h1"), ContainerEnded(container="c1", cause="over")])
    far.error = SchedulerError("no daemon answers")
    notes = Notes()
    async with TalkingMaster(folder, running(folder, record)) as master:
        told: set[int] = set()

        def answers(connection: RpcConnection, message: ReadLog) -> bool:
            missed = message.reader not in told
            told.add(message.reader)
            connection.send(LogPiece(reader=message.reader, missed=missed))
            return True

        master.answers = answers
        await fetch_current_output(home, record, Selection(), notes)
    assert (len(far.asked), notes) == (1, ["some output may be missing: no daemon answers"])


async def test_after_the_end_output_is_requested_once(home: Home, remote_job: RemoteJob) -> None:
    """Rotated files too; a copy that does not match is replaced; then no further request is made."""
    folder, record, far = remote_job
    write_summary(folder, succeeded(folder, record))
    (folder.logs / "worker-0.s1.t1.out").write_bytes(b"part")
    (folder.logs / "worker-1.s1.t1.out").write_bytes(b"something else that is longer")
    far.shows = {
        "worker-0.s1.t1.out": (b"", b"part and rest"),
        "worker-0.s1.t1.err": (b"older ", b"newer"),
        "worker-1.s1.t1.out": (b"", b"short"),
    }
    for _ in range(2):
        await fetch_current_output(home, record, Selection(), Notes())
        assert len(far.asked) == 1
    assert read(folder, "worker-0.s1.t1.out") == b"part and rest"
    assert (read(folder, "worker-0.s1.t1.err.1"), read(folder, "worker-0.s1.t1.err")) == (b"older ", b"newer")
    assert read(folder, "worker-1.s1.t1.out") == b"short"


async def test_missing_output_is_reported_and_requested_again(home: Home, remote_job: RemoteJob) -> None:
    """With the scheduler's message; output fetched before stays."""
    folder, record, far = remote_job
    write_summary(folder, succeeded(folder, record))
    far.error = SchedulerError("the node has forgotten it")
    notes = Notes()
    await fetch_current_output(home, record, Selection(), notes)
    assert notes == ["some output may be missing: the node has forgotten it"]
    far.error = None
    await fetch_current_output(home, record, Selection(), notes)
    assert len(far.asked) == 2
    assert len(notes) == 1


@pytest.mark.parametrize(
    "piece",
    [
        LogPiece(reader=0, name="../../evil", data="eA=="),
        LogPiece(reader=0, name="worker-1.s1.t1.out", data="eA=="),
        LogPiece(reader=0, name="worker-0.s1.t1.out.1", data="eA=="),
        LogPiece(reader=0, name="worker-0.s1.t1.out", data="not base64"),
        LogPiece(reader=0, name="worker-0.s1.t1.out", data="eA==", start=5),
    ],
)
async def test_a_master_out_of_its_senses_writes_nothing(home: Home, remote_job: RemoteJob, piece: LogPiece) -> None:
    """No file but the stream's own, no piece that makes no sense; it is said, and no more is asked."""
    folder, record, _ = remote_job
    notes = Notes()
    one = fetch_logs(home, record, Selection(tasks=("worker:0",), streams=("out",)), notes)
    async with TalkingMaster(folder, running(folder, record)) as master, one:
        await wait_until(lambda: master.asked_logs)
        await master.tell(piece)
        await wait_until(lambda: notes)
    assert notes[0].startswith("cannot fetch output from the application master: ")
    assert [path.name for path in folder.logs.iterdir()] == [".lock"]


async def test_an_older_master_is_no_trouble(home: Home, remote_job: RemoteJob) -> None:
    """It does not know the question: said once, and the output is fetched at the end."""
    folder, record, far = remote_job
    far.shows = {"worker-0.s1.t1.out": (b"", b"at last")}
    notes = Notes()
    async with TalkingMaster(folder, running(folder, record)) as master:

        def refuses(connection: RpcConnection, message: ReadLog) -> bool:
            connection.refuse(Code.UNKNOWN_KIND, "no message of the kind 'read-log'")
            return True

        master.answers = refuses
        async with fetch_logs(home, record, Selection(), notes) as logs:
            assert logs is not None
            await wait_until(lambda: notes)
            await logs.wait_until_finished()
    assert len(notes) == 1
    assert "older than this tony" in notes[0]
    assert read(folder, "worker-0.s1.t1.out") == b"at last"


async def test_a_full_disk_is_reported(home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Following continues without the output."""
    folder, record, _ = remote_job

    def full(self: Mirror, *_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Mirror, "write", full)
    notes = Notes()
    async with TalkingMaster(folder, running(folder, record)) as master, fetch_logs(home, record, Selection(), notes):
        master.say("worker-0.s1.t1.out", b"x")
        await wait_until(lambda: notes)
    assert "No space left on device" in notes[0]


async def test_many_tasks_share_the_credit(home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asks for little; who prints much gets large pieces, as long as there is credit."""
    folder, record, _ = remote_job
    monkeypatch.setattr(log_fetcher, "_CREDIT_BYTES", 4 * 1000)
    everything = fetch_logs(home, record, Selection(), Notes())
    async with TalkingMaster(folder, running(folder, record)) as master, everything:
        await wait_until(lambda: len(master.asked_logs) == 4)
        assert {ask.most for ask in master.asked_logs} == {1000}
        master.say("worker-0.s1.t1.out", b"x" * 500_000)
        await wait_until(lambda: len(read(folder, "worker-0.s1.t1.out")) == 500_000)
        assert max(ask.most for ask in master.asked_logs) == 64 << 10


async def test_following_shows_the_last_lines_before_the_end(home: Home, remote_job: RemoteJob) -> None:
    """The final report comes first on its own connection: it is told only after everything that was printed."""
    folder, record, _ = remote_job

    class Viewer:
        def __init__(self) -> None:
            self.told: list[str] = []

        def on_report(self, report: JobReport) -> None:
            if report.state.ended:
                self.told.append("ended")

        def on_session_opened(self, session: int, reason: str) -> None:
            pass

        def on_output(self, lines: Sequence[Any]) -> None:
            self.told.extend(line.text for line in lines)

        def on_notice(self, text: str) -> None:
            self.told.append(text)

    viewer = Viewer()
    master = TalkingMaster(folder, running(folder, record))
    async with master:
        following = asyncio.ensure_future(follow(home, record.job_id, viewer))
        await wait_until(lambda: len(master.asked_logs) >= 4 and master.watched)
        master.change(succeeded(folder, record), final=True)
        await asyncio.sleep(0.05)
        master.say("worker-0.s1.t1.out", b"last words")
        master.over()
        await master.finish(succeeded(folder, record))
        await asyncio.wait_for(following, 30.0)
    assert viewer.told == ["last words", "ended"]


async def _bring(folder: JobFolder, record: JobRecord, selection: Selection) -> None:
    async with LogFetcher(folder, record, FarScheduler.theirs, selection, Notes(), wait=False) as logs:
        await logs.wait_until_finished()


async def test_output_that_another_process_fetches_is_not_waited_for(
    home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by `tony logs` while the job is followed in another terminal."""
    monkeypatch.setattr(log_fetcher, "_END_TIMEOUT_SECONDS", 3600.0)
    folder, record, _ = remote_job
    async with TalkingMaster(folder, running(folder, record)) as master, fetch_logs(home, record, Selection(), Notes()):
        await wait_until(lambda: len(master.asked_logs) >= 4)
        await asyncio.wait_for(_bring(folder, record, Selection()), 60.0)


def _answer_late(master: TalkingMaster) -> Callable[[RpcConnection, ReadLog], bool]:
    """Take longer for each answer than streams take to be looked at again."""
    answered: list[ReadLog] = []

    def answer(connection: RpcConnection, message: ReadLog) -> bool:
        if message in answered:
            return False
        answered.append(message)
        asyncio.get_running_loop().call_later(0.1, master.on_message, connection, message)
        return True

    return answer


def _miss_once(master: TalkingMaster) -> Callable[[RpcConnection, ReadLog], bool]:
    """Say first of each stream that an executor has exited, as after a restart."""
    told: set[int] = set()

    def answer(connection: RpcConnection, message: ReadLog) -> bool:
        if message.reader in told:
            return False
        told.add(message.reader)
        connection.send(LogPiece(reader=message.reader, missed=True))
        return True

    return answer


@pytest.mark.parametrize("log", ["worker-0.s1.t1.out", "worker-0.s2.t1.out"])
@pytest.mark.parametrize("answers", [None, _answer_late, _miss_once])
@pytest.mark.parametrize("is_finished", [False, True])
async def test_earlier_output_that_another_process_still_copies_is_waited_for(
    home: Home,
    remote_job: RemoteJob,
    log: str,
    answers: Callable[[TalkingMaster], Callable[[RpcConnection, ReadLog], bool]] | None,
    is_finished: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all attempts; what is printed meanwhile is not. If the other process ends, this one copies it."""
    monkeypatch.setattr(log_fetcher, "_LOCK_POLL_SECONDS", 0.01)
    monkeypatch.setattr(log_fetcher, "_END_TIMEOUT_SECONDS", 3600.0)
    folder, record, _ = remote_job
    printed = b"x" * 300
    mirror = Mirror(folder.logs)
    assert all(mirror.take(number) for number in range(4))
    first, last = (LogName.parse(each) for each in ("worker-0.s1.t1.out", log))
    assert first
    assert last
    mirror.write(first, 0, 0, b"12345")
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.answers = answers(master) if answers else master.answers
        master.say(first.file, b"12345")
        master.say(log, printed)
        reading = asyncio.ensure_future(_bring(folder, record, Selection()))
        await wait_until(lambda: sum(ask.name == log for ask in master.asked_logs) >= 2)
        assert not reading.done()
        assert sum(ask.most for ask in master.asked_logs) == len(master.asked_logs)  # a byte each
        master.say(log, b"printed meanwhile")
        if is_finished:
            mirror.write(last, 0, 5 if first == last else 0, printed)
        else:
            mirror.close()
        await asyncio.wait_for(reading, 60.0)
    mirror.close()
    assert printed in read(folder, log)


async def test_output_that_another_process_copies_is_waited_for_when_the_am_exits(
    home: Home, remote_job: RemoteJob
) -> None:
    folder, record, _ = remote_job
    mirror, notes, name = Mirror(folder.logs), Notes(), LogName.parse("worker-0.s1.t1.out")
    assert name
    assert all(mirror.take(number) for number in range(4))
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.say(name.file, b"12345")
        async with LogFetcher(folder, record, None, Selection(), notes, wait=False) as logs:
            ending = asyncio.ensure_future(logs.wait_until_finished())
            await wait_until(lambda: sum(ask.name == name.file for ask in master.asked_logs) >= 2)
            master.over()
            master.hang_up()
            await wait_until(lambda: not logs.is_running)
            mirror.write(name, 0, 0, b"12345")
            mirror.close()
            await asyncio.wait_for(ending, 60.0)
    assert notes == []


async def test_an_am_that_does_not_answer_is_named(home: Home, remote_job: RemoteJob) -> None:
    """It may be starting; what there is of its output is shown."""
    folder, record, far = remote_job
    notes = Notes()
    async with TalkingMaster(folder, running(folder, record)):
        pass
    async with LogFetcher(folder, record, far, Selection(), notes, wait=False) as logs:
        await logs.wait_until_finished()
    (note,) = notes
    assert note.startswith("the latest output may be missing: ")
    assert mentions(note, str(folder.am_socket))


async def test_a_job_without_an_am_lacks_no_output(home: Home, remote_job: RemoteJob) -> None:
    """It waits in a queue."""
    folder, record, far = remote_job
    folder.am.unlink(missing_ok=True)
    notes = Notes()
    async with LogFetcher(folder, record, far, Selection(), notes, wait=False) as logs:
        await logs.wait_until_finished()
    assert notes == []


async def test_a_stream_stays_locked_that_was_taken_over_while_the_scheduler_is_asked(
    home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process has ended just before; it is written by one process only."""
    monkeypatch.setattr(log_fetcher, "_LOCK_POLL_SECONDS", 0.01)
    folder, record, far = remote_job
    mirror, other, may_answer = Mirror(folder.logs), Mirror(folder.logs), asyncio.Event()
    assert mirror.take(1)  # the standard error of worker:0

    async def answer_late(*_: Any, **__: Any) -> None:
        await may_answer.wait()

    monkeypatch.setattr(far, "fetch_logs", answer_late)
    async with (
        TalkingMaster(folder, running(folder, record)) as master,
        LogFetcher(folder, record, far, Selection(tasks=frozenset({"worker:0"})), Notes(), wait=True) as logs,
    ):
        monkeypatch.setattr(master, "answers", lambda *_: may_answer.is_set())
        await wait_until(lambda: bool(master.asked_logs))
        fetching = asyncio.ensure_future(logs._fetch_missing())
        mirror.close()
        await wait_until(lambda: len(master.asked_logs) == 2)
        may_answer.set()
        await asyncio.wait_for(fetching, 60.0)
        assert not other.take(1)
    other.close()


def test_nothing_of_this_where_files_are_at_hand(home: Home) -> None:
    """A local job: files in the job directory need no request."""
    folder, record = recorded(home)
    asyncio.run(fetch_current_output(home, record, Selection(), Notes()))
    assert not Path(folder.logs / ".lock").exists()


async def test_requests_for_the_same_output_share_a_fetcher(home: Home, remote_job: RemoteJob) -> None:
    """Each would take a connection to the AM, and an inotify queue while there is none."""
    folder, record, far = remote_job
    shared = SharedLogFetchers()
    created: list[LogFetcher] = []

    def create_fetcher() -> LogFetcher:
        created.append(LogFetcher(folder, record, far, Selection(), Notes(), wait=True))
        return created[-1]

    async with TalkingMaster(folder, running(folder, record)) as master:
        async with shared.follow("worker", create_fetcher):
            async with shared.follow("worker", create_fetcher):
                pass
            master.say("worker-0.s1.t1.out", b"a line\n")
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"a line\n")
            assert len(created) == 1
        assert not created[0].is_running
        async with shared.follow("worker", create_fetcher):
            assert len(created) == 2


async def test_a_connected_fetcher_needs_no_inotify(
    home: Home, remote_job: RemoteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, record, far = remote_job
    monkeypatch.setattr(log_fetcher, "ChangeWatch", None)
    async with TalkingMaster(folder, running(folder, record)) as master:
        master.say("worker-0.s1.t1.out", b"a line\n")
        async with LogFetcher(folder, record, far, Selection(), Notes(), wait=True):
            await wait_until(lambda: read(folder, "worker-0.s1.t1.out") == b"a line\n")
