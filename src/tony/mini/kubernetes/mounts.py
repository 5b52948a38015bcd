"""The mounts of this process's namespace, as the kernel lists them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Options of a mount that a remount would clear if it did not name them.
_KEPT_OPTIONS = ("nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "nosymfollow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mount that can be written to.

    Attributes:
        number: the kernel's, as in `fdinfo`.
        options: what has to be named in a remount.
    """

    number: int
    path: Path
    options: Sequence[str]

    @property
    def is_visible(self) -> bool:
        """Whether its path leads to it: not if another one is mounted over it, or if root may not access it (FUSE)."""
        try:
            descriptor = os.open(self.path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            os.fstat(descriptor)
            return f"mnt_id:\t{self.number}\n" in Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii")
        except OSError:
            return False
        finally:
            os.close(descriptor)


def list_writable_mounts(mountinfo: str, excluded: Sequence[Path]) -> Iterator[Mount]:
    """Yield the mounts that are not read-only, hidden ones included.

    Args:
        mountinfo: content of `/proc/<pid>/mountinfo`.
        excluded: folders whose mounts, and those below them, are left out.
    """
    for line in mountinfo.splitlines():
        number, _, _, _, place, options, *_ = line.split(" ")
        path = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), place))
        words = options.split(",")
        if "rw" in words and not any(path.is_relative_to(folder) for folder in excluded):
            kept = tuple(word for word in words if word in _KEPT_OPTIONS)
            yield Mount(number=int(number), path=path, options=kept)
