"""The ledger: the claims of all jobs of all users of this machine, as small locked files in a world-writable folder.

- A claim is a file `<ticket>.claim`. Its holder locks it (flock) before it becomes visible, and passes the open file to
  its executors: the claim lasts as long as one of them runs, and ends with the last, however that ends.
- Decisions are made with the folder itself locked, so they come one after the other.
- The folder is sticky: only a file's owner can remove or change it. Its content is untrusted: reads are bounded,
  only regular files are opened, and anything but a valid claim is ignored.

Where no folder for all users can be created, each user has a ledger of their own.
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
from tony.linux.liveness_lock import is_locked
from tony.linux.socket_owners import is_ours
from tony.model.state_directory import Home
from tony.schedulers.local.claims.claim_policy import MAX_BYTES, Claim, decode, encode, parse_ticket
from tony.schedulers.local.settings import DEFAULT_LEDGER, LocalSettings

_SUFFIX = ".claim"
_DRAFT = ".draft"
#: Mode of the folder: all users may add files, only a file's owner may remove it.
_SHARED = 0o1777
#: Checks of a folder that another process may be creating at this moment, and seconds between them.
_CHECKS = 3
_CHECK_SECONDS = 0.05


class LedgerBusyError(Exception):
    """Another process has the ledger locked at this moment."""


class ResourceLedger:
    """An open ledger. Not for use by several threads.

    Raises:
        OSError: the folder cannot be opened, or is a link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the folder. Claims stay as they are."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the ledger, so that no other process decides meanwhile.

        Raises:
            LedgerBusyError: another process has it locked.
            SchedulerError: the folder has been removed or replaced.
        """
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerBusyError(self.path) from None
        try:
            if not self._is_in_place():
                raise SchedulerError(f"the ledger {self.path} was removed while it was in use")
            yield
        finally:
            fcntl.flock(self._folder, fcntl.LOCK_UN)

    def list_claims(self) -> list[Claim]:
        """Return all live claims. Removes files of our own dead holders. Only while `locked`."""
        found = []
        with os.scandir(self._folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            if name.endswith(_SUFFIX):
                claim = self._read_claim(name)
                if claim:
                    found.append(claim)
            elif name.endswith(_DRAFT):
                self._remove_leftover(name)  # its writer died: it would hold the folder locked
        return found

    def post(self, claim: Claim) -> HeldClaim:
        """Write a new claim. Only while `locked`.

        Raises:
            OSError: the file system refuses.
        """
        draft, name = f"{claim.ticket}{_DRAFT}", f"{claim.ticket}{_SUFFIX}"
        descriptor = os.open(
            draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self._folder
        )
        try:
            os.fchmod(descriptor, 0o644)  # despite our umask: other users must see it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = HeldClaim(self.path / name, descriptor, claim)
            held.update(claim)
            os.rename(draft, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=self._folder)
            raise
        return held

    def find_inherited_claim(self, descriptor: int, job: str) -> HeldClaim | None:
        """Return the claim of the previous AM attempt from its inherited open file; None if it is not such a claim.

        Args:
            descriptor: of that file; owned by the claim from now on.
        """
        try:
            content = os.pread(descriptor, MAX_BYTES + 1, 0)
        except OSError:
            content = b""
        ticket = parse_ticket(content)
        claim = decode(content, ticket, find_user_name(os.geteuid()))
        if claim is None or claim.job != job:
            os.close(descriptor)
            return None
        return HeldClaim(self.path / f"{ticket}{_SUFFIX}", descriptor, claim)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._folder), os.stat(self.path, follow_symlinks=False))
        except OSError:
            return False

    def _read_claim(self, name: str) -> Claim | None:
        """Return the claim in a file if its holder is alive; else remove the file, if it is ours."""
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
            if not is_locked(descriptor):
                self._remove_leftover(name)
                return None
            content = os.read(descriptor, MAX_BYTES + 1)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        ticket, user = name.removesuffix(_SUFFIX), find_user_name(status.st_uid)
        return decode(content, ticket, user, is_trusted=is_ours(status.st_uid))

    def _remove_leftover(self, name: str) -> None:
        with contextlib.suppress(OSError):
            if os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_uid == os.geteuid():
                os.unlink(name, dir_fd=self._folder)


class HeldClaim:
    """A claim of this job. It lasts until `withdraw`, or until the last process that has its file open ends.

    Attributes:
        descriptor: of the locked file; inherited by executors, but not by user programs.
    """

    def __init__(self, path: Path, descriptor: int, claim: Claim) -> None:
        self.path = path
        self.descriptor = descriptor
        self.claim = claim

    def update(self, claim: Claim) -> None:
        """Rewrite the claim in place, since the lock belongs to this file. Only while the ledger is locked."""
        content = encode(claim)
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))
        self.claim = claim

    @property
    def is_seen(self) -> bool:
        """Return True if the file still has its name; False if it has been removed."""
        return os.fstat(self.descriptor).st_nlink > 0

    def refresh(self) -> bool:
        """Touch the file, so that cleaners of temporary files leave it alone.

        Returns:
            False if it has been removed.
        """
        if self.descriptor < 0:
            return True
        os.utime(self.descriptor)
        return self.is_seen

    def withdraw(self) -> None:
        """Release the claim. Idempotent."""
        if self.descriptor >= 0:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self.descriptor)):
                    self.path.unlink()
            os.close(self.descriptor)
            self.descriptor = -1


def create_claim(*, job: str, job_name: str, memory: int, gpus: int) -> Claim:
    """Return a waiting claim with a new ticket."""
    # Time since boot, the same for all processes: a wall clock that is set back would let later claims overtake.
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    ticket = f"{now:020d}-{os.getpid()}-{os.urandom(4).hex()}"
    return Claim(ticket=ticket, job=job, job_name=job_name, memory=memory, gpus=gpus)


@functools.cache  # a lookup is slow where users are stored on another machine (LDAP)
def find_user_name(uid: int) -> str:
    """Return the name of a user, or `user 1234`."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def open_ledger(settings: LocalSettings, home: Home, shared: Path = DEFAULT_LEDGER) -> tuple[ResourceLedger, str]:
    """Open the ledger; create it if it does not exist.

    Args:
        home: state directory that holds the user's own ledger if the shared folder cannot be used.
        shared: the folder for all users when the settings name none.

    Returns:
        The ledger, and a warning about its location (empty if there is none).

    Raises:
        SchedulerError: no folder can be used.
    """
    if settings.ledger is not None:
        problem = _prepare(settings.ledger)
        if problem:
            raise SchedulerError(_explain(settings.ledger, problem))
        return _open(settings.ledger), ""
    problem = _prepare(shared)
    if not problem:
        return _open(shared), ""
    own = find_own_ledger(home)
    own_problem = _prepare(own)
    if own_problem:
        raise SchedulerError(f"cannot create a ledger: {shared}: {problem}; {own}: {own_problem}")
    return _open(own), format_fallback_notice(shared, problem, own)


def find_own_ledger(home: Home) -> Path:
    """Return the path of a user's own ledger, used if there is no shared one."""
    return home.path / "ledger"


def format_fallback_notice(shared: Path, problem: str, own: Path) -> str:
    """Return the warning for a user whose jobs do not see those of other users."""
    return (
        f"the machine's ledger {shared} cannot be used ({problem}), so {own} is used: memory and GPUs in use by jobs "
        f"of other users are not taken into account. To fix it, an administrator can run: mkdir -m 1777 {shared}"
    )


def explain_unusable(path: Path) -> str:
    """Return why a folder cannot be the ledger; empty if it can. Changes nothing."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        parent = path.parent
        can_create = os.access(parent, os.W_OK | os.X_OK)
        return "" if can_create else f"it does not exist, and you have no permission to create it in {parent}"
    except OSError as error:
        return str(error.strerror)
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if status.st_uid != os.geteuid() and stat.S_IMODE(status.st_mode) & _SHARED != _SHARED:
        return f"it belongs to another user and has mode {stat.S_IMODE(status.st_mode):o} instead of 1777"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return "you have no write permission"
    return ""


def tidy(path: Path) -> None:
    """Remove files of our own dead jobs from a ledger, if it exists and is not locked."""
    try:
        ledger = ResourceLedger(path)
    except OSError:
        return
    try:
        with ledger.lock():
            ledger.list_claims()
    except (LedgerBusyError, SchedulerError):
        pass  # the next reader removes it
    finally:
        ledger.close()


def _prepare(path: Path) -> str:
    try:
        path.mkdir(mode=0o700)
        path.chmod(_SHARED)  # mkdir would apply the umask
    except FileExistsError:
        pass
    except OSError as error:
        return str(error.strerror)
    for _ in range(_CHECKS):
        problem = explain_unusable(path)
        if not problem:
            break
        time.sleep(_CHECK_SECONDS)
    return problem


def _open(path: Path) -> ResourceLedger:
    try:
        return ResourceLedger(path)
    except OSError as error:
        raise SchedulerError(_explain(path, str(error.strerror))) from error


def _explain(path: Path, problem: str) -> str:
    return f"the ledger {path} cannot be used: {problem}. Set scheduler.local.ledger to a writable folder."
