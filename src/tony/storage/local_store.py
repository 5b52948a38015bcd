"""A folder of this machine as a store. Links in it are seen, and never followed."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from tony.errors import StorageError
from tony.storage.store import PIECE, Item, Store


class LocalStore(Store):
    """One folder.

    Args:
        folder: need not be there yet.
        address: as somebody wrote it; the path, if nothing is said.
    """

    def __init__(self, folder: Path, address: str = "") -> None:
        self.local = folder
        self.address = address or str(folder)
        self._root = os.fspath(folder)

    def list(self, path: str = "") -> Sequence[Item]:
        found = []
        try:
            with os.scandir(self._place(path)) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        found.append(_item(entry.name, entry.stat(follow_symlinks=False)))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise StorageError(f"cannot read {self._place(path)}: {error.strerror}") from error
        return found

    def find(self, path: str) -> Item | None:
        try:
            return _item(os.path.basename(path), os.lstat(self._place(path)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"cannot read {self._place(path)}: {error.strerror}") from error

    def pieces(self, path: str, offset: int = 0) -> Iterator[bytes]:
        place = self._place(path)
        try:
            # Not blocking: of a pipe that somebody has put there.
            descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb", buffering=0) as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise StorageError(f"{place} is no file")
                file.seek(offset)
                while piece := file.read(PIECE):
                    yield piece
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise StorageError(f"cannot read {place}: {error.strerror}") from error

    def write(self, path: str, content: bytes | Path) -> None:
        place = self._place(path)
        draft = os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.{os.getpid()}.new")
        try:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "wb") as file:
                if isinstance(content, Path):
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, file, PIECE)
                else:
                    file.write(content)
            os.replace(draft, place)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise StorageError(f"cannot write {place}: {error.strerror}") from error

    def remove(self, path: str) -> None:
        place = self._place(path)
        try:
            with self._folder_of(path) as (folder, name):
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    shutil.rmtree(name, dir_fd=folder)
                else:
                    os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"cannot remove {place}: {error.strerror}") from error

    @contextlib.contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder in which a path ends, and its last name. No link leads out of the location.

        Raises:
            OSError: there is no such folder.
        """
        *above, name = path.split("/")
        if not name:
            raise StorageError(f"{self._root} itself is not removed")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        folder = os.open(self._root, flags)
        try:
            for part in above:
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)

    def _place(self, path: str) -> str:
        if any(part in ("..", ".") for part in path.split("/")) or path.startswith("/") or "\0" in path:
            raise StorageError(f"{path!r} is no path below {self._root}")
        return os.path.join(self._root, path) if path else self._root


def _item(name: str, status: os.stat_result) -> Item:
    folder = stat.S_ISDIR(status.st_mode)
    return Item(
        name=name,
        folder=folder,
        size=0 if folder else status.st_size,
        changed=status.st_mtime_ns / 1e9,
        owner=_user(status.st_uid),
    )


@lru_cache(maxsize=1000)
def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
