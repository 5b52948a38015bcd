"""The tables of the index.

    word       a value shared by many jobs (a user, a state, a tag), and the number of jobs that have it
    job        columns for sorting and filtering, in few bytes; the row id is the submission time in milliseconds
    detail     columns for display
    job_text   full text: posting lists of words. Filter values are stored as reserved words, so that filters and search
               are one merge of lists that are already in the order of submission
    place      locations of histories

Jobs submitted in the same millisecond get row ids a few milliseconds apart; the exact time is in `detail`.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from tony.model.job_summary import JobHead

#: Incremented with every change below: an index of another version is recreated.
VERSION = 2
#: Result codes of SQLite.
_CORRUPT = 11
_NOT_A_DATABASE = 26
#: Bytes of a page: large, because rows are short and few reads are better for a cold cache.
_PAGE = 8192

_TABLES = """
create table word (id integer primary key, kind text not null, text text not null, jobs integer not null default 0);
create unique index word_text on word (kind, text);
create table place (id integer primary key, address text not null unique);
create table job (
    rid integer primary key, name text not null, user integer not null, state integer not null,
    framework integer not null, scheduler integer not null, queue integer not null, failure integer not null,
    cause integer not null, ended integer, took integer, tasks integer, restarts integer not null,
    sessions integer not null, gpu real, gb real, pinned integer not null, place integer not null);
create table detail (
    rid integer primary key, id text not null, submitted real not null, ended real, exit_code integer,
    reason text not null, tags text not null, people text not null, damaged text not null, path text not null,
    stamp text not null);
create unique index detail_id on detail (id);
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
_INDEXES = "".join(
    f"create index job_{column} on job ({column}, rid, user, state, framework, scheduler, queue, failure){where};"
    for column, where in SORTED.items()
)
_OTHERS = "create index job_place on job (place, ended);"


def make(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file."""
    connection.execute(f"pragma page_size = {_PAGE}")
    connection.execute("pragma journal_mode = wal")
    connection.executescript(f"begin; {_TABLES} {_INDEXES} {_OTHERS} pragma user_version = {VERSION}; commit;")


def is_made(connection: sqlite3.Connection) -> bool:
    """Return True if the tables exist and have the current version."""
    return bool(connection.execute("pragma user_version").fetchone()[0] == VERSION)


def is_damage(error: BaseException | None) -> bool:
    """Return True if an error means that the file is corrupt, not just locked or the disk full."""
    if isinstance(error, UnicodeDecodeError):  # SQLite's message contains damaged text that Python cannot decode
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
