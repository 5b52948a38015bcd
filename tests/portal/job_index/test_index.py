"""The index answers what a look at every job would answer, and outlives its own file."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.portal.index_entries import NOW, entry, head, heads, key, queries, wanted
from tony.errors import StorageError
from tony.model.job_query import Facet, JobSort, JobsPage, Query
from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.portal.job_index import index_query
from tony.portal.job_index.index import JobIndex
from tony.portal.job_index.index_schema import IndexEntry


@pytest.fixture
def index(tmp_path: Path) -> Iterator[JobIndex]:
    """An empty one that is ours to write."""
    made = JobIndex(tmp_path / "index.db")
    assert made.claim()
    yield made
    made.close()


def pages(index: JobIndex, query: Query) -> list[JobHead]:
    """All pages of an answer, one after another."""
    found: list[JobHead] = []
    while True:
        page = index.query_page(query)
        assert len(page.heads) <= query.most
        found += page.heads
        if not page.next:
            return found
        assert len(page.heads) == query.most
        query = replace(query, after=page.next)


def as_entry(each: JobHead) -> IndexEntry:
    return IndexEntry(head=each, place="/here", path=f"jobs/{each.job}", stamp="1")


#: One file for all examples: making one waits for the disk.
_ONE_FILE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(max_examples=25, deadline=None, suppress_health_check=_ONE_FILE)
@given(made=heads(), asked=st.lists(queries, min_size=1, max_size=12), few=st.sampled_from([0, 3, 20_000]))
def test_every_query_equals_a_scan_of_all_jobs(
    index: JobIndex, made: Sequence[JobHead], asked: Sequence[Query], few: int
) -> None:
    """Each job once, over all pages, in the requested order; whether few match or many."""
    before = index_query.FEW, index_query.COUNTED
    index_query.FEW = index_query.COUNTED = few
    try:
        index.remove([*index.iterate_ids("/here")])
        index.put(map(as_entry, made))
        for query in asked:
            check(index, made, query)
    finally:
        index_query.FEW, index_query.COUNTED = before


def check(index: JobIndex, made: Sequence[JobHead], query: Query) -> None:
    found, expected = pages(index, query), wanted(made, query)
    assert sorted(each.job for each in found) == sorted(each.job for each in expected), query
    assert {each.job: each for each in found} == {each.job: each for each in expected}
    total = index.query_page(query).total
    assert total == len(expected) or (total is None and len(expected) > index_query.COUNTED)
    values = [key(each, query.sort) for each in found]
    known = [value for value in values if value is not None]
    assert values == known + [None] * (len(values) - len(known)), "what is not known comes last"
    assert known == sorted(known, reverse=query.descending), query


def test_changed_jobs_are_found_by_their_new_values(index: JobIndex) -> None:
    """Text, filters and counts are the current ones; the order of submission stays."""
    index.put([entry(1, state=JobState.RUNNING, ended=None), entry(2)])
    index.put([entry(1, state=JobState.FAILED, reason="disk full", name="other")])
    assert [each.job[-4:] for each in index.query_page(Query()).heads] == ["0002", "0001"]
    assert [each.name for each in index.query_page(Query(text="disk")).heads] == ["other"]
    assert index.query_page(Query(text="digits")).total == 1
    assert index.query_page(Query(state="running")).total == 0
    facets = index.query_page(Query()).facets
    assert facets.states == (Facet(value="failed", jobs=1), Facet(value="succeeded", jobs=1))
    assert facets.users == (Facet(value="ann", jobs=2),)


@settings(max_examples=10, deadline=None, suppress_health_check=_ONE_FILE)
@given(first=heads(), second=heads(), data=st.data())
def test_an_updated_index_equals_a_new_one(
    index: JobIndex, first: Sequence[JobHead], second: Sequence[JobHead], data: st.DataObject
) -> None:
    """Full text and counts contain nothing of removed jobs."""
    gone = data.draw(st.sets(st.sampled_from([each.job for each in (*first, *second)] or ["x"])))
    index.put(map(as_entry, first))
    index.put(map(as_entry, second))
    index.remove(gone)
    changed = answers(index)
    last = {each.job: each for each in (*first, *second) if each.job not in gone}
    index.remove([*index.iterate_ids("/here")])
    assert index.query_page(Query()) == JobsPage(heads=(), total=0)
    index.put(map(as_entry, last.values()))
    assert answers(index) == changed
    index.remove([*index.iterate_ids("/here")])


def answers(index: JobIndex) -> list[object]:
    asked = (Query(), Query(text="digits"), Query(tag="digits"), Query(user="ann", state="failed"))
    told = [index.query_page(query) for query in asked]
    return [(sorted(map(repr, page.heads)), page.total, page.facets) for page in told]


def test_a_page_keeps_its_place_while_jobs_come(index: JobIndex) -> None:
    """What is newer does not shift the next page, and nothing is seen twice."""
    index.put(entry(number) for number in range(10))
    first = index.query_page(Query(most=4))
    index.put(entry(number) for number in range(10, 20))
    second = index.query_page(Query(most=4, after=first.next))
    assert [each.job[-2:] for each in (*first.heads, *second.heads)] == ["09", "08", "07", "06", "05", "04", "03", "02"]


def test_many_jobs_of_one_moment(index: JobIndex) -> None:
    index.put(entry(number, submitted=NOW) for number in range(500))
    assert len({each.job for each in pages(index, Query(most=100))}) == 500


def test_foreign_text_is_only_text(index: JobIndex) -> None:
    """Whatever is searched for, and whatever a job is called: no syntax, no error."""
    index.put([entry(1, name='a" OR "b', tags=("x\ny", "NEAR(", "\ud800"), reason="\0")])
    for text in ('"', "a OR b", "NEAR(x y)", "*", "a*b", "id:1", "\0", "\ue000s1", "\ud800", "'; drop table job", "-x"):
        index.query_page(Query(text=text, user=text, tag=text))
        assert len(index.query_page(Query(text=text)).heads) in (0, 1)
    assert index.query_page(Query(text="\ue000u1")).heads == ()
    assert len(index.query_page(Query(text='a" OR "b')).heads) == 1


@pytest.mark.parametrize("after", ["x", "1", "=", "MS4xLg", "ü", "MC45OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTku", "M" * 5000])
def test_an_unknown_position_is_refused(index: JobIndex, after: str) -> None:
    """Or it leads to a page, and never further."""
    index.put([entry(1)])
    for sort in JobSort:
        with contextlib.suppress(ValueError):
            assert len(index.query_page(Query(after=after, sort=sort)).heads) <= 1


def test_numbers_that_are_none(index: JobIndex) -> None:
    """Times and hours of damaged or hostile records are not known, and the job is there."""
    nan, inf = float("nan"), float("inf")
    index.put([entry(1, submitted=nan, ended=inf, gpu_hours=nan, gb_hours=-1.0), entry(2, submitted=1e300)])
    found = index.query_page(Query()).heads
    assert [(each.submitted, each.ended, each.gpu_hours) for each in found][1:] in (
        [(0.0, None, None)],
        [(0.0, 62.0 + NOW, None)],
    )
    assert len(found) == 2


def test_integers_that_sqlite_cannot_store(index: JobIndex) -> None:
    """They do not keep the other jobs of their batch out of the index."""
    index.put([entry(1, tasks=2**70, restarts=2**70), entry(2, tasks=-(2**70), sessions=2**70, exit_code=-(2**70))])
    assert sorted(each.tasks or 0 for each in index.query_page(Query()).heads) == [-(2**63), 2**63 - 1]


def test_only_one_writes_and_all_read(tmp_path: Path) -> None:
    """A second process's writing is refused, and continues when the first has gone."""
    first, second = JobIndex(tmp_path / "index.db"), JobIndex(tmp_path / "index.db")
    assert second.query_page(Query()).heads == ()
    assert first.claim()
    assert not second.claim()
    first.put([entry(1)])
    assert [each.job for each in second.query_page(Query()).heads] == [entry(1).head.job]
    with pytest.raises(StorageError, match="written by another"):
        second.put([entry(2)])
    first.close()
    assert second.claim()
    second.put([entry(2)])
    assert second.query_page(Query()).total == 2
    second.close()


_COUNT_JOBS = """
import pathlib, sys
from tony.portal.job_index.index import JobIndex
print(JobIndex(pathlib.Path(sys.argv[1])).count_jobs("/here"))
"""


def test_a_reading_process_leaves_the_writers_log_alone(index: JobIndex) -> None:
    """Locks of a file belong to a process: a second index in this one would not notice that they are lost."""
    log = index.path.with_name("index.db-wal")
    for count in (1, 2):
        index.put([entry(count)])
        assert index.count_jobs("/here") == count
        before = log.stat().st_ino
        found = subprocess.run(
            [sys.executable, "-c", _COUNT_JOBS, str(index.path)], capture_output=True, text=True, check=True
        )
        assert int(found.stdout) == count
        assert log.stat().st_ino == before


def test_all_processes_read_a_rebuilt_index(tmp_path: Path) -> None:
    """Also the readers: another process does not continue with the replaced file."""
    writer, reader = JobIndex(tmp_path / "index.db"), JobIndex(tmp_path / "index.db")
    assert writer.claim()
    writer.put([entry(1)])
    assert [each.job for each in reader.query_page(Query()).heads] == [head(1).job]
    writer.path.unlink()
    writer.put([entry(2)])
    assert [each.job for each in reader.query_page(Query()).heads] == [head(2).job]
    writer.close()
    reader.close()


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 8192])
def test_a_file_that_is_no_index_is_put_aside(tmp_path: Path, content: bytes) -> None:
    """And a new one is made."""
    path = tmp_path / "index.db"
    path.write_bytes(content)
    index = JobIndex(path)
    assert index.claim()
    index.put([entry(1)])
    assert index.query_page(Query()).total == 1
    assert [each.read_bytes() for each in tmp_path.glob("*.damaged-*")] == ([content] if content else [])
    index.close()


def test_an_index_with_an_undecodable_sqlite_error_is_rebuilt(tmp_path: Path) -> None:
    """SQLite's message repeats the damaged bytes, which are no text: that is another error than all others."""
    path = tmp_path / "index.db"
    index = JobIndex(path)
    assert index.claim()
    index.put([entry(1)])
    index.close()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE job", b"CRE\x80TE TABLE job"))
    index = JobIndex(path)
    assert index.claim()
    assert index.query_page(Query()).total == 0
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1
    index.close()


def test_an_index_of_another_version_is_rebuilt(tmp_path: Path) -> None:
    """Its tables may differ."""
    path = tmp_path / "index.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table job (x)")
    connection.close()
    index = JobIndex(path)
    assert index.claim()
    assert index.query_page(Query()).total == 0
    index.close()


@pytest.mark.parametrize("how", ["torn", "removed"])
def test_damage_in_the_midst_is_mended(tmp_path: Path, how: str) -> None:
    """The process that notices it rebuilds the index, with a new generation: then all jobs are inserted again."""
    path = tmp_path / "index.db"
    index = JobIndex(path)
    assert index.claim()
    index.put(entry(number) for number in range(2000))
    before = index.generation
    if how == "removed":
        path.unlink()
    else:
        index.close()
        data = bytearray(path.read_bytes())
        for offset in range(8192 * 3, len(data), 8192):
            data[offset : offset + 4000] = b"\xaa" * 4000
        path.write_bytes(data)
        assert index.claim()
    index.put(entry(number) for number in range(2000, 4000))
    index.put(entry(number) for number in range(10))
    assert index.generation != before
    assert pages(index, Query(most=1000))
    index.close()


def test_known_jobs_of_a_location(index: JobIndex) -> None:
    """By job: where its directory is, and its last state."""
    index.put([entry(1), entry(2, state=JobState.RUNNING, ended=None), entry(3, place="/there")])
    known = index.find_known(head(number).job for number in (1, 2, 4))
    assert {job[-1]: each.ended for job, each in known.items()} == {"1": True, "2": False}
    assert [*index.find_still_open("/here", 10)] == [head(2).job]
    assert [*index.iterate_ids("/here")] == [head(2).job, head(1).job]
    assert (index.count_jobs("/here"), index.count_jobs("/nowhere")) == (2, 0)


def test_damaged_records(index: JobIndex) -> None:
    """They are listed separately; one without a known time can be removed as well."""
    broken: dict[str, Any] = {"state": JobState.FAILED, "ended": None, "damaged": "job.json is missing"}
    index.put([entry(1, submitted=0.0, **broken), entry(2, **broken), entry(3, state=JobState.RUNNING, ended=None)])
    assert [*index.find_still_open("/here", 10, damaged=True)] == [head(2).job, head(1).job]
    assert [*index.find_still_open("/here", 1, damaged=True)] == [head(2).job]
    assert [*index.find_still_open("/here", 10)] == [head(3).job]
    index.remove([head(1).job])
    assert [*index.iterate_ids("/here")] == [head(3).job, head(2).job]


def test_threads_read_while_one_writes(index: JobIndex) -> None:
    seen: list[Counter[int]] = []
    errors: list[Exception] = []
    done = threading.Event()

    def read() -> None:
        counts: Counter[int] = Counter()
        try:
            while not done.is_set():
                total = index.query_page(Query()).total
                assert total is not None
                counts[total % 50] += 1
        except Exception as error:
            errors.append(error)
        seen.append(counts)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for batch in range(10):
        index.put(entry(batch * 50 + number) for number in range(50))
    done.set()
    for thread in threads:
        thread.join()
    assert (errors, {key for counts in seen for key in counts}) == ([], {0})


def test_ours_alone_may_read_it(index: JobIndex, tmp_path: Path) -> None:
    index.put([entry(1)])
    assert {path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir() if path.stat().st_mode & 0o077} == {}
