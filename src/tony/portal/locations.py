"""From what people write to where histories are: `~/.tony`, `hdfs:///user/ann/.tony`, `s3://bucket/history`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tony.config import addresses
from tony.config.paths import expanded
from tony.errors import UserError
from tony.model.layout import Home
from tony.storage.local_store import LocalStore
from tony.storage.store import Store

#: What folders of this machine are called as addresses. They are ours to read: other readers follow links in them.
_HERE = frozenset(("file", "local"))


def open_location(text: str, home: Home, environment: Mapping[str, str]) -> Store:
    """The store of one location. Nothing is asked of it yet.

    Args:
        text: a path of this machine, or an address.
        home: of which a running `tony mini` is the cluster, if the environment names none.

    Raises:
        UserError: it is no location, or something that it needs is not installed.
        SchedulerError: its file system has no web address.
    """
    scheme, _, path = text.partition("://")
    if scheme.lower() in _HERE:
        text = path
    if not addresses.is_address(text):
        if not text.strip() or "\0" in text:
            raise UserError("an empty name of a history. Write a folder, or an address such as hdfs:///user/ann/.tony.")
        try:
            folder = Path(os.path.abspath(expanded(text, environment)))
        except ValueError as error:
            raise UserError(f"{text}: {error}") from None
        if folder.is_file():
            raise UserError(f"{text} is a file. A history is a folder.")
        return LocalStore(folder)
    if text.lower().startswith("hdfs:"):
        from tony.schedulers.cluster_store import ClusterStore

        return ClusterStore(text, home)
    from tony.storage.fsspec_store import FsspecStore

    return FsspecStore(text)


def absences(stores: Iterable[Store]) -> Iterator[str]:
    """A sentence for each folder of this machine that is not there."""
    for store in stores:
        if store.local is not None and not store.local.exists():
            yield f"there is no folder {store.address} yet; once there is, its jobs are shown"
