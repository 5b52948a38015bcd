"""Translates a query into filters on the index: as a full-text expression and as SQL conditions."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from tony.model.job_query import GROUPS, Query
from tony.portal.job_index.index_terms import build_expression, mark

#: Larger than any row id, and smaller than any.
_MAX_ROW_ID = 2**62
_MIN_ROW_ID = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a query, in two equivalent forms.

    Attributes:
        match: full-text expression; empty if only times are filtered.
        where: SQL conditions on columns; None if only the full text can express the filters.
        first, last: bounds of row ids.
    """

    match: str
    where: str | None
    first: int
    last: int

    @property
    def everything(self) -> bool:
        """True if all jobs match."""
        return not self.match and (self.first, self.last) == (_MIN_ROW_ID, _MAX_ROW_ID)


def filters_from_query(query: Query, connection: sqlite3.Connection) -> Filters | None:
    """Return the filters of a query; None if no job can match."""
    marks: list[str] = []
    columns: list[str] = []
    for kind, texts in _collect_texts(query).items():
        numbers = [number for text in texts if (number := _find_number(connection, kind, text)) is not None]
        if not numbers:
            return None
        marks.append("(" + " OR ".join(f'"{mark(kind, number)}"' for number in numbers) + ")")
        if kind != "tag":
            columns.append(f"j.{kind} in ({', '.join(map(str, numbers))})")
    if query.readers:
        owners = [("user", who) for who in query.readers if who != "*" and not who.startswith("@")]
        readers = [*owners, *(("reader", who) for who in query.readers)]
        known = [(kind, number) for kind, who in readers if (number := _find_number(connection, kind, who)) is not None]
        if not known:
            return None
        marks.append("(" + " OR ".join(f'"{mark(kind, number)}"' for kind, number in known) + ")")
    needs_full_text = bool(query.text.strip() or query.tag or query.readers)
    return Filters(
        match=build_expression(query.text, marks),
        where=None if needs_full_text else " and ".join(columns),
        first=_MIN_ROW_ID if query.since is None else _round_moment(query.since),
        last=_MAX_ROW_ID if query.until is None else _round_moment(query.until),
    )


def _collect_texts(query: Query) -> dict[str, list[str]]:
    texts_of_kind = {
        "user": [query.user],
        "framework": [query.framework],
        "scheduler": [query.scheduler],
        "queue": [query.queue],
        "tag": [query.tag],
        "failure": [query.failure_class.value if query.failure_class else ""],
        "state": sorted(state.value for state in GROUPS[query.state]) if query.state in GROUPS else [query.state],
    }
    return {kind: texts for kind, texts in texts_of_kind.items() if texts != [""]}


def _find_number(connection: sqlite3.Connection, kind: str, text: str) -> int | None:
    row = connection.execute(
        "select id from word where kind = ? and text = ? and jobs > 0", (kind, text.encode("utf-8", "replace").decode())
    ).fetchone()
    return None if row is None else int(row[0])


def _round_moment(seconds: float) -> int:
    return int(min(max(seconds * 1000, _MIN_ROW_ID), _MAX_ROW_ID))
