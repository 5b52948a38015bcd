"""A folder of this machine as a store. Links in it are listed but never followed: docs/decisions/0019.

This is the only code that opens files in a history of this machine, apart from the user's own state directory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

from tony.errors import StorageError
from tony.linux.files import open_file, open_folder
from tony.linux.user_accounts import find_user_name
from tony.storage.stores.store_interface import PIECE, FileStore, Item

#: Errors of the kernel where the folder does not exist, or is a link.
_NO_FOLDER = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


class LocalStore(FileStore):
    """One folder.

    Args:
        folder: need not exist yet. Links on the path to it are followed, as the user has named it; below it none is.
    """

    def __init__(self, folder: Path) -> None:
        self.local = folder
        self.address = str(folder)
        self._root = os.fspath(folder)

    def list(self, path: str = "") -> Sequence[Item]:
        return [_item(name, status) for name, status in self._scan(path)]

    def list_files(self, path: str = "", begin: str = "") -> Sequence[Item]:
        """Return the plain files in a folder whose names begin with `begin`."""
        return [_item(name, status) for name, status in self._scan(path, begin) if stat.S_ISREG(status.st_mode)]

    def find(self, path: str) -> Item | None:
        *above, name = self._parts(path) or [""]
        try:
            folder = self._open_folder(above)
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False) if name else os.fstat(folder)
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno in _NO_FOLDER:
                return None
            raise StorageError(f"cannot read {self._build_full_path(path)}: {error.strerror}") from error
        return _item(os.path.basename(path), status) if self._is_there(status) else None

    def open(self, path: str) -> int:
        """Return a descriptor of a plain file.

        Raises:
            OSError: there is none; a link does not count.
        """
        *above, name = self._parts(path)
        folder = self._open_folder(above)
        try:
            return open_file(name, folder, self._owner)
        finally:
            os.close(folder)

    def read_pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        try:
            with open(self.open(path), "rb", buffering=0) as file:
                file.seek(offset)
                while piece := file.read(PIECE):
                    yield piece
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise StorageError(f"cannot read {self._build_full_path(path)}: {error.strerror}") from error

    def write(self, path: str, content: bytes | Path) -> None:
        *above, name = self._parts(path)
        draft = f".{name}.{os.getpid()}.new"
        try:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
            folder = open_folder(self._root, above, make=True)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
                with open(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
                    if isinstance(content, Path):
                        with content.open("rb") as source:
                            shutil.copyfileobj(source, file, PIECE)
                    else:
                        file.write(content)
                os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise
            finally:
                os.close(folder)
        except OSError as error:
            raise StorageError(f"cannot write {self._build_full_path(path)}: {error.strerror}") from error

    def remove(self, path: str) -> None:
        if not path:
            raise StorageError(f"{self._root} itself cannot be removed")
        try:
            self._remove(self._parts(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"cannot remove {self._build_full_path(path)}: {error.strerror}") from error

    def hold(self, path: str) -> JobDirectory | None:
        try:
            return JobDirectory(self, self._parts(path))
        except OSError as error:
            if error.errno in _NO_FOLDER:
                return None
            raise StorageError(f"cannot read {self._build_full_path(path)}: {error.strerror}") from error

    #: Required owner of everything that is read; None: any.
    _owner: int | None = None

    def _scan(self, path: str, begin: str = "") -> Iterator[tuple[str, os.stat_result]]:
        try:
            folder = self._open_folder(self._parts(path))
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.name.startswith(begin):
                            with contextlib.suppress(FileNotFoundError):
                                status = entry.stat(follow_symlinks=False)
                                if self._is_there(status):
                                    yield entry.name, status
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise StorageError(f"cannot read {self._build_full_path(path)}: {error.strerror}") from error

    def _is_there(self, status: os.stat_result) -> bool:
        """Return True to show an entry to readers, False to treat it as missing."""
        return True

    def _remove(self, names: Sequence[str]) -> None:
        *above, name = names
        folder = self._open_folder(above)
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)

    def _open_folder(self, names: Sequence[str]) -> int:
        return open_folder(self._root, names)

    def _parts(self, path: str) -> Sequence[str]:
        parts = path.split("/") if path else []
        if "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise StorageError(f"{path!r} is not a path below {self._root}")
        return parts

    def _build_full_path(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root


class JobDirectory(LocalStore):
    """The directory of one job in a history of this machine, held open.

    It is read with the same paths as its history. Everything is read from, or removed in, the directory that existed
    when it was opened. Only entries of the same user are read; anything but folders and plain files is treated as
    missing. It is closed when it is garbage-collected.

    Attributes:
        identity: device, inode and owner of the directory: another one at the same path has another identity.
        owner: its user.
    """

    def __init__(self, store: LocalStore, names: Sequence[str]) -> None:
        assert store.local is not None
        super().__init__(store.local)
        self._names = names
        self._descriptor = open_folder(self._root, names)
        weakref.finalize(self, os.close, self._descriptor)
        status = os.fstat(self._descriptor)
        self.identity = status.st_dev, status.st_ino, status.st_uid
        self.owner = self._owner = status.st_uid

    def write(self, path: str, content: bytes | Path) -> None:
        raise StorageError(f"{self._build_full_path(path)} is read-only here")

    def _is_there(self, status: os.stat_result) -> bool:
        return status.st_uid == self.owner and (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode))

    def _remove(self, names: Sequence[str]) -> None:
        if names:
            super()._remove(names)
            return
        for name in os.listdir(self._descriptor):
            super()._remove([name])
        above = open_folder(self._root, self._names[:-1])
        try:
            os.rmdir(self._names[-1], dir_fd=above)  # fails if another directory is there now, which has files
        finally:
            os.close(above)

    def _open_folder(self, names: Sequence[str]) -> int:
        return open_folder(self._descriptor, names, self.owner)

    def _parts(self, path: str) -> Sequence[str]:
        parts = super()._parts(path)
        if parts[: len(self._names)] != self._names:
            raise StorageError(f"{path!r} is not a path below {self._build_full_path('/'.join(self._names))}")
        return parts[len(self._names) :]


def _item(name: str, status: os.stat_result) -> Item:
    folder = stat.S_ISDIR(status.st_mode)
    return Item(
        name=name,
        folder=folder,
        size=0 if folder else status.st_size,
        changed=status.st_mtime_ns / 1e9,
        owner=find_user_name(status.st_uid),
    )
