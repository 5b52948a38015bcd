"""The durable log against a fake HDFS: what `flush` promises, and no byte twice whatever goes wrong."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from tests.support.hadoop.append_logs import flush
from tests.support.hadoop.fake_webhdfs import FakeFile, FakeWebHdfs, Trouble
from tony.hadoop.errors import AccessControlError, HadoopError, SafeModeError
from tony.hadoop.hdfs.append_log import AppendLog, AppendOptions, ForeignWriterError, LogFullError
from tony.hadoop.hdfs.webhdfs import WebHdfs, WebOptions
from tony.hadoop.hdfs.webhdfs_messages import WebLogin

_PATH = "/log"
#: Seconds that a test waits for what comes within milliseconds on a quiet machine.
_CEILING = 60.0
_QUICK = AppendOptions(interval=0.0, longest_pause=0.05)


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[FakeWebHdfs]:
    with FakeWebHdfs() as cluster:
        yield cluster


@pytest.fixture(name="client")
def _client(cluster: FakeWebHdfs) -> Iterator[WebHdfs]:
    with WebHdfs([cluster.url], WebLogin(user="alice"), WebOptions(timeout=0.1)) as client:
        yield client


def test_flush_makes_visible(client: WebHdfs) -> None:
    """After `flush` another reader sees every byte; nothing else is needed."""
    log = AppendLog(client, _PATH, AppendOptions(interval=1000.0))
    log.write(b"one\n")
    assert flush(log, _CEILING)
    assert client.read(_PATH) == b"one\n"
    log.write(b"two\n")
    log.write(b"three\n")
    assert flush(log, _CEILING)
    assert client.read(_PATH) == b"one\ntwo\nthree\n"
    assert (log.waiting, log.trouble) == (0, None)
    assert log.close(_CEILING)


def test_without_flush_data_is_appended_after_the_interval(client: WebHdfs) -> None:
    """What is written is seen after the interval, and several writes are one append."""
    log = AppendLog(client, _PATH, AppendOptions(interval=0.05))
    for number in range(100):
        log.write(b"%d\n" % number)
    done = threading.Event()
    deadline = threading.Timer(_CEILING, done.set)
    deadline.start()
    while log.waiting and not done.wait(0.01):
        pass
    deadline.cancel()
    assert client.read(_PATH) == b"".join(b"%d\n" % number for number in range(100))
    log.close(_CEILING)


def test_closing_flushes_and_ends(client: WebHdfs) -> None:
    """After `close` all is there, nothing more is taken, and closing again is harmless."""
    log = AppendLog(client, _PATH, AppendOptions(interval=1000.0))
    log.write(b"last words\n")
    assert log.close(_CEILING)
    assert log.close(_CEILING)
    assert client.read(_PATH) == b"last words\n"
    with pytest.raises(ValueError, match="closed"):
        log.write(b"more")


def test_a_later_writer_appends(client: WebHdfs) -> None:
    """It writes behind what is there; a record that was cut off is ended first, so that only that one is damaged."""
    first = AppendLog(client, _PATH, _QUICK)
    first.write(b"one\n")
    first.close(_CEILING)
    second = AppendLog(client, _PATH, _QUICK)
    second.write(b"two\nthr")
    second.close(_CEILING)
    third = AppendLog(client, _PATH, _QUICK)
    third.write(b"four\n")
    assert flush(third, _CEILING)
    assert client.read(_PATH) == b"one\ntwo\nthr\nfour\n"
    third.close(_CEILING)


@pytest.mark.parametrize("trouble", [Trouble.HANG_UP, Trouble.HANG_UP_AFTER_HALF, Trouble.HANG_UP_AFTER_ALL])
def test_a_broken_append_is_repaired(client: WebHdfs, cluster: FakeWebHdfs, trouble: Trouble) -> None:
    """However much of a batch arrived, the rest follows and nothing is there twice."""
    log = AppendLog(client, _PATH, _QUICK)
    log.write(b"before\n")
    assert flush(log, _CEILING)
    cluster.fail_next("APPEND", trouble)
    log.write(b"0123456789\n")
    log.write(b"after\n")
    assert flush(log, _CEILING)
    assert client.read(_PATH) == b"before\n0123456789\nafter\n"
    assert log.trouble is None
    log.close(_CEILING)


def test_random_trouble(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """Hundreds of writes and every kind of trouble in any order: the file is what was written."""
    chance = random.Random(7)
    passing = [
        Trouble.SAFE_MODE,
        Trouble.STANDBY,
        Trouble.RETRIABLE,
        Trouble.BEING_WRITTEN,
        Trouble.NO_SPACE,
        Trouble.HANG_UP,
        Trouble.HANG_UP_AFTER_HALF,
        Trouble.HANG_UP_AFTER_ALL,
        Trouble.DEAD_DATANODE,
        Trouble.NONSENSE,
    ]
    log = AppendLog(client, _PATH, AppendOptions(interval=0.0, longest_pause=0.01))
    written = b""
    for number in range(300):
        if chance.random() < 0.2:
            cluster.fail_next(chance.choice(["APPEND", "APPEND", "GETFILESTATUS"]), chance.choice(passing))
        data = b"%d " % number * chance.randrange(1, 20) + b"\n"
        written += data
        log.write(data)
        if chance.random() < 0.2:
            assert flush(log, _CEILING)
            assert cluster.files[_PATH].content == written
    assert log.close(_CEILING)
    assert cluster.files[_PATH].content == written


def test_creation_is_tried_again(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """A NameNode in safe mode, or an answer that got lost, delays the log's beginning and nothing else."""
    cluster.fail_next("CREATE", Trouble.SAFE_MODE, Trouble.HANG_UP_AFTER_ALL)
    log = AppendLog(client, _PATH, _QUICK)
    log.write(b"x\n")
    assert flush(log, _CEILING)
    assert client.read(_PATH) == b"x\n"
    log.close(_CEILING)


def test_a_time_limit_is_no_loss(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """`flush` that gives up waiting says so, names the trouble, and the bytes go out later."""
    cluster.fail_next("CREATE", *[Trouble.SAFE_MODE] * 10)
    log = AppendLog(client, _PATH, _QUICK)
    log.write(b"x\n")
    assert not flush(log, 0.01)
    assert log.waiting == 2
    assert flush(log, _CEILING)
    assert log.close(_CEILING)
    assert client.read(_PATH) == b"x\n"


def test_a_flush_shortens_the_pauses(client: WebHdfs, cluster: FakeWebHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses of a long failure grow to minutes here; a flush tries again soon."""
    monkeypatch.setattr("tony.hadoop.hdfs.append_log._HURRIED_PAUSE_SECONDS", 0.01)
    log = AppendLog(client, _PATH, AppendOptions(interval=0.0, longest_pause=1000.0))
    assert flush(log, _CEILING)
    cluster.fail_next("APPEND", *[Trouble.SAFE_MODE] * 12)
    log.write(b"x\n")
    assert flush(log, _CEILING)
    assert client.read(_PATH) == b"x\n"
    log.close(_CEILING)


def test_log_gives_up_after_its_timeout(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """All waiting and writing callers get the cause."""
    cluster.fail_next("CREATE", *[Trouble.SAFE_MODE] * 1000)
    log = AppendLog(client, _PATH, AppendOptions(timeout=0.1, longest_pause=0.02))
    log.write(b"x\n")
    with pytest.raises(SafeModeError):
        flush(log, _CEILING)
    with pytest.raises(SafeModeError):
        log.write(b"y\n")
    with pytest.raises(SafeModeError):
        log.close(_CEILING)


def test_permission_errors_are_not_retried(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """Permissions do not come back by asking again."""
    cluster.fail_next("APPEND", Trouble.FORBIDDEN)
    log = AppendLog(client, _PATH, _QUICK)
    log.write(b"x\n")
    with pytest.raises(AccessControlError):
        flush(log, _CEILING)
    assert isinstance(log.trouble, AccessControlError)


@pytest.mark.parametrize("foreign", [b"", b"one\nothers\n" * 10, b"one\nOTHER\nbytes", None])
def test_another_writer_is_noticed(client: WebHdfs, cluster: FakeWebHdfs, foreign: bytes | None) -> None:
    """Where the length is looked at, bytes that are not ours end the log; nothing is written on top of them."""
    log = AppendLog(client, _PATH, _QUICK)
    log.write(b"one\n")
    assert flush(log, _CEILING)
    with cluster.lock:
        cluster.fail_next("APPEND", Trouble.HANG_UP)
        if foreign is None:
            del cluster.files[_PATH]
        else:
            cluster.files[_PATH] = FakeFile(content=foreign)
    log.write(b"two and more\n")
    with pytest.raises(HadoopError) as caught:
        flush(log, _CEILING)
    if foreign is not None:
        assert isinstance(caught.value, ForeignWriterError)
        assert cluster.files[_PATH].content == foreign


def test_the_backlog_is_bounded(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """While HDFS is away memory does not grow without end; what was taken still goes out."""
    cluster.fail_next("GETFILESTATUS", *[Trouble.SAFE_MODE] * 5)
    log = AppendLog(client, _PATH, AppendOptions(interval=0.0, most_waiting=10, longest_pause=0.1))
    log.write(b"12345")
    with pytest.raises(LogFullError):
        log.write(b"123456")
    assert log.close(_CEILING)
    assert client.read(_PATH) == b"12345"


def test_the_lease_is_recovered(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """Where a dead writer holds the file, recovery is requested until the lease is ours; a failed request is
    repeated."""
    asked: list[str] = []

    def recover(path: str) -> None:
        asked.append(path)
        raise HadoopError("the NameNode is away")

    cluster.files[_PATH] = FakeFile(content=b"one\n")
    cluster.fail_next("APPEND", Trouble.BEING_WRITTEN, Trouble.BEING_WRITTEN)
    log = AppendLog(client, _PATH, _QUICK, recover=recover)
    log.write(b"two\n")
    assert flush(log, _CEILING)
    assert asked == [_PATH, _PATH]
    assert client.read(_PATH) == b"one\ntwo\n"
    log.close(_CEILING)


def test_abandoned(client: WebHdfs, cluster: FakeWebHdfs) -> None:
    """A program that must end does not wait for a NameNode that is away."""
    cluster.fail_next("GETFILESTATUS", *[Trouble.SAFE_MODE] * 10_000)
    log = AppendLog(client, _PATH)
    log.write(b"lost\n")
    log.abandon()
    with pytest.raises(HadoopError):
        log.close(_CEILING)


def test_a_bug_ends_the_log_loudly(cluster: FakeWebHdfs) -> None:
    """Whatever kills the thread, a waiting caller gets an error and does not wait for ever."""

    class Broken(WebHdfs):
        def append(self, path: str, content: object) -> None:
            raise RuntimeError("a bug")

    with Broken([cluster.url], WebLogin()) as client:
        log = AppendLog(client, _PATH)
        log.write(b"x")
        with pytest.raises(HadoopError, match="a bug"):
            flush(log, _CEILING)


def test_the_durable_size_is_reported(client: WebHdfs) -> None:
    """How many bytes are durable, as they come to be; `hurry` waits for nothing, and sends all that there is."""
    told: list[int] = []
    arrived = threading.Event()

    def listen(durable: int) -> None:
        told.append(durable)
        if durable == 8:
            arrived.set()

    log = AppendLog(client, _PATH, AppendOptions(interval=1000.0), on_durable=listen)
    log.write(b"one\n")
    log.write(b"two\n")
    log.hurry()
    assert arrived.wait(_CEILING)
    assert client.read(_PATH) == b"one\ntwo\n"
    assert log.close(_CEILING)
    assert (sorted(told), told[-1], log.error) == (told, 8, None)
