"""Metrics are read back from their file, and a damaged file yields no values."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
from collections import UserDict
from collections.abc import ItemsView, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.errors import StorageError
from tony.history import metrics_schema as layout
from tony.history.metrics_reader import Metrics, Peak
from tony.history.metrics_schema import TaskMetricsUpdate
from tony.history.metrics_writer import MetricsWriter
from tony.model.progress import CheckpointRecord, Progress

TOLD = Progress("worker:0", 1, 1, 1.0, 7.0, 90.0, 99.0, total=1000.0, behind=True, regained=50.0, unlisted=2.0)
SAVED = CheckpointRecord("worker:0", 1, 1, 50, 60.0, 62.5)


def flat(values: Sequence[float]) -> list[float]:
    """Buckets of which each had one sample."""
    return [each for value in values for each in (value, value, value)]


def part(
    task: str = "worker:0", first: int = 0, *, anew: bool = False, width: float = 5.0, **series: object
) -> TaskMetricsUpdate:
    """What has changed of one task; series by name with `_` for `-`."""
    named = {name.replace("_", "-"): flat(values) for name, values in series.items()}  # type: ignore[arg-type]
    return TaskMetricsUpdate(task, task.partition(":")[0], width, anew, first, named)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.db"


def written(path: Path, *parts: TaskMetricsUpdate) -> None:
    writer = MetricsWriter(path, "job-1", 5.0)
    writer.write(parts, [TOLD], [SAVED])
    writer.close()


def test_the_newest_value_is_kept_beside_the_means(path: Path) -> None:
    """Also where later writes have nothing of the series; a window before its end has none."""
    update = part(rss=[1.0] * 40, cpu=[2.0] * 40)
    written(path, replace(update, last={"rss": 7.0}), replace(part(first=64, cpu=[3.0]), last={"rss": 7.0, "cpu": 9.0}))
    with Metrics(path) as metrics:
        assert metrics.read_newest() == {"worker:0": {"rss": 7.0, "cpu": 9.0}}
        assert metrics.points("worker:0", "rss", most=4).last == 7.0
        assert metrics.points("worker:0", "rss", until=50.0).last is None
    writer = MetricsWriter(path, "job-1", 5.0)
    (stored,) = writer.read_stored_metrics()
    writer.close()
    assert stored.last == {"rss": 7.0, "cpu": 9.0}


def test_a_file_without_newest_values_is_read_and_continued(path: Path) -> None:
    """An earlier tony has written it: the last mean is the newest value that is known."""
    written(path, part(cpu=[1.0, 2.0]))
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE chunk DROP COLUMN last")
        database.commit()
    with Metrics(path) as metrics:
        assert (metrics.read_newest(), metrics.problem) == ({"worker:0": {"cpu": 2.0}}, "")
        assert metrics.points("worker:0", "cpu").last is None
    writer = MetricsWriter(path, "job-1", 5.0)
    assert writer.went_on
    writer.write([replace(part(cpu=[1.0, 2.0]), last={"cpu": 8.0})])
    writer.close()
    with Metrics(path) as metrics:
        assert metrics.read_newest() == {"worker:0": {"cpu": 8.0}}


def test_metrics_round_trip(path: Path) -> None:
    """Names, tasks, numbers, what programs reported; readable by its owner only."""
    written(path, part(cpu=[0.5, 1.5, 1.0], rss=[1000.0, 2000.0, 3000.0]), part("ps:0", first=40, cpu=[2.0]))
    assert path.stat().st_mode & 0o777 == 0o600
    with Metrics(path) as metrics:
        assert (metrics.known, metrics.problem) == (True, "")
        assert metrics.tasks() == ("worker:0", "ps:0")
        assert metrics.series() == ("cpu", "rss")
        points = metrics.points("worker:0", "rss")
        assert (points.every, points.at, points.mean) == (5.0, (5.0, 10.0, 15.0), (1000.0, 2000.0, 3000.0))
        assert metrics.points("ps:0", "cpu").at == (205.0,)
        assert metrics.points("worker:0", "cpu").mean == pytest.approx((0.5, 1.5, 1.0), rel=1e-5)
        assert metrics.points("worker:7", "cpu").at == metrics.points("worker:0", "pss").at == ()
        assert metrics.read_newest()["worker:0"]["rss"] == 3000.0
        newest = metrics.read_newest()
        assert (newest["worker:0"]["rss"], newest["ps:0"]) == (3000.0, {"cpu": 2.0})
        assert metrics.progress() == (TOLD,) == metrics.progress("worker:0")
        assert metrics.checkpoints() == (SAVED,)
        assert (metrics.progress("ps:0"), metrics.checkpoints("ps:0")) == ((), ())
        assert metrics.peaks("ps") == {"ps:0": {"cpu": Peak(2.0, 2.0, 2.0)}}
        assert metrics.peaks()["worker:0"]["rss"] == Peak(1000.0, 2000.0, 3000.0)


def test_a_window_and_fewer_points(path: Path) -> None:
    """Between two moments; where there are more buckets than asked for, neighbours are one."""
    written(path, part(cpu=[float(each % 10) for each in range(100)]))
    with Metrics(path) as metrics:
        assert metrics.points("worker:0", "cpu", since=50.0, until=60.0).at == (55.0, 60.0)
        few = metrics.points("worker:0", "cpu", most=25)
        assert (few.every, len(few.at)) == (20.0, 25)
        assert (few.least[0], few.mean[0], few.most[0]) == (0.0, 1.5, 3.0)


def test_a_row_is_written_again_as_it_fills(path: Path) -> None:
    """The newest chunk changes with each write; gaps stay gaps."""
    writer = MetricsWriter(path, "job-1", 5.0)
    writer.write([part(cpu=[1.0] * 30)])
    writer.write([part(first=20, cpu=[2.0] * 3 + [math.nan] * 20 + [3.0])], many=True)
    writer.close()
    with Metrics(path) as metrics:
        points = metrics.points("worker:0", "cpu")
        assert points.mean[:3] == (2.0,) * 3
        assert points.mean[-1] == 3.0


def test_a_task_with_wider_buckets_is_rewritten(path: Path) -> None:
    writer = MetricsWriter(path, "job-1", 5.0)
    writer.write([part(cpu=[1.0] * 200, rss=[1.0] * 200), part("worker:1", cpu=[7.0])])
    writer.write([part(cpu=[2.0] * 10, anew=True, width=10.0)])
    writer.close()
    with Metrics(path) as metrics:
        assert metrics.points("worker:0", "cpu").every == 10.0
        assert len(metrics.points("worker:0", "cpu").at) == 10
        assert metrics.points("worker:0", "rss").at == ()
        assert metrics.points("worker:1", "cpu").mean == (7.0,)


def test_a_later_attempt_continues_the_file(path: Path) -> None:
    """It finds all that was stored, and adds to it."""
    written(path, part(first=35, cpu=[1.0] * 60, rss=[5.0] * 60), part("worker:1", cpu=[7.0]))
    writer = MetricsWriter(path, "job-1", 5.0)
    assert writer.went_on
    kept = {each.task: each for each in writer.read_stored_metrics()}
    assert (kept["worker:0"].first, kept["worker:0"].width) == (35, 5.0)
    assert kept["worker:0"].series == {"cpu": flat([1.0] * 60), "rss": flat([5.0] * 60)}
    assert kept["worker:1"].series == {"cpu": flat([7.0])}
    assert (writer.read_stored_progress(), writer.count_stored_checkpoints()) == ([TOLD], 1)
    writer.write([part("worker:2", first=100, pss=[1.0])], [], [CheckpointRecord("worker:2", 2, 1, 70, 1.0, 2.0)])
    writer.close()
    with Metrics(path) as metrics:
        assert metrics.tasks() == ("worker:0", "worker:1", "worker:2")
        assert metrics.series() == ("cpu", "pss", "rss")
        assert len(metrics.checkpoints()) == 2


def test_a_gap_without_end_fills_no_memory(path: Path) -> None:
    """One row of a damaged file may stand anywhere: what lies far before it is not gone on with."""
    far = 10_000_000 * layout.CHUNK
    written(path, part(cpu=[1.0] * 40, rss=[5.0] * 40), part(first=far + 3, cpu=[2.0]))
    writer = MetricsWriter(path, "job-1", 5.0)
    (kept,) = writer.read_stored_metrics()
    writer.close()
    assert (kept.first, kept.series["cpu"]) == (far + 3, flat([2.0]))
    assert [math.isnan(value) for value in kept.series["rss"]] == [True] * 3


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_an_unusable_metrics_file_is_replaced(path: Path, content: bytes) -> None:
    """Writer and reader accept any content."""
    path.write_bytes(content)
    with Metrics(path) as metrics:
        assert (metrics.known, metrics.tasks(), metrics.points("worker:0", "cpu").at) == (False, (), ())
        assert metrics.problem
    writer = MetricsWriter(path, "job-1", 5.0)
    assert not writer.went_on
    writer.write([part(cpu=[1.0])])
    writer.close()
    with Metrics(path) as metrics:
        assert metrics.tasks() == ("worker:0",)


def test_a_file_with_an_undecodable_sqlite_error_is_replaced(path: Path) -> None:
    """SQLite's message repeats the damaged bytes, which are no text: that is another error than all others."""
    written(path, part(cpu=[1.0]))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE series", b"CRE\x80TE TABLE series"))
    with Metrics(path) as metrics:
        assert not metrics.known
    writer = MetricsWriter(path, "job-1", 5.0)
    assert not writer.went_on
    writer.close()


def test_a_missing_file_has_no_metrics(path: Path) -> None:
    """No file, no numbers, no error, and reading makes no file."""
    with Metrics(path) as metrics:
        assert (metrics.known, metrics.problem) == (False, "no metrics were recorded")
        assert (metrics.progress(), metrics.checkpoints(), metrics.peaks(), metrics.series()) == ((), (), {}, ())
        assert metrics.read_role_series("worker", "cpu").at == ()
    assert not path.exists()


def test_a_file_of_another_version_is_not_known(path: Path) -> None:
    written(path, part(cpu=[1.0]))
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {layout.VERSION + 1}")
    database.close()
    with Metrics(path) as metrics:
        assert f"version {layout.VERSION + 1}" in metrics.problem
        assert not metrics.known


def test_damage_in_the_middle_never_raises(path: Path) -> None:
    """Wherever the bytes of a file are wrong, a reader returns something."""
    written(path, *(part(f"worker:{n}", cpu=[1.0] * 100, rss=[float(n)] * 100) for n in range(20)))
    sound = path.read_bytes()
    chance = Random(7)
    for _ in range(60):
        broken = bytearray(sound)
        for _ in range(chance.choice((1, 20, 400))):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        path.write_bytes(broken[: chance.choice((len(broken), len(broken), chance.randrange(len(broken))))])
        with Metrics(path) as metrics:
            for task in (*metrics.tasks(), "worker:1"):
                metrics.points(task, "cpu")
            metrics.read_role_series("worker", "rss")
            metrics.peaks()
            metrics.progress()
            metrics.checkpoints()


def test_a_hostile_file_costs_no_time(path: Path) -> None:
    """Rows that are no numbers are left out; a table that is an endless question ends."""
    written(path, part(cpu=[1.0]))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE chunk SET mean = '[' || printf('%.*c', 100000, '1') || ']', known = 'x'")
        database.execute("INSERT INTO progress (task, session, try) VALUES ('<b>', 'x', 1)")
        database.execute("DROP TABLE checkpoint")
    database.close()
    with Metrics(path) as metrics:
        assert metrics.points("worker:0", "cpu").at == ()
        assert metrics.progress() == (TOLD,)
        assert (metrics.checkpoints(), metrics.peaks()) == ((), {})
        assert metrics.problem


def test_a_writer_that_was_killed_leaves_a_sound_file(path: Path) -> None:
    """Whatever it was in the midst of is as if it had never begun, for readers and for its successor."""
    written(path, part(cpu=[1.0] * 100))
    code = (
        "import os, signal, sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('PRAGMA cache_size = 1')\n"
        "database.execute('PRAGMA synchronous = OFF')\n"
        "database.execute('BEGIN IMMEDIATE')\n"
        "for each in range(2000):\n"
        "    database.execute('INSERT INTO about VALUES (?, ?)', (f'k{each}', 'x' * 500))\n"
        "database.execute('DELETE FROM chunk')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert path.with_name("metrics.db-journal").stat().st_size > 0
    with Metrics(path) as metrics:
        assert len(metrics.points("worker:0", "cpu").at) == 100
    writer = MetricsWriter(path, "job-1", 5.0)
    assert writer.went_on
    writer.close()


def test_readers_and_a_writer_at_one_time(path: Path) -> None:
    """Each reader sees whole transactions."""
    writer = MetricsWriter(path, "job-1", 5.0)
    with Metrics(path) as metrics:
        for count in range(1, 20):
            writer.write([part(cpu=[float(count)] * count)])
            with Metrics(path) as fresh:
                assert fresh.points("worker:0", "cpu").mean == (float(count),) * count
        assert metrics.points("worker:0", "cpu").at == ()  # it knew of no such task when it was opened
    writer.close()


def test_a_write_in_the_background_ends_before_the_file_is_closed(path: Path) -> None:
    """Otherwise two threads would be in SQLite at once, which can crash the process."""
    begun, closed = threading.Event(), threading.Event()

    class Slow(UserDict[str, list[float]]):
        def items(self) -> ItemsView[str, list[float]]:
            begun.set()
            closed.wait(0.3)
            return super().items()

    writer = MetricsWriter(path, "job_1", 5.0)
    slow = TaskMetricsUpdate(
        task="worker:0", role="worker", width=5.0, anew=False, first=0, series=Slow(rss=flat([1.0]))
    )
    thread = threading.Thread(target=writer.write, args=([slow],))
    thread.start()
    begun.wait()
    writer.close()
    closed.set()
    thread.join()
    with Metrics(path) as metrics:
        assert metrics.read_newest()["worker:0"]["rss"] == 1.0
    with pytest.raises(StorageError, match="closed"):
        writer.write([part(rss=[1.0])])


def test_a_full_disk_is_a_storage_error(path: Path) -> None:
    writer = MetricsWriter(path, "job-1", 5.0)
    writer.write([part(cpu=[1.0])])
    writer._database.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StorageError, match="full"):
        writer.write([part(f"worker:{n}", cpu=[Random(n).random() for _ in range(500)]) for n in range(50)])
    writer.write([part(cpu=[2.0])])
    writer.close()
    with Metrics(path) as metrics:
        assert metrics.points("worker:0", "cpu").mean == (2.0,)
        assert metrics.tasks() == ("worker:0",)


def test_the_median_of_a_role_and_its_outliers(path: Path) -> None:
    """Over tasks whose buckets may have different widths."""
    parts = [part(f"worker:{n}", cpu=[float(n)] * 40) for n in range(5)]
    written(path, *parts, part("worker:9", cpu=[90.0] * 10, width=20.0), part("ps:0", cpu=[1000.0] * 40))
    with Metrics(path) as metrics:
        points = metrics.read_role_series("worker", "cpu")
        assert (points.every, len(points.at), points.at[0]) == (20.0, 10, 20.0)
        assert set(points.median) == {2.5}
        assert (set(points.least), set(points.least_of)) == ({0.0}, {"worker:0"})
        assert (set(points.most), set(points.most_of), set(points.tasks)) == ({90.0}, {"worker:9"}, {6})
        assert len(metrics.read_role_series("worker", "cpu", most=3).at) <= 3


def test_people_read_it_with_any_tool(path: Path) -> None:
    """The views have names and units, and real numbers."""
    written(path, part(cpu=[0.5, 1.5], rss=[1000.0, 3000.0]))
    database = sqlite3.connect(path)
    assert list(database.execute("SELECT * FROM points WHERE series = 'rss' ORDER BY since")) == [
        ("worker:0", "worker", "rss", "B", 0.0, 5.0, 1000.0, 1000.0, 1000.0),
        ("worker:0", "worker", "rss", "B", 5.0, 10.0, 3000.0, 3000.0, 3000.0),
    ]
    peaks = list(database.execute("SELECT * FROM peaks WHERE series = 'rss'"))
    assert peaks == [("worker:0", "worker", "rss", "B", 1000.0, 2000.0, 3000.0)]
    assert list(database.execute("SELECT value FROM about WHERE key = 'job'")) == [("job-1",)]
    database.close()


@given(st.lists(st.floats(-1e30, 1e30) | st.just(math.nan), min_size=1, max_size=layout.CHUNK), st.booleans())
def test_numbers_keep_their_digits(values: list[float], many: bool) -> None:
    """A row has as many digits as it should, relative to its largest number."""
    digits = layout.COARSE if many else layout.FINE
    row = layout.encode(7, flat(values), digits)
    if row is None:
        assert all(value != value for value in values)
        return
    back = layout.decode(*row[1:5])[1::3]
    largest = max(abs(value) for value in values if value == value)
    for value, found in zip(values, back, strict=True):
        assert (value != value) == (found != found)
        if value == value:
            assert found == pytest.approx(value, abs=1.3 * largest / digits + 1e-290)


@given(st.integers(0, 511), st.integers(0, 9_999), st.integers(0, 1 << 20))
def test_ids_encode_series_task_and_chunk(series: int, task: int, chunk: int) -> None:
    """And a task's rows of one series are adjacent."""
    number = layout.row_id(series, task, chunk)
    assert layout.parts(number) == (series, task, chunk)
    first, last = layout.ids(series, task)
    assert first <= number <= last < 1 << 62


def test_ten_thousand_tasks_fit_into_the_file(path: Path) -> None:
    """A hundredth of them, each with twenty series and as many buckets as there can be: 2 MB at most."""
    chance = Random(7)
    writer = MetricsWriter(path, "job-1", 33.0)
    for number in range(100):
        series = {f"user.s{each}": [chance.random() * 1e9 for _ in range(3 * 52)] for each in range(20)}
        writer.write([TaskMetricsUpdate(f"worker:{number}", "worker", 2112.0, True, 0, series)], many=True)
    writer.close()
    assert path.stat().st_size < 2_000_000


@pytest.mark.parametrize("table", ["series", "task", "chunk", "progress", "checkpoint"])
def test_a_view_in_place_of_a_table_is_not_queried(path: Path, table: str) -> None:
    """It would run a query of the file's author, which could fill memory and disk."""
    written(path, part(cpu=[1.0]))
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id FROM c"
    with sqlite3.connect(path) as database:
        database.executescript(
            f"DROP VIEW points; DROP VIEW peaks; DROP TABLE {table}; CREATE VIEW {table} AS {endless}"
        )
    database.close()
    with Metrics(path) as metrics:
        assert not metrics.known
        assert f"{table} is not a table" in metrics.problem


def test_text_without_end_is_not_taken(path: Path) -> None:
    """Text that SQLite generates while reading costs the file's author nothing, so its length is bounded."""
    written(path, part(cpu=[1.0]))
    rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 3000) SELECT x FROM c"
    with sqlite3.connect(path) as database:
        database.executescript(
            f"DROP TABLE checkpoint; CREATE TABLE checkpoint (session, try, step, since, until); "
            f"INSERT INTO checkpoint (session) {rows}; UPDATE checkpoint SET try = 1, step = 1, since = 1, until = 2; "
            f"ALTER TABLE checkpoint ADD COLUMN task TEXT DEFAULT '{'x' * 15_000}'"
        )
    database.close()
    with Metrics(path, own=False) as metrics:
        assert metrics.checkpoints() == ()
        assert "too many rows or too much text" in metrics.problem
        assert metrics.points("worker:0", "cpu").mean == (1.0,)


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_columns_that_are_computed_are_not_read(path: Path, kind: str) -> None:
    """A file of some kilobytes could stand for any amount of text."""
    written(path, part(cpu=[1.0]))
    made = f"name TEXT GENERATED ALWAYS AS (printf('%.16000c', 'x') || id) {kind}"
    with sqlite3.connect(path) as database:
        database.executescript(f"DROP TABLE series; CREATE TABLE series (id INTEGER PRIMARY KEY, {made}, unit TEXT)")
    database.close()
    with Metrics(path) as metrics:
        assert not metrics.known
        assert "series.name is not a plain column" in metrics.problem


def _journal_that_names(path: Path, other: Path) -> Path:
    """A journal of SQLite's as a transaction over several files leaves it: it says where the list of them is."""
    magic, page = bytes.fromhex("d9d505f920a163d7"), 4096
    head = magic + struct.pack(">5I", 0, 1, path.stat().st_size // page, 512, page)
    name = os.fsencode(other)
    tail = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(head.ljust(512, b"\0") + tail)
    return journal


@pytest.mark.parametrize("ours", [True, False])
def test_a_journal_removes_no_file(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool) -> None:
    """SQLite plays such a journal back and removes the file that it names, if the database is opened for writing."""
    written(path, part(cpu=[1.0]))
    precious = tmp_path / "precious"
    precious.write_text("as it is")
    journal = _journal_that_names(path, precious)
    if not ours:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with Metrics(path) as metrics:
        assert metrics.points("worker:0", "cpu").mean == (1.0,)
    assert precious.read_text() == "as it is"
    assert journal.exists()


def test_reading_creates_no_files_next_to_a_database(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in another mode needs two others beside it, which could be links."""
    written(path, part(cpu=[1.0]))
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
    database.close()
    for _ in ("ours", "others'"):
        with Metrics(path) as metrics:
            assert metrics.points("worker:0", "cpu").mean == (1.0,)
        assert sorted(each.name for each in path.parent.iterdir()) == [path.name]
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


def test_a_link_is_no_file(path: Path, tmp_path: Path) -> None:
    """What was measured of another job is not shown as this one's."""
    other = tmp_path / "other.db"
    written(other, part(cpu=[1.0]))
    path.symlink_to(other)
    with Metrics(path) as metrics:
        assert not metrics.known
        assert "not a regular file" in metrics.problem
