"""The tables of the index, and the full text of a job in them.

    word       a value shared by many jobs (a user, a state, a tag), and the number of jobs that have it
    job        columns for sorting and filtering, in few bytes; the row id is the submission time in milliseconds
    detail     the values of the job's list entry as a JSON list, and the location of its directory
    job_text   full text: posting lists of words. Filter values are stored as reserved words, so that filters and search
               are one merge of lists that are already in the order of submission

Jobs submitted in the same millisecond get row ids a few milliseconds apart; the exact time is in `detail`.
"""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from zlib import crc32

from tony.model.codec import DecodeError, from_plain
from tony.model.job_query import DAMAGED
from tony.model.job_summary import JobHead

#: Result codes of SQLite.
_CORRUPT = 11
_NOT_A_DATABASE = 26
#: Bytes of a page: large, because rows are short and few reads are better for a cold cache.
_PAGE = 8192
#: The values of `detail.head`.
HEAD_FIELDS = tuple(each.name for each in fields(JobHead))
#: Values shared by many jobs, of which each job has one: columns of `job`.
KINDS = ("user", "state", "framework", "scheduler", "queue", "failure", "place")
_TABLES = f"""
create table word (id integer primary key, kind text not null, text text not null, jobs integer not null default 0);
create unique index word_text on word (kind, text);
create table job (
    rid integer primary key, name text not null, {", ".join(f"{kind} integer not null" for kind in KINDS)},
    ended integer, took integer, tasks integer, restarts integer not null, gpu real, gb real);
create table detail (
    rid integer primary key, id text not null unique, head text not null, path text not null, stamp text not null,
    damaged integer not null);
create virtual table job_text using fts5 (text, content='', detail=none, prefix='2 3', tokenize='unicode61');
"""
#: Sort columns, and the rows that their SQL index contains.
SORTED = {
    "name": "",
    "ended": " where ended is not null",
    "took": " where took is not null",
    "tasks": " where tasks is not null",
    "restarts": " where restarts > 0",
    "gpu": " where gpu > 0",
    "gb": " where gb > 0",
}
#: Covering indexes: each contains the filter columns, so that following it needs no table access.
_INDEXES = "create index job_place on job (place, ended);" + "".join(
    f"create index job_{column} on job ({column}, rid, user, state, framework, scheduler, queue, failure){where};"
    for column, where in SORTED.items()
)
#: Increase it when `collect_words`, `mark`, `build_searched_text` or the writer change what is stored of a job.
_CONTENT_VERSION = 2
#: An index with other tables or values is recreated.
_VERSION = crc32(f"{_TABLES}{_INDEXES}{HEAD_FIELDS}{_CONTENT_VERSION}".encode()) >> 1
#: Raised for text in a damaged file, or in SQLite's message about it, that cannot be decoded.
DAMAGED_TEXT_ERRORS = (UnicodeDecodeError, json.JSONDecodeError, DecodeError)


def make(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file."""
    connection.execute(f"pragma page_size = {_PAGE}")
    connection.execute("pragma journal_mode = wal")
    connection.executescript(f"begin; {_TABLES} {_INDEXES} pragma user_version = {_VERSION}; commit;")


def is_made(connection: sqlite3.Connection) -> bool:
    """Return True if the tables exist and have the current version."""
    return bool(connection.execute("pragma user_version").fetchone()[0] == _VERSION)


def is_damage(error: BaseException | None) -> bool:
    """Return True if an error means that the file is corrupt, not just locked or the disk full."""
    if isinstance(error, DAMAGED_TEXT_ERRORS):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (_CORRUPT, _NOT_A_DATABASE)


def is_used(connection: sqlite3.Connection) -> bool:
    """Return True if the file contains anything."""
    return bool(connection.execute("select count(*) from sqlite_schema").fetchone()[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """A job and the location of its directory.

    Attributes:
        place: address of the location.
        path: of the job directory, below the location.
        stamp: changes whenever the directory does; empty if it must be read each time.
    """

    head: JobHead
    place: str
    path: str
    stamp: str = ""


def find_row(connection: sqlite3.Connection, job: str) -> int | None:
    """Return the row id of a job; None if it is not in the index."""
    row = connection.execute("select rid from detail where id = ?", (job,)).fetchone()
    return None if row is None else int(row[0])


def read_entry(connection: sqlite3.Connection, rid: int) -> IndexEntry | None:
    """Return the entry of one row; None if it was just removed."""
    row = connection.execute(
        "select d.head, p.text, d.path, d.stamp from detail d join job j using (rid) join word p on p.id = j.place "
        "where d.rid = ?",
        (rid,),
    ).fetchone()
    if row is None:
        return None
    head, place, path, stamp = row
    return IndexEntry(
        head=from_plain(JobHead, dict(zip(HEAD_FIELDS, json.loads(head), strict=True))),
        place=place,
        path=path,
        stamp=stamp,
    )


# --- full text --------------------------------------------------------------------------------------------------------

#: First character of reserved words: a private-use character, which the tokenizer takes for a letter.
_MARK = "\ue000"
#: Maximum words of a search.
_MAX_WORDS = 12
#: Minimum letters of a last word that matches as a prefix; indexed prefixes are shorter.
_MIN_PREFIX = 2


def collect_words(entry: IndexEntry) -> list[tuple[str, str]]:
    """Return kind and text of a job's shared values: one of each of `KINDS`, then its tags and readers."""
    head = entry.head
    state = DAMAGED if head.damaged else head.state.value
    failure = head.failure_class.value if head.failure_class else ""
    single = (head.user, state, head.framework, head.scheduler, head.queue, failure, entry.place)
    readers = dict.fromkeys((*head.viewers, *head.editors))
    return [
        *zip(KINDS, single, strict=True),
        *(("tag", tag) for tag in head.tags),
        *(("reader", who) for who in readers),
    ]


def mark(number: int) -> str:
    """Return the reserved word of a filter value."""
    return f"{_MARK}{number}"


def build_searched_text(head: JobHead) -> str:
    """Return the searchable text of a job."""
    sentences = (head.damaged,) if head.damaged else (head.reason, head.error_line)
    return "\n".join((head.job, head.name, head.user, *head.tags, *sentences)).replace(_MARK, " ")


def build_expression(text: str, marks: Iterable[str]) -> str:
    """Return a full-text expression for every word of a search (the last one as a prefix) and every filter.

    A search without letters and digits matches nothing: its expression is a reserved word that no job has.

    Args:
        marks: further expressions that must match as well.
    """
    parts = [f'"{word}"' for word in [*_split_words(text)][:_MAX_WORDS]]
    if parts and len(parts[-1]) >= _MIN_PREFIX + 2:
        parts[-1] += "*"  # it may be still being typed
    if text.strip() and not parts:
        parts.append(f'"{mark(0)}"')
    return " AND ".join((*parts, *marks))


def _split_words(text: str) -> Iterator[str]:
    """Split text as the tokenizer does: a word consists of letters, digits and combining marks."""
    word = ""
    for char in text.replace(_MARK, " ").replace("\0", " "):
        if unicodedata.category(char)[0] in "LN" or unicodedata.category(char) in ("Co", "Mn", "Mc"):
            word += char
        elif word:
            yield word
            word = ""
    if word:
        yield word
