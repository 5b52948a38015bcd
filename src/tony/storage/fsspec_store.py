"""A folder of S3, or of whatever else fsspec has a driver for, as a store. Needs the extra `stores`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from tony.errors import StorageError, UserError
from tony.storage.store import PIECE, FileStore, Item

#: Where drivers put the time of the last change.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class FsspecStore(FileStore):
    """One folder.

    Args:
        address: `s3://bucket/folder`.

    Raises:
        UserError: fsspec is not installed, or its driver for such addresses; or the address chains several of them.
    """

    dated = False  # most of these have no folders at all

    def __init__(self, address: str) -> None:
        self.address = address
        scheme = address.partition("://")[0]
        if "::" in address:  # fsspec would open one file system through another
            raise UserError(f"{address}: addresses joined by `::` are not opened. Name one file system.")
        try:
            core = import_module("fsspec.core")
        except ImportError:
            raise UserError(
                f"{address}: such addresses need fsspec. Install it: `pip install 'tony-jobs[stores]'`."
            ) from None
        try:
            self._files, root = core.url_to_fs(address, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise UserError(f"{address}: fsspec has no way to {scheme}://: {error}") from error
        except Exception as error:  # drivers raise whatever they like
            raise StorageError(f"{address} cannot be opened: {_said(error)}") from error
        self._root = str(root).rstrip("/")

    def list(self, path: str = "") -> Sequence[Item]:
        place = self._place(path)
        found: Sequence[Mapping[str, Any]] = ()
        with self._told("read", path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found = self._files.ls(place, detail=True)
        return [_item(each) for each in found if str(each["name"]).rstrip("/") != place]

    def find(self, path: str) -> Item | None:
        found: Mapping[str, Any] | None = None
        with self._told("read", path), contextlib.suppress(FileNotFoundError):
            found = self._files.info(self._place(path))
        return None if found is None else _item(found)

    def pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        place = self._place(path)
        with (
            self._told("read", path),
            contextlib.suppress(FileNotFoundError),
            self._files.open(place, "rb") as file,
        ):
            if offset:
                file.seek(offset)
            while piece := file.read(PIECE):
                yield piece

    def write(self, path: str, content: bytes | Path) -> None:
        place = self._place(path)
        with self._told("write", path):
            with contextlib.suppress(NotImplementedError):
                self._files.makedirs(place.rpartition("/")[0], exist_ok=True)
            if isinstance(content, Path):
                self._files.put_file(str(content), place)
            else:
                self._files.pipe_file(place, content)

    def remove(self, path: str) -> None:
        with self._told("remove", path), contextlib.suppress(FileNotFoundError):
            self._files.rm(self._place(path), recursive=True)

    def _place(self, path: str) -> str:
        if any(part in ("..", ".") for part in path.split("/")) or path.startswith("/") or "\0" in path:
            raise StorageError(f"{path!r} is no path below {self.address}")
        return f"{self._root}/{path}" if path else self._root

    @contextlib.contextmanager
    def _told(self, what: str, path: str) -> Iterator[None]:
        try:
            yield
        except (StorageError, GeneratorExit):
            raise
        except Exception as error:  # drivers raise whatever they like
            raise StorageError(f"cannot {what} {self.address}/{path}: {_said(error)}") from error


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


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
