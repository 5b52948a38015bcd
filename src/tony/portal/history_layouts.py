"""Where in a location records are: in the ways in which we, and the original, have laid them down.

jobs/<id>/                              a user's home, and the staging folder in HDFS
YYYY/MM/DD/<id>/                        by the day on which a job ended: what was moved out of homes
intermediate/<id>/, finished/YYYY/MM/DD/<id>/    the original's
<id>/                                   a folder of records, where there is nothing of all that
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice

from tony.dataclass import dataclass
from tony.model.ids import JOB_ID
from tony.storage.store import FileStore, Item, joined

_YEAR, _PART = re.compile(r"\d{4}", re.ASCII), re.compile(r"\d{2}", re.ASCII)
#: Days whose folders are looked at for new records again and again.
_DAYS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLocation:
    """The folder of one record.

    Attributes:
        path: below the location.
        item: what the file system says of it.
    """

    path: str
    item: Item

    @property
    def job(self) -> str:
        """The id: its name."""
        return self.item.name


def parents(store: FileStore) -> Iterator[str]:
    """Every folder that has records, those of the newest first."""
    return _parents(store, None)


def recent_parents(store: FileStore) -> Iterator[str]:
    """Those of them in which there may be a new record at any moment: of days the newest ones."""
    return _parents(store, _DAYS)


def places(store: FileStore, parent: str) -> Sequence[RecordLocation]:
    """The records in one folder, the newest first where that is known."""
    found = [
        RecordLocation(path=joined(parent, item.name), item=item)
        for item in store.list(parent)
        if item.folder and JOB_ID.fullmatch(item.name)
    ]
    if not parent:  # what else lies there is no record: cache, mini, ...
        found = [each for each in found if not _YEAR.fullmatch(each.job)]
    found.sort(key=lambda each: (each.item.changed, each.job), reverse=True)
    return found


def dated(job: str, ended: float) -> str:
    """Where the record of a job belongs that has ended then: by the day, in UTC."""
    return f"{datetime.fromtimestamp(ended, UTC):%Y/%m/%d}/{job}"


def _parents(store: FileStore, days: int | None) -> Iterator[str]:
    there = store.list()
    names = {item.name for item in there if item.folder}
    if "jobs" in names:
        yield "jobs"
    if names & {"intermediate", "finished"}:
        yield "intermediate"
        yield from islice(_dated(store, "finished", store.list("finished")), days)
    if any(_YEAR.fullmatch(name) for name in names):
        yield from islice(_dated(store, "", there), days)
    elif not names & {"jobs", "intermediate", "finished"}:
        yield ""


def _dated(store: FileStore, above: str, years: Sequence[Item]) -> Iterator[str]:
    for year in _named(years, _YEAR):
        for month in _named(store.list(joined(above, year)), _PART):
            for day in _named(store.list(joined(above, year, month)), _PART):
                yield joined(above, year, month, day)


def _named(items: Sequence[Item], pattern: re.Pattern[str]) -> list[str]:
    return sorted((item.name for item in items if item.folder and pattern.fullmatch(item.name)), reverse=True)
