"""The ledger: what all jobs of all users of this machine hold, as small locked files in a folder that all may write.

- A claim is a file `<ticket>.claim`. Its holder has it locked (flock) from before it can be seen, and hands the open
  file on to its executors: the claim lives as long as one of them does, and dies with the last, however that ends.
- Whoever decides holds the folder itself locked, so decisions come one after the other.
- The folder is sticky: only a file's owner can remove or change it. What it holds may come from anybody: reads are
  bounded, nothing but plain files is opened, and whatever is no proper claim counts for nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pwd
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from tony.errors import SchedulerError
from tony.linux.peer_credentials import is_ours
from tony.schedulers.local.claim_policy import MAX_BYTES, Claim, decode, encode, ticket_of

_SUFFIX = ".claim"
_DRAFT = ".draft"


class LedgerBusy(Exception):  # noqa: N818 - not an error: one waits and tries again
    """Another process holds the ledger locked at this moment."""


class ResourceLedger:
    """An open ledger. Not for use by several threads.

    Raises:
        OSError: the folder cannot be opened, or is a link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def close(self) -> None:
        """Closes the folder. Claims stay as they are."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else decides meanwhile.

        Raises:
            LedgerBusy: somebody else does just now.
            SchedulerError: the folder is not at its place any more.
        """
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerBusy(self.path) from None
        try:
            if not self._in_place():
                raise SchedulerError(f"the ledger {self.path} was removed while it was in use")
            yield
        finally:
            fcntl.flock(self._folder, fcntl.LOCK_UN)

    def claims(self) -> list[Claim]:
        """All living claims. Removes what dead holders of ours left behind. Only while `locked`."""
        found = []
        with os.scandir(self._folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            if name.endswith(_SUFFIX):
                claim = self._look(name, tidy=True)
                if claim:
                    found.append(claim)
            elif name.endswith(_DRAFT):
                self._remove_leftover(name)  # its writer died: it would hold the folder locked
        return found

    def claim_of(self, ticket: str) -> Claim | None:
        """One living claim, as it stands at this moment."""
        return self._look(f"{ticket}{_SUFFIX}", tidy=False)

    def place_of(self, ticket: str) -> Path:
        """The file of a claim."""
        return self.path / f"{ticket}{_SUFFIX}"

    def post(self, claim: Claim) -> HeldClaim:
        """Writes a claim down. Only while `locked`.

        Raises:
            OSError: the file system refuses.
        """
        draft, name = f"{claim.ticket}{_DRAFT}", f"{claim.ticket}{_SUFFIX}"
        descriptor = os.open(
            draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self._folder
        )
        try:
            os.fchmod(descriptor, 0o644)  # whatever our umask: others have to see it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = HeldClaim(self.place_of(claim.ticket), descriptor, claim)
            held.update(claim)
            os.rename(draft, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=self._folder)
            raise
        return held

    def taken_over(self, descriptor: int, job: str) -> HeldClaim | None:
        """The claim of an earlier application master of ours, whose open file has come to us; None if it is none.

        Args:
            descriptor: of that file, the claim's from now on.
        """
        try:
            content = os.pread(descriptor, MAX_BYTES + 1, 0)
        except OSError:
            content = b""
        ticket = ticket_of(content)
        claim = decode(content, ticket, user_name(os.geteuid()))
        if claim is None or claim.job != job:
            os.close(descriptor)
            return None
        return HeldClaim(self.place_of(ticket), descriptor, claim)

    def _in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._folder), os.stat(self.path, follow_symlinks=False))
        except OSError:
            return False

    def _look(self, name: str, *, tidy: bool) -> Claim | None:
        """The claim in a file, if it is one and its holder lives."""
        try:
            if not stat.S_ISREG(os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_mode):
                return None
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            if not _is_locked(descriptor):
                if tidy:
                    self._remove_leftover(name)
                return None
            content = os.read(descriptor, MAX_BYTES + 1)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        ticket, user = name.removesuffix(_SUFFIX), user_name(status.st_uid)
        return decode(content, ticket, user, is_trusted=is_ours(status.st_uid))

    def _remove_leftover(self, name: str) -> None:
        with contextlib.suppress(OSError):
            if os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_uid == os.geteuid():
                os.unlink(name, dir_fd=self._folder)


class HeldClaim:
    """A claim of ours. It lives until `withdraw`, or until the last process that has its file open ends.

    Attributes:
        descriptor: of the locked file; to be inherited by executors, and by nothing that they start.
    """

    def __init__(self, path: Path, descriptor: int, claim: Claim) -> None:
        self.path = path
        self.descriptor = descriptor
        self.claim = claim

    def update(self, claim: Claim) -> None:
        """Writes the claim anew, in place: the lock belongs to this file. Only while the ledger is locked."""
        content = encode(claim)
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))
        self.claim = claim

    @property
    def is_seen(self) -> bool:
        """Whether the file still has its name; False if somebody has removed it."""
        return os.fstat(self.descriptor).st_nlink > 0

    def refresh(self) -> bool:
        """Marks the file as used, so that no cleaner of temporary files takes it.

        Returns:
            False if somebody has removed it.
        """
        if self.descriptor < 0:
            return True
        os.utime(self.descriptor)
        return self.is_seen

    def withdraw(self) -> None:
        """Gives everything back. May be called twice."""
        if self.descriptor >= 0:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self.descriptor)):
                    self.path.unlink()
            os.close(self.descriptor)
            self.descriptor = -1


def new_claim(*, job: str, job_name: str, memory: int, gpus: int) -> Claim:
    """A claim with a new ticket, which waits."""
    # Time since boot, the same for all processes of a machine: a wall clock that is set back would let others pass.
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    ticket = f"{now:020d}-{os.getpid()}-{os.urandom(4).hex()}"
    return Claim(ticket=ticket, job=job, job_name=job_name, memory=memory, gpus=gpus)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


@functools.cache  # where users are kept on another machine, to ask for one takes a while
def user_name(uid: int) -> str:
    """Return the name of a user, or `user 1234`."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
