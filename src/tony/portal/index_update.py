"""Puts jobs into the index, and takes them out."""

from __future__ import annotations

import math
import random
import sqlite3
from collections.abc import Iterable, Mapping

from tony.dataclass import replace
from tony.model.job_report import FailureClass
from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.portal.index_entry import IndexEntry
from tony.portal.index_terms import KINDS, LONGEST_NAME, LONGEST_REASON, mark, searched, words_of

#: Milliseconds since 1970 that a row id can be: until the year 5138.
_LAST = 100_000_000_000_000
#: Tags of one job, and people whom it names.
_MOST = 100
#: Values that are remembered with their numbers; more are asked for again.
_REMEMBERED = 100_000

_JOB = f"""insert or ignore into job values ({", ".join("?" * (len(KINDS) + 11))})"""
_DETAIL = "insert into detail values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FORGET = "insert into job_text (job_text, rowid, text) values ('delete', ?, ?)"


class IndexUpdater:
    """The one who writes. Not for several threads.

    Args:
        connection: with `isolation_level=None`; each call is one transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[tuple[str, str], int] = {}
        self._counts: dict[int, int] = {}

    def put(self, entries: Iterable[IndexEntry]) -> None:
        """Adds jobs, or says anew what is known of them. One that cannot have changed costs next to nothing."""
        with self._transaction():
            for entry in entries:
                self._put(entry)

    def remove(self, ids: Iterable[str]) -> None:
        """Takes jobs out; fine if they are not there."""
        with self._transaction():
            for job in ids:
                row = self._row(job)
                if row is not None:  # 0 is one: a damaged record of which nobody knows the time
                    self._delete(row, job)

    def place(self, address: str) -> int:
        """The number of a location."""
        with self._transaction():
            return self._place(address)

    def note(self, address: str, seen: float | None, problem: str) -> None:
        """When a location was looked through last, and what was wrong there."""
        with self._transaction():
            self._connection.execute(
                "update place set seen = coalesce(?, seen), problem = ? where id = ?",
                (seen, problem, self._place(address)),
            )

    def _transaction(self) -> _Transaction:
        return _Transaction(self._connection, self)

    def _put(self, entry: IndexEntry) -> None:
        entry = _bounded(entry)
        head = entry.head
        row = self._row(head.job)
        if row is not None:
            known = read_entry(self._connection, row)
            if known == entry:
                return
            self._delete(row, head.job)
        numbers = {kind: self._number(kind, text) for kind, text in words_of(head).items()}
        more = self._more(head)
        place = self._place(entry.place)
        took = None if head.ended is None else max(0, round((head.ended - head.submitted) * 1000))
        rid = self._insert(
            _moment(head.submitted),
            (
                head.name,
                *(numbers[kind] for kind in KINDS),
                None if head.ended is None else _moment(head.ended),
                took,
                head.tasks,
                head.restarts,
                head.sessions,
                head.gpu_hours,
                head.gb_hours,
                int(head.pinned),
                place,
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
                "\n".join(head.viewers) + "\t" + "\n".join(head.modifiers),
                head.damaged,
                entry.path,
                entry.stamp,
                entry.size,
            ),
        )
        text = _text(head, numbers, more, place)
        self._connection.execute("insert into job_text (rowid, text) values (?, ?)", (rid, text))
        self._count((*numbers.values(), *(number for _, number in more)), 1)

    def _more(self, head: JobHead) -> list[tuple[str, int]]:
        """What a job may have several of, as kind and number."""
        readers = dict.fromkeys((*head.viewers, *head.modifiers))
        more = [("tag", tag) for tag in head.tags] + [("reader", who) for who in readers]
        return [(kind, self._number(kind, text)) for kind, text in more]

    def _insert(self, wanted: int, values: tuple[object, ...]) -> int:
        """Takes the row of that millisecond, or one near by, further away the more are taken."""
        rid, reach = wanted, 1
        while not self._connection.execute(_JOB, (rid, *values)).rowcount:
            reach *= 2
            rid = wanted + random.randrange(1, reach)
        return rid

    def _row(self, job: str) -> int | None:
        found = self._connection.execute("select rid from detail where id = ?", (job,)).fetchone()
        return None if found is None else int(found[0])

    def _delete(self, rid: int, job: str) -> None:
        entry = read_entry(self._connection, rid)
        assert entry is not None, job
        numbers = {kind: self._number(kind, text) for kind, text in words_of(entry.head).items()}
        more = self._more(entry.head)
        text = _text(entry.head, numbers, more, self._place(entry.place))
        self._connection.execute(_FORGET, (rid, text))
        self._connection.execute("delete from job where rid = ?", (rid,))
        self._connection.execute("delete from detail where rid = ?", (rid,))
        self._count((*numbers.values(), *(number for _, number in more)), -1)

    def _place(self, address: str) -> int:
        known = self._numbers.get(("place", address))
        if known is None:
            self._connection.execute("insert or ignore into place (address) values (?)", (address,))
            row = self._connection.execute("select id from place where address = ?", (address,)).fetchone()
            known = self._numbers["place", address] = int(row[0])
        return known

    def _number(self, kind: str, text: str) -> int:
        known = self._numbers.get((kind, text))
        if known is None:
            row = self._connection.execute("select id from word where kind = ? and text = ?", (kind, text)).fetchone()
            if row is None:
                made = self._connection.execute("insert into word (kind, text) values (?, ?)", (kind, text))
                assert made.lastrowid is not None
                row = (made.lastrowid,)
            if len(self._numbers) >= _REMEMBERED:
                self._numbers.clear()
            known = self._numbers[kind, text] = int(row[0])
        return known

    def _count(self, words: Iterable[int], by: int) -> None:
        for number in words:
            self._counts[number] = self._counts.get(number, 0) + by

    def settle(self) -> None:
        """Writes down what was counted; part of a transaction."""
        self._connection.executemany(
            "update word set jobs = jobs + ? where id = ?", [(by, number) for number, by in self._counts.items() if by]
        )
        self._counts.clear()

    def forget(self) -> None:
        """A transaction was given up: what was learnt in it is not so."""
        self._counts.clear()
        self._numbers.clear()


class _Transaction:
    """All or nothing."""

    def __init__(self, connection: sqlite3.Connection, writer: IndexUpdater) -> None:
        self._connection = connection
        self._writer = writer

    def __enter__(self) -> None:
        self._connection.execute("begin immediate")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._writer.settle()
            self._connection.execute("commit")
            return
        self._writer.forget()
        if self._connection.in_transaction:
            self._connection.execute("rollback")


def _bounded(entry: IndexEntry) -> IndexEntry:
    """What is kept of an entry: texts have an end, and times are times."""
    head = entry.head
    return replace(
        entry,
        head=replace(
            head,
            name=_plain(head.name[:LONGEST_NAME]),
            user=_plain(head.user[:LONGEST_NAME]),
            framework=_plain(head.framework[:LONGEST_NAME]),
            scheduler=_plain(head.scheduler[:LONGEST_NAME]),
            queue=_plain(head.queue[:LONGEST_NAME]),
            cause=_plain(head.cause[:LONGEST_NAME]),
            reason=_plain(head.reason[:LONGEST_REASON]),
            damaged=_plain(head.damaged[:LONGEST_REASON]),
            tags=_words(head.tags),
            viewers=_words(head.viewers),
            modifiers=_words(head.modifiers),
            state=JobState.FAILED if head.damaged else head.state,
            submitted=_time(head.submitted) or 0.0,
            ended=None if head.ended is None else _time(head.ended),
            gpu_hours=_finite(head.gpu_hours),
            gb_hours=_finite(head.gb_hours),
        ),
    )


def _words(texts: tuple[str, ...]) -> tuple[str, ...]:
    cut = (" ".join(_plain(text[:LONGEST_NAME]).splitlines()).replace("\t", " ") for text in texts[:_MOST])
    return tuple(dict.fromkeys(text for text in cut if text))


def _divided(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def _plain(text: str) -> str:
    """Half characters cannot be stored, and SQLite's functions stop at a NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) and 0 <= seconds * 1000 < _LAST else None


def _moment(seconds: float) -> int:
    return int(seconds * 1000)


def _text(head: JobHead, numbers: Mapping[str, int], more: Iterable[tuple[str, int]], place: int) -> str:
    marks = [mark(kind, number) for kind, number in numbers.items() if kind != "cause"]
    marks += [*(mark(kind, number) for kind, number in more), mark("place", place)]
    if head.pinned:
        marks.append(mark("pinned", 1))
    return "\n".join((searched(head), *marks))


_ENTRY = """
select d.id, j.name, d.submitted, d.ended, d.exit_code, d.reason, d.tags, d.people, d.damaged, d.path, d.stamp, d.size,
    u.text, s.text, f.text, m.text, q.text, l.text, c.text,
    j.tasks, j.restarts, j.sessions, j.gpu, j.gb, j.pinned, p.address
from job j join detail d using (rid)
    join word u on u.id = j.user join word s on s.id = j.state join word f on f.id = j.framework
    join word m on m.id = j.scheduler join word q on q.id = j.queue join word l on l.id = j.failure
    join word c on c.id = j.cause join place p on p.id = j.place
where j.rid = ?
"""


def read_entry(connection: sqlite3.Connection, rid: int) -> IndexEntry | None:
    """What the index says of one row; None if it has just gone."""
    row = connection.execute(_ENTRY, (rid,)).fetchone()
    if row is None:
        return None
    (job, name, submitted, ended, exit_code, reason, tags, people, damaged, path, stamp, size) = row[:12]
    (user, state, framework, scheduler, queue, failure, cause) = row[12:19]
    (tasks, restarts, sessions, gpu, gb, pinned, place) = row[19:]
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
        tags=_divided(tags),
        viewers=_divided(people.partition("\t")[0]),
        modifiers=_divided(people.partition("\t")[2]),
        failure_class=FailureClass(failure) if failure else None,
        cause=cause,
        sessions=sessions,
        restarts=restarts,
        gpu_hours=gpu,
        gb_hours=gb,
        pinned=bool(pinned),
        damaged=damaged,
    )
    return IndexEntry(head=head, place=place, path=path, stamp=stamp, size=size)
