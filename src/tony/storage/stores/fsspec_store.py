"""A folder in S3, or in another file system with an fsspec driver, as a store. Needs the extra `stores`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from tony.errors import StorageError, UserError, join_lines
from tony.storage.stores.log_pieces import group_log_pieces, is_event_log, join_log_pieces
from tony.storage.stores.store_interface import PIECE, FileStore, Item, join_below, join_path

#: Keys under which drivers report the modification time.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class FsspecStore(FileStore):
    """One folder.

    Args:
        address: `s3://bucket/folder`.

    Raises:
        UserError: fsspec or its driver for the address is not installed; or the address chains several.
    """

    dated = False  # most of these file systems have no real folders

    def __init__(self, address: str) -> None:
        self.address = address
        scheme = address.partition("://")[0]
        if "::" in address:  # fsspec would open one file system through another
            raise UserError(
                f"{address}: chained addresses (`::`) are not supported. Give the address of one file system."
            )
        try:
            core = import_module("fsspec.core")
        except ImportError:
            raise UserError(
                f"{address}: this address needs fsspec. Install it: `pip install 'tony-jobs[stores]'`."
            ) from None
        try:
            self._files, root = core.url_to_fs(address, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise UserError(f"{address}: fsspec has no driver for {scheme}://: {error}") from error
        except Exception as error:  # drivers may raise anything
            raise StorageError(f"{address} cannot be opened: {_format_one_line(error)}") from error
        self._root = str(root).rstrip("/")

    def list(self, path: str = "") -> Sequence[Item]:
        return join_log_pieces(self._list_objects(path))

    def _list_objects(self, path: str) -> Sequence[Item]:
        place = self._build_full_path(path)
        found: Sequence[Mapping[str, Any]] = ()
        with self._explain_errors("read", path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = self._files.ls(place, detail=True)
        return [_item(each) for each in found if str(each["name"]).rstrip("/") != place]

    def find(self, path: str) -> Item | None:
        found: Mapping[str, Any] | None = None
        with self._explain_errors("read", path), contextlib.suppress(FileNotFoundError):
            found = self._files.info(self._build_full_path(path))
        folder, _, name = path.rpartition("/")
        if found is None and is_event_log(name):
            return next((item for item in self.list(folder) if item.name == name), None)
        return None if found is None else _item(found)

    def read_pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        place = self._build_full_path(path)
        with (
            self._explain_errors("read", path),
            contextlib.suppress(FileNotFoundError),
            self._files.open(place, "rb") as file,
        ):
            if offset:
                file.seek(offset)
            while piece := file.read(PIECE):
                yield piece
            return
        folder, _, name = path.rpartition("/")
        pieces = group_log_pieces(self._list_objects(folder)).get(name, ()) if is_event_log(name) else ()
        for each in pieces:
            if offset < each.size:
                yield from self.read_pieces(join_path(folder, each.name), offset)
            offset = max(0, offset - each.size)

    def write(self, path: str, content: bytes | Path) -> None:
        place = self._build_full_path(path)
        with self._explain_errors("write", path):
            with contextlib.suppress(NotImplementedError):
                self._files.makedirs(place.rpartition("/")[0], exist_ok=True)
            if isinstance(content, Path):
                self._files.put_file(str(content), place)
            else:
                self._files.pipe_file(place, content)

    def remove(self, path: str) -> None:
        with self._explain_errors("remove", path), contextlib.suppress(FileNotFoundError):
            self._files.rm(self._build_full_path(path), recursive=True)

    def _build_full_path(self, path: str) -> str:
        return join_below(self._root, path, self.address)

    @contextlib.contextmanager
    def _explain_errors(self, what: str, path: str) -> Iterator[None]:
        try:
            yield
        except (StorageError, GeneratorExit):
            raise
        except Exception as error:  # drivers may raise anything
            raise StorageError(f"cannot {what} {self.address}/{path}: {_format_one_line(error)}") from error


def _item(found: Mapping[str, Any]) -> Item:
    folder = found.get("type") == "directory"
    return Item(
        name=str(found["name"]).rstrip("/").rpartition("/")[2],
        folder=folder,
        size=0 if folder else int(found.get("size") or 0),
        changed=next((_seconds(found[name]) for name in _TIMES if found.get(name) is not None), 0.0),
        owner=str(found.get("Owner") or ""),
    )


def _seconds(moment: object) -> float:
    if isinstance(moment, datetime):
        return moment.timestamp()
    if isinstance(moment, int | float):
        return float(moment)
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return 0.0


def _format_one_line(error: Exception) -> str:
    return join_lines(error)
