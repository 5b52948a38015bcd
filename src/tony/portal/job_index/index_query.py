"""Queries on the index: one page at a time, by keyset pagination.

Row ids are ordered by submission time: in that order a page is read directly from the posting lists of the full text.
For any other order, a small number of matches is looked up and sorted; with many matches, that column's SQL index is
followed until the page is full. It contains the filter columns, too.
"""

from __future__ import annotations

import base64
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from tony.model.job_query import GROUPS, Facet, Facets, JobSort, JobsPage, Query
from tony.portal.job_index.index_schema import build_expression, mark, read_entry

#: Matches counted at most.
COUNTED = 20_000
#: Up to this number all matches are looked up and sorted, which costs a disk access each.
FEW = 2_000
#: Maximum values offered of each kind.
_MAX_FACETS = 200
#: Sort order -> column, and whether rows with 0 are sorted as a separate group.
_COLUMNS = {
    JobSort.NAME: ("name", False),
    JobSort.ENDED: ("ended", False),
    JobSort.DURATION: ("took", False),
    JobSort.TASKS: ("tasks", False),
    JobSort.RESTARTS: ("restarts", True),
    JobSort.GPU_HOURS: ("gpu", True),
    JobSort.GB_HOURS: ("gb", True),
}
_WORDS = {JobSort.USER: "user", JobSort.STATE: "state"}
_NEVER_UNKNOWN = ("name", "restarts")
_KEY = re.compile(r"(\d{1,18})\.(-?\d{1,18})\.(.*)", re.DOTALL)
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


@dataclass(frozen=True, slots=True)
class _Run:
    """A consecutive part of the result, from one statement.

    Attributes:
        number: identifies it in keys.
        column: sort column; empty for the order of submission.
        where: additional condition.
        word: filter term that all of its rows have.
    """

    number: int
    column: str = ""
    where: str = ""
    word: str = ""
    descending: bool = True


@dataclass(frozen=True, slots=True)
class _Key:
    """The position of a row in the result: run, row id and the value of the sort column."""

    run: int
    rid: int
    value: float | str | None

    def __str__(self) -> str:
        text = f"{self.run}.{self.rid}.{'' if self.value is None else self.value}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")  # proxies may alter other characters


class IndexQuery:
    """Queries the index.

    Args:
        connection: of the current thread.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def query_page(self, query: Query) -> JobsPage:
        """Return one page of the jobs that match a query.

        Raises:
            ValueError: the query's `after` is invalid.
        """
        filters = filters_from_query(query, self._connection)
        facets = self.query_facets(query.readers)
        if filters is None:
            return JobsPage(heads=(), total=0, facets=facets)
        total = self._count_total(filters)
        keys = [*self._iterate_keys(query, filters, total)]
        entries = [read_entry(self._connection, key.rid) for key in keys[: query.most]]
        return JobsPage(
            heads=tuple(entry.head for entry in entries if entry),
            next=str(keys[query.most - 1]) if len(keys) > query.most else "",
            total=total,
            facets=facets,
        )

    def query_facets(self, readers: tuple[str, ...] = ()) -> Facets:
        """Return the filter values of all jobs, or of the newest `COUNTED` that some readers may see.

        For the latter without tags, which are not in the table.
        """
        visible = filters_from_query(Query(readers=readers), self._connection) if readers else None
        if readers and visible is None:
            return Facets()
        return Facets(
            users=self._query_facet("user", visible),
            states=self._query_facet("state", visible),
            frameworks=self._query_facet("framework", visible),
            schedulers=self._query_facet("scheduler", visible),
            queues=self._query_facet("queue", visible),
            tags=() if visible else self._query_facet("tag", None),
            failure_classes=self._query_facet("failure", visible),
        )

    def _query_facet(self, kind: str, visible: Filters | None) -> tuple[Facet, ...]:
        if visible:
            rows = self._connection.execute(
                "select w.text, count(*) from (select t.rowid as rid from job_text t where t.job_text match ? "
                f"order by t.rowid desc limit {COUNTED}) join job j using (rid) join word w on w.id = j.{kind} "
                "where w.text != '' group by 1 order by 2 desc, 1 limit ?",
                (visible.match, _MAX_FACETS),
            )
            return tuple(Facet(value=text, jobs=jobs) for text, jobs in rows)
        rows = self._connection.execute(
            "select text, jobs from word where kind = ? and jobs > 0 and text != '' order by jobs desc, text limit ?",
            (kind, _MAX_FACETS),
        )
        return tuple(Facet(value=text, jobs=jobs) for text, jobs in rows)

    def _count_total(self, filters: Filters) -> int | None:
        """Return the number of matching jobs; None if there are more than `COUNTED`."""
        if filters.everything:
            sql = "select coalesce(sum(jobs), 0) from word where kind = 'state'"
            return int(self._connection.execute(sql).fetchone()[0])
        sql, values = _from_full_text(filters) if filters.match else _from_table(filters)
        found = self._connection.execute(
            f"select count(*) from (select 1 {sql} limit {COUNTED + 1})", values
        ).fetchone()[0]
        return int(found) if found <= COUNTED else None

    def _iterate_keys(self, query: Query, filters: Filters, total: int | None) -> Iterator[_Key]:
        """Yield the keys of the page's rows, and one more if there is a next page."""
        after = _parse_key(query)
        left = query.most + 1
        few = total is not None and total <= FEW
        runs = self._find_runs(query)
        if few and filters.match and runs[:1] and runs[0].word:
            among = self._find_values_of_kind(filters, _WORDS[query.sort]) | ({after.run} if after else set())
            runs = [run for run in runs if run.number in among]
        for run in runs:
            if after and run.number != after.run:
                continue
            rows = self._query_rows(filters, run, after, left, few=few)
            after = None
            yield from (_Key(run.number, rid, value) for rid, value in rows)
            left -= len(rows)
            if left <= 0:
                return

    def _find_runs(self, query: Query) -> list[_Run]:
        down = query.descending
        if query.sort is JobSort.SUBMITTED:
            return [_Run(0, descending=down)]
        if query.sort in _WORDS:
            kind = _WORDS[query.sort]
            sql = f"select id from word where kind = ? order by text {_format_order(down)}"
            numbers = [number for (number,) in self._connection.execute(sql, (kind,))]
            return [_Run(number, word=mark(number)) for number in numbers]
        column, zeros = _COLUMNS[query.sort]
        runs = [_Run(1, column, f"j.{column} {'> 0' if zeros else 'is not null'}", descending=down)]
        if zeros:
            nothing = _Run(2 if down else 0, where=f"j.{column} = 0")
            runs = [*runs, nothing] if down else [nothing, *runs]
        return runs if column in _NEVER_UNKNOWN else [*runs, _Run(3, where=f"j.{column} is null")]

    def _find_values_of_kind(self, filters: Filters, kind: str) -> set[int]:
        """Return the values of a kind that occur in a small result, so that no other runs are queried."""
        sql, values = _from_full_text(filters, joined=True)
        return {number for (number,) in self._connection.execute(f"select distinct j.{kind} {sql}", values)}

    def _query_rows(
        self, filters: Filters, run: _Run, after: _Key | None, most: int, *, few: bool
    ) -> list[tuple[int, float | str | None]]:
        """Return row ids with their values of the sort column."""
        if run.column and not few:
            sql, values = _from_column_index(filters, run.column)
            rid = "j.rid"
        elif run.word or filters.match:
            sql, values = _from_full_text(filters, run.word, joined=bool(run.column or run.where))
            rid = "t.rowid"
        else:
            sql, values = _from_table(filters)
            rid = "j.rid"
        if run.where:
            sql += f" and {run.where}"
        order, sign = _format_order(run.descending), "<" if run.descending else ">"
        column = f"j.{run.column}" if run.column else "null"
        if after:
            sql += f" and ({column}, {rid}) {sign} (?, ?)" if run.column else f" and {rid} {sign} ?"
            values += [after.value, after.rid] if run.column else [after.rid]
        by = f"{column} {order}, {rid} {order}" if run.column else f"{rid} {order}"
        statement = f"select {rid}, {column} {sql} order by {by} limit ?"
        return self._connection.execute(statement, [*values, most]).fetchall()


def _from_full_text(filters: Filters, word: str = "", *, joined: bool = False) -> tuple[str, list[object]]:
    match = " AND ".join(part for part in (filters.match, f'"{word}"' if word else "") if part)
    join = " cross join job j on j.rid = t.rowid" if joined else ""
    between: list[object] = [match, filters.first, filters.last]
    return f"from job_text t{join} where t.job_text match ? and t.rowid >= ? and t.rowid <= ?", between


def _from_table(filters: Filters) -> tuple[str, list[object]]:
    return "from job j not indexed where j.rid >= ? and j.rid <= ?", [filters.first, filters.last]


def _from_column_index(filters: Filters, column: str) -> tuple[str, list[object]]:
    sql = f"from job j indexed by job_{column} where j.rid >= ? and j.rid <= ?"
    values: list[object] = [filters.first, filters.last]
    if filters.where:
        sql += f" and {filters.where}"
    elif filters.match:
        sql += " and j.rid in (select rowid from job_text where job_text match ?)"
        values.append(filters.match)
    return sql, values


def _format_order(descending: bool) -> str:
    return "desc" if descending else "asc"


def _parse_key(query: Query) -> _Key | None:
    """Return the key in a query's `after`.

    Raises:
        ValueError: it is invalid.
    """
    if not query.after:
        return None
    try:
        text = base64.b64decode(query.after + "=" * (-len(query.after) % 4), b"-_", validate=True).decode()
        found = _KEY.fullmatch(text)
        if found:
            value = found[3] if query.sort is JobSort.NAME else float(found[3]) if found[3] else None
            return _Key(int(found[1]), int(found[2]), value)
    except ValueError:  # not base64, not UTF-8, or not a number
        pass
    raise ValueError(f"after: {query.after[:60]!r} is not a page key; leave it out for the first page.")


# --- filters ----------------------------------------------------------------------------------------------------------


def filters_from_query(query: Query, connection: sqlite3.Connection) -> Filters | None:
    """Return the filters of a query; None if no job can match."""
    marks: list[str] = []
    columns: list[str] = []
    for kind, texts in _collect_texts(query).items():
        numbers = [number for text in texts if (number := _find_number(connection, kind, text)) is not None]
        if not numbers:
            return None
        marks.append("(" + " OR ".join(f'"{mark(number)}"' for number in numbers) + ")")
        if kind != "tag":
            columns.append(f"j.{kind} in ({', '.join(map(str, numbers))})")
    if query.readers:
        owners = [("user", who) for who in query.readers if who != "*" and not who.startswith("@")]
        readers = [*owners, *(("reader", who) for who in query.readers)]
        known = [number for kind, who in readers if (number := _find_number(connection, kind, who)) is not None]
        if not known:
            return None
        marks.append("(" + " OR ".join(f'"{mark(number)}"' for number in known) + ")")
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
