"""The tables of the index, and what is damage.

    word       a value that many jobs share (a user, a state, a tag), and how many jobs have it
    job        what is sorted and filtered by, in few bytes; its row id is the time of submission in milliseconds
    detail     what is shown of it
    job_text   full text: which jobs hold a word. What is filtered by stands there as words of its own, so that filters
               and search are one merge of lists that are in the order of submission already
    place      where histories are

Two jobs of the same millisecond are a few milliseconds apart here; the exact time is in `detail`.
"""

from __future__ import annotations

import sqlite3

#: Raised with every change below: an index of another version is made anew.
VERSION = 1
_CORRUPT, _NOT_A_DATABASE = 11, 26
#: Bytes of a page: rows are short, and what is read cold comes in few pieces.
_PAGE = 8192

_TABLES = """
create table word (id integer primary key, kind text not null, text text not null, jobs integer not null default 0);
create unique index word_text on word (kind, text);
create table place (id integer primary key, address text not null unique, seen real, problem text not null default '');
create table job (
    rid integer primary key, name text not null, user integer not null, state integer not null,
    framework integer not null, scheduler integer not null, queue integer not null, failure integer not null,
    cause integer not null, ended integer, took integer, tasks integer, restarts integer not null,
    sessions integer not null, gpu real, gb real, pinned integer not null, place integer not null);
create table detail (
    rid integer primary key, id text not null, submitted real not null, ended real, exit_code integer,
    reason text not null, tags text not null, people text not null, damaged text not null, path text not null,
    stamp text not null, size integer not null);
create unique index detail_id on detail (id);
create virtual table job_text using fts5 (text, content='', detail=none, prefix='2 3', tokenize='unicode61');
"""
#: What is sorted by, and where it says something: the index holds these rows alone.
SORTED = {
    "name": "",
    "ended": " where ended is not null",
    "took": " where took is not null",
    "tasks": " where tasks is not null",
    "restarts": " where restarts > 0",
    "gpu": " where gpu > 0",
    "gb": " where gb > 0",
}
#: Each holds what is filtered by as well: it is followed without a look at the table, of which little is in memory.
_INDEXES = "".join(
    f"create index job_{column} on job ({column}, rid, user, state, framework, scheduler, queue, failure){where};"
    for column, where in SORTED.items()
)
_OTHERS = "create index job_place on job (place, ended);"


def make(connection: sqlite3.Connection) -> None:
    """Fills an empty file with tables."""
    connection.execute(f"pragma page_size = {_PAGE}")
    connection.execute("pragma journal_mode = wal")
    connection.executescript(f"begin; {_TABLES} {_INDEXES} {_OTHERS} pragma user_version = {VERSION}; commit;")


def is_made(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there, and of our version."""
    return bool(connection.execute("pragma user_version").fetchone()[0] == VERSION)


def is_damage(error: BaseException | None) -> bool:
    """Whether the file itself is broken, and not only locked, or its disk full."""
    if isinstance(error, UnicodeDecodeError):  # SQLite repeats damaged text, and Python cannot tell it
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (_CORRUPT, _NOT_A_DATABASE)


def is_used(connection: sqlite3.Connection) -> bool:
    """Whether there is anything in the file."""
    return bool(connection.execute("select count(*) from sqlite_schema").fetchone()[0])
