"""Fetches a LinkedIn TonY settings file from the cluster's file system."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tony.cli.options import home
from tony.config.files.file_reader import MAX_FILE
from tony.errors import ConfigError, Problem, TonyError
from tony.model.hdfs_uri import is_address, normalize_hdfs_uri
from tony.storage.hdfs.hdfs_discovery import find_hdfs
from tony.storage.hdfs.hdfs_remote_files import HdfsFiles
from tony.storage.staging.remote_files import RemoteFile

if TYPE_CHECKING:
    from tony.config.legacy.flags import Flags


@contextlib.contextmanager
def copy_settings_file(flags: Flags) -> Iterator[Flags]:
    """Yield the flags with a temporary local copy of a remote settings file.

    Raises:
        ConfigError: the file does not exist, cannot be read, or is too large.
    """
    name = flags.conf_file
    if name is None or not is_address(name) or name.startswith("file:"):
        yield flags
        return
    try:
        data = _read(normalize_hdfs_uri(name))
    except (TonyError, ValueError) as error:
        raise ConfigError([Problem(key="--conf_file", value=name, message=str(error))]) from error
    with tempfile.TemporaryDirectory(prefix="tony-") as folder:
        path = Path(folder, "tony.xml")
        path.write_bytes(data)
        yield replace(flags, conf_file=str(path), conf_name=name)


def _read(address: str) -> bytes:
    files = HdfsFiles(find_hdfs(home(), {}))
    try:
        found = files.stat(address)
        if not isinstance(found, RemoteFile):
            raise ValueError("this is a folder, not a file.")
        if found.size > MAX_FILE:
            raise ValueError(f"it is larger than {MAX_FILE} bytes, so it is probably not a settings file.")
        with files.open(found) as stream:
            return b"".join(iter(lambda: stream.read(1 << 16), b""))
    finally:
        files.close()
