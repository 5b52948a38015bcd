"""Adds jobs to the index, and removes them."""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tony.model.job_report import FailureClass
from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.portal.job_index.index_schema import IndexEntry
from tony.portal.job_index.index_terms import (
    KINDS,
    MAX_NAME_CHARACTERS,
    MAX_REASON_CHARACTERS,
    build_searched_text,
    collect_words,
    mark,
)

#: Largest row id, in milliseconds since 1970: in the year 5138.
_MAX_MILLISECONDS = 100_000_000_000_000
#: Maximum tags of one job, and users or groups in its permissions.
_MAX_TAGS = 100
#: Cached numbers of values.
_MAX_CACHED_NUMBERS = 100_000

_JOB = f"""insert or ignore into job values ({", ".join("?" * (len(KINDS) + 11))})"""
_DETAIL = "insert into detail values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE_TEXT = "insert into job_text (job_text, rowid, text) values ('delete', ?, ?)"


class IndexUpdater:
    """The writer of the index. Not thread-safe.

    Args:
        connection: with `isolation_level=None`; each call is one transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[tuple[str, str], int] = {}
        self._counts: dict[int, int] = {}

    def put(self, entries: Iterable[IndexEntry]) -> None:
        """Add or update jobs. An unchanged job costs almost nothing."""
        with self._begin_transaction():
            for entry in entries:
                self._put(entry)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove jobs; unknown ones are ignored."""
        with self._begin_transaction():
            for job in ids:
                row = self._find_row(job)
                if row is not None:  # 0 is valid: a damaged job without a time
                    self._delete(row, job)

    @contextlib.contextmanager
    def _begin_transaction(self) -> Iterator[None]:
        """Commit what is done in the context, with the changed counts; roll it back if it fails."""
        self._connection.execute("begin immediate")
        try:
            yield
            self._connection.executemany(
                "update word set jobs = jobs + ? where id = ?",
                [(by, number) for number, by in self._counts.items() if by],
            )
            self._connection.execute("commit")
        except BaseException:
            self._numbers.clear()
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise
        finally:
            self._counts.clear()

    def _put(self, entry: IndexEntry) -> None:
        entry = _limit(entry)
        head = entry.head
        row = self._find_row(head.job)
        if row is not None:
            known = read_entry(self._connection, row)
            if known == entry:
                return
            self._delete(row, head.job)
        numbers = {kind: self._find_number(kind, text) for kind, text in collect_words(head).items()}
        more = self._collect_multiple_values(head)
        took = None if head.ended is None else max(0, round((head.ended - head.submitted) * 1000))
        rid = self._insert(
            _to_milliseconds(head.submitted),
            (
                head.name,
                *(numbers[kind] for kind in KINDS),
                None if head.ended is None else _to_milliseconds(head.ended),
                took,
                head.tasks,
                head.restarts,
                head.sessions,
                head.gpu_hours,
                head.gb_hours,
                int(head.pinned),
                self._find_place(entry.place),
            ),
        )
        self._connection.execute(
            _DETAIL,
            (
                rid,
                head.job,
                head.submitted,
                head.ended,
                head.exit_code,
                head.reason,
                "\n".join(head.tags),
                "\n".join(head.viewers) + "\t" + "\n".join(head.editors),
                head.damaged,
                entry.path,
                entry.stamp,
            ),
        )
        text = _build_text(head, numbers, more)
        self._connection.execute("insert into job_text (rowid, text) values (?, ?)", (rid, text))
        self._add_counts((*numbers.values(), *(number for _, number in more)), 1)

    def _collect_multiple_values(self, head: JobHead) -> list[tuple[str, int]]:
        """Return kind and number of the values of which a job may have several."""
        readers = dict.fromkeys((*head.viewers, *head.editors))
        more = [("tag", tag) for tag in head.tags] + [("reader", who) for who in readers]
        return [(kind, self._find_number(kind, text)) for kind, text in more]

    def _insert(self, preferred_id: int, values: tuple[object, ...]) -> int:
        """Insert a row with the wanted id, or with a free id nearby."""
        rid, reach = preferred_id, 1
        while not self._connection.execute(_JOB, (rid, *values)).rowcount:
            reach *= 2
            rid = preferred_id + random.randrange(1, reach)
        return rid

    def _find_row(self, job: str) -> int | None:
        found = self._connection.execute("select rid from detail where id = ?", (job,)).fetchone()
        return None if found is None else int(found[0])

    def _delete(self, rid: int, job: str) -> None:
        entry = read_entry(self._connection, rid)
        assert entry is not None, job
        numbers = {kind: self._find_number(kind, text) for kind, text in collect_words(entry.head).items()}
        more = self._collect_multiple_values(entry.head)
        text = _build_text(entry.head, numbers, more)
        self._connection.execute(_DELETE_TEXT, (rid, text))
        self._connection.execute("delete from job where rid = ?", (rid,))
        self._connection.execute("delete from detail where rid = ?", (rid,))
        self._add_counts((*numbers.values(), *(number for _, number in more)), -1)

    def _find_place(self, address: str) -> int:
        known = self._numbers.get(("place", address))
        if known is None:
            self._connection.execute("insert or ignore into place (address) values (?)", (address,))
            row = self._connection.execute("select id from place where address = ?", (address,)).fetchone()
            known = self._numbers["place", address] = int(row[0])
        return known

    def _find_number(self, kind: str, text: str) -> int:
        known = self._numbers.get((kind, text))
        if known is None:
            row = self._connection.execute("select id from word where kind = ? and text = ?", (kind, text)).fetchone()
            if row is None:
                made = self._connection.execute("insert into word (kind, text) values (?, ?)", (kind, text))
                assert made.lastrowid is not None
                row = (made.lastrowid,)
            if len(self._numbers) >= _MAX_CACHED_NUMBERS:
                self._numbers.clear()
            known = self._numbers[kind, text] = int(row[0])
        return known

    def _add_counts(self, words: Iterable[int], by: int) -> None:
        for number in words:
            self._counts[number] = self._counts.get(number, 0) + by


def _limit(entry: IndexEntry) -> IndexEntry:
    """Limit texts and times of an entry to valid values."""
    head = entry.head
    return replace(
        entry,
        head=replace(
            head,
            name=_replace_unstorable(head.name[:MAX_NAME_CHARACTERS]),
            user=_replace_unstorable(head.user[:MAX_NAME_CHARACTERS]),
            framework=_replace_unstorable(head.framework[:MAX_NAME_CHARACTERS]),
            scheduler=_replace_unstorable(head.scheduler[:MAX_NAME_CHARACTERS]),
            queue=_replace_unstorable(head.queue[:MAX_NAME_CHARACTERS]),
            cause=_replace_unstorable(head.cause[:MAX_NAME_CHARACTERS]),
            reason=_replace_unstorable(head.reason[:MAX_REASON_CHARACTERS]),
            damaged=_replace_unstorable(head.damaged[:MAX_REASON_CHARACTERS]),
            tags=_limit_words(head.tags),
            viewers=_limit_words(head.viewers),
            editors=_limit_words(head.editors),
            state=JobState.FAILED if head.damaged else head.state,
            submitted=_check_time(head.submitted) or 0.0,
            ended=None if head.ended is None else _check_time(head.ended),
            gpu_hours=_drop_infinite(head.gpu_hours),
            gb_hours=_drop_infinite(head.gb_hours),
        ),
    )


def _limit_words(texts: tuple[str, ...]) -> tuple[str, ...]:
    cut = (
        " ".join(_replace_unstorable(text[:MAX_NAME_CHARACTERS]).splitlines()).replace("\t", " ")
        for text in texts[:_MAX_TAGS]
    )
    return tuple(dict.fromkeys(text for text in cut if text))


def _split_lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def _replace_unstorable(text: str) -> str:
    """Replace lone surrogates, which cannot be stored, and NULs, at which SQLite's functions stop."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _drop_infinite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _check_time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) and 0 <= seconds * 1000 < _MAX_MILLISECONDS else None


def _to_milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _build_text(head: JobHead, numbers: Mapping[str, int], more: Iterable[tuple[str, int]]) -> str:
    marks = [mark(kind, number) for kind, number in (*numbers.items(), *more) if kind != "cause"]
    return "\n".join((build_searched_text(head), *marks))


_ENTRY = """
select d.id, j.name, d.submitted, d.ended, d.exit_code, d.reason, d.tags, d.people, d.damaged, d.path, d.stamp,
    u.text, s.text, f.text, m.text, q.text, l.text, c.text,
    j.tasks, j.restarts, j.sessions, j.gpu, j.gb, j.pinned, p.address
from job j join detail d using (rid)
    join word u on u.id = j.user join word s on s.id = j.state join word f on f.id = j.framework
    join word m on m.id = j.scheduler join word q on q.id = j.queue join word l on l.id = j.failure
    join word c on c.id = j.cause join place p on p.id = j.place
where j.rid = ?
"""


def read_entry(connection: sqlite3.Connection, rid: int) -> IndexEntry | None:
    """Return the entry of one row; None if it was just removed."""
    row = connection.execute(_ENTRY, (rid,)).fetchone()
    if row is None:
        return None
    (job, name, submitted, ended, exit_code, reason, tags, people, damaged, path, stamp) = row[:11]
    (user, state, framework, scheduler, queue, failure, cause) = row[11:18]
    (tasks, restarts, sessions, gpu, gb, pinned, place) = row[18:]
    head = JobHead(
        job=job,
        name=name,
        state=JobState.FAILED if damaged else JobState(state),
        user=user,
        scheduler=scheduler,
        framework=framework,
        tasks=tasks,
        submitted=submitted,
        ended=ended,
        exit_code=exit_code,
        reason=reason,
        queue=queue,
        tags=_split_lines(tags),
        viewers=_split_lines(people.partition("\t")[0]),
        editors=_split_lines(people.partition("\t")[2]),
        failure_class=FailureClass(failure) if failure else None,
        cause=cause,
        sessions=sessions,
        restarts=restarts,
        gpu_hours=gpu,
        gb_hours=gb,
        pinned=bool(pinned),
        damaged=damaged,
    )
    return IndexEntry(head=head, place=place, path=path, stamp=stamp)
