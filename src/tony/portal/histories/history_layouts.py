"""The layouts of history locations: where the job directories lie in one, of tony and of LinkedIn TonY.

jobs/<id>/                              a state directory, and the staging folder in HDFS
YYYY/MM/DD/<id>/                        by the day on which a job ended: moved out of state directories
intermediate/<id>/, finished/YYYY/MM/DD/<id>/    LinkedIn TonY's
<id>/                                   a folder of job directories, if there is none of the above
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from tony.model.ids import JOB_ID
from tony.storage.stores.store_interface import FileStore, Item, join_path

_YEAR = re.compile(r"\d{4}", re.ASCII)
_MONTH_OR_DAY = re.compile(r"\d{2}", re.ASCII)
#: Number of newest days whose folders are polled for new jobs.
_RECENT_DAYS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLocation:
    """A job directory.

    Attributes:
        path: below the location.
        item: its entry in the file system.
    """

    path: str
    item: Item

    @property
    def job(self) -> str:
        """The job's id: the name of the folder."""
        return self.item.name


def iterate_parents(store: FileStore) -> Iterator[str]:
    """Yield every folder that contains job directories, newest first."""
    return _iterate_day_parents(store, None)


def iterate_recent_parents(store: FileStore) -> Iterator[str]:
    """Yield the parents in which new jobs may appear: of days only the newest."""
    return _iterate_day_parents(store, _RECENT_DAYS)


def list_places(store: FileStore, parent: str) -> Sequence[RecordLocation]:
    """Return the job directories in one folder, newest first if the file system has times."""
    found = [
        RecordLocation(path=join_path(parent, item.name), item=item)
        for item in store.list(parent)
        if item.folder and JOB_ID.fullmatch(item.name)
    ]
    if not parent:  # other folders there are no jobs: cache, mini, ...
        found = [location for location in found if not _YEAR.fullmatch(location.job)]
    found.sort(key=lambda each: (each.item.changed, each.job), reverse=True)
    return found


def build_dated_path(job: str, ended: float) -> str:
    """Return the path for a job that ended at this time: by day, in UTC."""
    return f"{datetime.fromtimestamp(ended, UTC):%Y/%m/%d}/{job}"


def _iterate_day_parents(store: FileStore, days: int | None) -> Iterator[str]:
    items = store.list()
    names = {item.name for item in items if item.folder}
    if "jobs" in names:
        yield "jobs"
    if names & {"intermediate", "finished"}:
        yield "intermediate"
        yield from islice(_iterate_dated(store, "finished", store.list("finished")), days)
    if any(_YEAR.fullmatch(name) for name in names):
        yield from islice(_iterate_dated(store, "", items), days)
    elif not names & {"jobs", "intermediate", "finished"}:
        yield ""


def _iterate_dated(store: FileStore, above: str, years: Sequence[Item]) -> Iterator[str]:
    for year in _select_named(years, _YEAR):
        for month in _select_named(store.list(join_path(above, year)), _MONTH_OR_DAY):
            for day in _select_named(store.list(join_path(above, year, month)), _MONTH_OR_DAY):
                yield join_path(above, year, month, day)


def _select_named(items: Sequence[Item], pattern: re.Pattern[str]) -> list[str]:
    return sorted((item.name for item in items if item.folder and pattern.fullmatch(item.name)), reverse=True)
