"""Whoever has an application master go on: its parent, which does nothing but wait for its end.

The program of a job on this machine. It loads what a master is made of, takes the job's lock and forks: the child is
the first attempt. If that dies before the job has ended, the next one is forked from the same clean state within
milliseconds. The lock is shared by the fork: it says that the job lives as long as either of the two does, so there is
never more than one master.

What loses its parent with a master becomes a child of the supervisor: executors, which live on. Their claim on the
machine is kept for the next attempt as well.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from tony import bootstrap, clock
from tony.errors import ExitCode
from tony.linux import liveness_lock, process, process_title, resource_limits
from tony.linux.fd_store import FdStore
from tony.model.layout import JobFolder

#: What a master is made of.
MASTER = ("tony.am.main", "tony.schedulers.local.allocator")
#: Seconds in which so many deaths as a job may have attempts are too many.
_WITHIN = 600.0
#: Attempts where the record does not say.
_ATTEMPTS = 5
#: Seconds between tries to fork, if the machine has no room for another process.
_NO_ROOM = 1.0
#: Seconds to wait for the end of executors that were told to end, when no further attempt is made.
_LAST_WAIT = 600
#: What is for the master, or from a terminal: it ends when the master ends.
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGPIPE)
#: Whoever sends one of these to a master that does not heed them yet wants the job to end.
_TOLD_TO_END = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)

log = logging.getLogger(__name__)


class SupervisorInfo:
    """What a master knows of its supervisor.

    Attributes:
        pid: of the supervisor; not our parent any more if that is dead.
        claim: descriptor of the claim's file that an earlier attempt has handed on, the caller's from then on.
    """

    def __init__(self) -> None:
        """For the process that is the supervisor."""
        self.pid = os.getpid()
        self.claim: int | None = None
        self._box = FdStore()

    @property
    def lives(self) -> bool:
        """Whether there is anybody who would begin again."""
        return os.getppid() == self.pid

    def hand_on(self, claim: int) -> None:
        """Keeps the claim's open file for the next attempt."""
        with contextlib.suppress(OSError):  # then the next one has to stand in line again
            self._box.put(claim)

    def collect(self) -> None:
        """The supervisor takes what was handed on, for the next attempt to inherit."""
        newer = self._box.take_last()
        if newer is not None:
            if self.claim is not None:
                os.close(self.claim)
            self.claim = newer

    def let_go(self) -> None:
        """Nobody follows: the claim is held by executors alone, and ends with the last of them."""
        self.collect()
        if self.claim is not None:
            os.close(self.claim)
            self.claim = None


_present: SupervisorInfo | None = None


def present() -> SupervisorInfo | None:
    """The supervision under which this process is a master; None if there is none."""
    return _present


def main() -> int:
    """Runs a job to its end; answers the exit code of its last attempt.

    The arguments are the master's: the job's folder and the number of a pipe that is closed as soon as clients can
    connect. Before them, if it is not the usual one: the master's module, and arguments of its own.
    """
    *others, folder, pipe = sys.argv[1:]
    module, *others = others or [MASTER[0]]
    bootstrap.load(module, *MASTER)

    def attempt(first: bool) -> int:
        sys.argv[1:] = [*others, folder, pipe] if first else [*others, folder]
        code: int = import_module(module).main()
        return code

    return supervise(JobFolder(Path(folder)), attempt, int(pipe))


def supervise(folder: JobFolder, attempt: Callable[[bool], int], pipe: int) -> int:
    """Runs attempts until one has ended the job, or too many have died; answers the exit code.

    Args:
        attempt: called in each fork, which then returns from this function, too; told whether it is the first.
        pipe: that the first attempt closes, and nobody else has.
    """
    global _present
    if not liveness_lock.take(folder.am_lock):
        print(f"another application master of {folder.job_id} lives", file=sys.stderr)
        return ExitCode.BUG
    _present = SupervisorInfo()
    process.hear_signals()
    process.set_child_subreaper()
    gc.freeze()  # nothing here ever becomes garbage; a collection would copy every page that we share with the master
    usual: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
    deaths: list[float] = []
    while True:
        try:
            master = _fork(deaths)
        except OSError as error:
            print(
                f"the application master cannot be started: {resource_limits.describe_os_error(error)}", file=sys.stderr
            )
            return ExitCode.INFRASTRUCTURE
        if master == 0:
            for number, handler in usual.items():
                signal.signal(number, handler)
            process_title.assume(f"tony.am.main {folder.path}")
            return attempt(not deaths)
        if not usual:
            usual.update({number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED})
            process_title.assume(f"{__name__} {folder.path}")
            os.close(pipe)
        code = os.waitstatus_to_exitcode(_wait(master))
        if folder.summary.exists():
            return max(0, code)
        if code >= 0:  # it has said why, and would say it again
            _give_up(folder)
            return code
        _present.collect()
        deaths.append(clock.monotonic())
        reason = _reason_to_give_up(folder, -code, deaths)
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=clock.LOG_LINE)
        logging.Formatter.converter = time.gmtime
        if reason:
            log.error("the application master (pid %d) died (%s), the last one: %s", master, _name(-code), reason)
            _give_up(folder)
            return 128 - code
        log.warning("the application master (pid %d) died (%s); another one goes on", master, _name(-code))


def _fork(deaths: list[float]) -> int:
    """Forks. A later attempt waits for room if there is none."""
    while True:
        try:
            return os.fork()
        except OSError as error:
            if not deaths or error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            time.sleep(_NO_ROOM)


def _wait(master: int) -> int:
    """Waits for the end of the master, and for that of all that has lost its parent."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == master:
            return status


def _reason_to_give_up(folder: JobFolder, number: int, deaths: list[float]) -> str:
    """Why there is no further attempt; empty if there is one."""
    if number in _TOLD_TO_END:
        return "it was told to end"
    if not folder.credentials.exists():  # removed just before the summary is written: the log has the result
        return "it had ended the job, but for the summary"
    allowed = _allowed(folder)
    recent = [death for death in deaths if death > deaths[-1] - _WITHIN]
    if len(recent) < allowed:
        return ""
    return f"{len(recent)} of {allowed} attempts (am_attempts) have died within {_WITHIN / 60:g} minutes"


def _allowed(folder: JobFolder) -> int:
    try:
        return int(json.loads(folder.job.read_bytes())["spec"]["am_attempts"])
    except (OSError, ValueError, LookupError, TypeError):
        return _ATTEMPTS


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _sign_off(folder: JobFolder) -> None:
    """Says that we are not to be missed: who finds our pid in there finds that we were killed."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        text = json.dumps({**json.loads(folder.am.read_bytes()), "supervisor": None})
        draft = folder.am.with_name(f".{folder.am.name}.{os.getpid()}.new")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o600)
        os.replace(draft, folder.am)


def _give_up(folder: JobFolder) -> None:
    """Tells executors to end, and waits for that. Whoever reads the job's record meanwhile may close it.

    They become our children one after the other: those of the master's fork server as soon as that has ended.
    """
    if _present:
        _present.let_go()  # first: whoever closes the record removes what nobody holds
    _sign_off(folder)
    liveness_lock.release_lock(folder.am_lock)
    own = os.getsid(0)
    told: set[int] = set()
    signal.alarm(_LAST_WAIT)  # which ends us
    with contextlib.suppress(ChildProcessError):
        while True:
            found = process.own_children()
            for pid in set(process.children(os.getpid()) if found is None else found) - told:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM if os.getsid(pid) != own else signal.SIGKILL)
                told.add(pid)
            told.discard(os.waitpid(-1, 0)[0])
