"""Adds jobs to the index, and removes them."""

from __future__ import annotations

import contextlib
import json
import math
import random
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tony.model.codec import to_plain
from tony.model.job_summary import JobHead
from tony.model.states import JobState
from tony.portal.job_index.index_schema import (
    HEAD_FIELDS,
    KINDS,
    IndexEntry,
    build_searched_text,
    collect_words,
    find_row,
    mark,
    read_entry,
)

#: Largest row id, in milliseconds since 1970: in the year 5138.
_MAX_MILLISECONDS = 100_000_000_000_000
#: Maximum characters kept of names, and of messages.
_MAX_NAME_CHARACTERS = 200
_MAX_REASON_CHARACTERS = 500
_SENTENCES = ("reason", "error_line", "damaged")
#: Maximum tags of one job, and users or groups in its permissions.
_MAX_TAGS = 100
#: Cached numbers of values.
_MAX_CACHED_NUMBERS = 100_000

_JOB = f"insert or ignore into job values ({', '.join('?' * (len(KINDS) + 8))})"


class IndexUpdater:
    """The writer of the index. Not thread-safe.

    Args:
        connection: with `isolation_level=None`; each call is one transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[tuple[str, str], int] = {}
        self._counts: Counter[int] = Counter()

    def put(self, entries: Iterable[IndexEntry]) -> None:
        """Add or update jobs. An unchanged job costs almost nothing."""
        with self._begin_transaction():
            for entry in entries:
                self._put(_limit(entry))

    def remove(self, ids: Iterable[str]) -> None:
        """Remove jobs; unknown ones are ignored."""
        with self._begin_transaction():
            for job in ids:
                rid = find_row(self._connection, job)
                entry = None if rid is None else read_entry(self._connection, rid)
                if rid is not None and entry is not None:
                    self._delete(rid, entry)

    @contextlib.contextmanager
    def _begin_transaction(self) -> Iterator[None]:
        """Commit what is done in the context, with the changed counts; roll it back if it fails."""
        self._connection.execute("begin immediate")
        try:
            yield
            changes = [(by, number) for number, by in self._counts.items() if by]
            self._connection.executemany("update word set jobs = jobs + ? where id = ?", changes)
            self._connection.execute("commit")
        except BaseException:
            self._numbers.clear()
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise
        finally:
            self._counts.clear()

    def _put(self, entry: IndexEntry) -> None:
        head = entry.head
        rid = find_row(self._connection, head.job)
        known = None if rid is None else read_entry(self._connection, rid)
        if known == entry:
            return
        if rid is not None and known is not None:
            self._delete(rid, known)
        numbers = self._find_numbers(entry)
        ended = None if head.ended is None else int(head.ended * 1000)
        took = None if head.ended is None else max(0, round((head.ended - head.submitted) * 1000))
        usage = head.tasks, head.restarts, head.gpu_hours, head.gb_hours
        rid = self._insert(int(head.submitted * 1000), (head.name, *numbers[: len(KINDS)], ended, took, *usage))
        plain = [to_plain(getattr(head, name)) for name in HEAD_FIELDS]
        self._connection.execute(
            "insert into detail values (?, ?, ?, ?, ?, ?)",
            (rid, head.job, json.dumps(plain, separators=(",", ":")), entry.path, entry.stamp, bool(head.damaged)),
        )
        self._connection.execute("insert into job_text (rowid, text) values (?, ?)", (rid, _build_text(head, numbers)))
        self._counts.update(numbers)

    def _insert(self, preferred_id: int, values: tuple[object, ...]) -> int:
        """Insert a row with the wanted id, or with a free id nearby."""
        rid, reach = preferred_id, 1
        while not self._connection.execute(_JOB, (rid, *values)).rowcount:
            reach *= 2
            rid = preferred_id + random.randrange(1, reach)
        return rid

    def _delete(self, rid: int, entry: IndexEntry) -> None:
        numbers = self._find_numbers(entry)
        self._connection.execute(
            "insert into job_text (job_text, rowid, text) values ('delete', ?, ?)",
            (rid, _build_text(entry.head, numbers)),
        )
        self._connection.execute("delete from job where rid = ?", (rid,))
        self._connection.execute("delete from detail where rid = ?", (rid,))
        self._counts.subtract(numbers)

    def _find_numbers(self, entry: IndexEntry) -> list[int]:
        return [self._find_number(kind, text) for kind, text in collect_words(entry)]

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


def _build_text(head: JobHead, numbers: Iterable[int]) -> str:
    return "\n".join((build_searched_text(head), *map(mark, numbers)))


def _limit(entry: IndexEntry) -> IndexEntry:
    """Limit texts, times and numbers of an entry to valid values."""
    head = entry.head
    values: dict[str, object] = {}
    for name in HEAD_FIELDS:
        value = getattr(head, name)
        if isinstance(value, str):
            values[name] = _limit_text(value, _MAX_REASON_CHARACTERS if name in _SENTENCES else _MAX_NAME_CHARACTERS)
        elif isinstance(value, tuple):
            texts = (_limit_text(text, _MAX_NAME_CHARACTERS) for text in value[:_MAX_TAGS])
            values[name] = tuple(dict.fromkeys(text for text in texts if text))
    values |= {
        "state": JobState.FAILED if head.damaged else head.state,
        "submitted": _check_time(head.submitted) or 0.0,
        "ended": None if head.ended is None else _check_time(head.ended),
        "tasks": None if head.tasks is None else _limit_integer(head.tasks),
        "restarts": _limit_integer(head.restarts),
        "gpu_hours": _check_number(head.gpu_hours),
        "gb_hours": _check_number(head.gb_hours),
    }
    return replace(entry, head=replace(head, **values))  # type: ignore[arg-type]


def _limit_text(text: str, most: int) -> str:
    """Cut a text; replace lone surrogates, which cannot be stored, and NULs, at which SQLite's functions stop."""
    return text[:most].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _limit_integer(number: int) -> int:
    """Limit an integer to those that SQLite can store."""
    return min(max(number, -(2**63)), 2**63 - 1)


def _check_number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _check_time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) and 0 <= seconds * 1000 < _MAX_MILLISECONDS else None
