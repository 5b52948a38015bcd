"""Opens history locations, such as `~/.tony` or `s3://bucket/history`, and finds the job directories in them.

Their layouts, of tony and of LinkedIn TonY:

jobs/<id>/                              a state directory, and the staging folder in HDFS
YYYY/MM/DD/<id>/                        by the day on which a job ended: moved out of state directories
intermediate/<id>/, finished/YYYY/MM/DD/<id>/    LinkedIn TonY's
<id>/                                   a folder of job directories, if there is none of the above
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from tony.errors import UserError
from tony.linux.home_folder import expand_home
from tony.model.hdfs_uri import is_address
from tony.model.ids import JOB_ID
from tony.model.layout import Home
from tony.storage.hdfs.hdfs_store import HdfsStore
from tony.storage.stores.fsspec_store import FsspecStore
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import FileStore, Item, join_path

#: Schemes for folders of this machine. They are opened directly: fsspec would follow links in them.
_HERE = frozenset(("file", "local"))


#: Supported file systems. fsspec knows some fifty more: some connect to any host by any protocol, some execute what
#: they read.
SCHEMES: Mapping[str, Callable[[str, Home], FileStore]] = {
    "hdfs": HdfsStore,
    **dict.fromkeys(("s3", "gs", "abfs", "abfss"), lambda address, home: FsspecStore(address)),
}


def open_location(text: str, home: Home, environment: Mapping[str, str]) -> FileStore:
    """Return the store of one location, without accessing it.

    Args:
        text: a path of this machine, or an address.
        home: state directory whose running `tony mini` is the default cluster, if the environment names none.

    Raises:
        UserError: it is not a location, not one of `SCHEMES`, or needs a package that is not installed.
        SchedulerError: its file system has no web address.
    """
    scheme, _, path = text.partition("://")
    if scheme.lower() in _HERE:
        text = path
    if not is_address(text):
        if not text.strip() or "\0" in text:
            raise UserError("empty history location. Use a folder, or an address such as hdfs:///user/ann/.tony.")
        try:
            folder = Path(os.path.abspath(expand_home(text, environment)))
        except ValueError as error:
            raise UserError(f"{text}: {error}") from None
        if folder.is_file():
            raise UserError(f"{text} is a file. A history location is a folder.")
        return LocalStore(folder)
    scheme, _ = split_file_system(text)
    if scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in sorted(SCHEMES))
        raise UserError(f"{text}: {scheme}:// is not supported for histories. Use a local folder, or {known}.")
    return SCHEMES[scheme](text, home)


def split_file_system(address: str) -> tuple[str, str]:
    """Return scheme and host (or bucket) of an address; the host is empty for the default one."""
    scheme, _, rest = address.partition(":")
    host = rest[2:].partition("/")[0] if rest.startswith("//") else ""
    return scheme.lower(), host.lower()


def describe_absences(stores: Iterable[FileStore]) -> Iterator[str]:
    """Yield a sentence for each location on this machine that does not exist."""
    for store in stores:
        if store.local is not None and not store.local.exists():
            yield f"folder {store.address} does not exist yet; its jobs are shown once it does"


def is_own_location(store: FileStore, home: Home) -> bool:
    """Return True if a location is the state directory of the user, into which no other user can put anything."""
    return is_state_directory(store, home) and _is_private(home)


def is_state_directory(store: FileStore, home: Home) -> bool:
    """Return True if a location is the state directory of the user."""
    return store.local is not None and os.path.realpath(store.local) == os.path.realpath(home.path)


def _is_private(home: Home) -> bool:
    """Return True if no other user can put anything into a state directory: else what lies there may be of any user."""
    for folder in (home.path, home.jobs):
        with contextlib.suppress(FileNotFoundError):
            status = folder.stat()
            writers = stat.S_IWOTH if _is_private_group(status.st_gid) else stat.S_IWOTH | stat.S_IWGRP
            if status.st_uid != os.geteuid() or status.st_mode & writers:
                return False
    return True


def _is_private_group(gid: int) -> bool:
    """Return True if a group has its user as the only member, as many systems make one for each user."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == gid and not set(group.gr_mem) - {user.pw_name}


# --- layouts ----------------------------------------------------------------------------------------------------------

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
