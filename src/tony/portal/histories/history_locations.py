"""History locations, such as `~/.tony` or `s3://bucket/history`: opens them, and tells which are the user's own."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tony.errors import UserError
from tony.linux.user_accounts import expand_home
from tony.model.hdfs_uri import is_address
from tony.model.state_directory import Home
from tony.schedulers import registry
from tony.storage.hdfs.hdfs_store import HdfsStore
from tony.storage.stores.fsspec_store import FsspecStore
from tony.storage.stores.local_store import LocalStore
from tony.storage.stores.store_interface import FileStore

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
    if scheme in registry.names() and (store := registry.load(scheme).open_histories(text, home)):
        return store
    if scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in sorted(SCHEMES))
        raise UserError(
            f"{text}: {scheme}:// is not supported for histories. Use a local folder, {known}, kubernetes://."
        )
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
    """Return True if only this user can write to a state directory: otherwise its content may be of any user."""
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
