"""The application master's parent, which waits for its end and starts the next AM attempt.

This is the main process of a job on this machine. It loads the AM's modules, takes the job's lock and forks: the child
is the first AM attempt. If that dies before the job has ended, the next one is forked from the same clean state within
milliseconds. The fork shares the lock, which proves that the job is running as long as either process is, so there is
never more than one AM.

Orphans of a dead AM become children of the supervisor; executors keep running. It also keeps their claim on the machine
for the next AM attempt.
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

from tony import clock, isolated_interpreter
from tony.errors import ExitCode
from tony.linux import liveness_lock, os_errors, process, process_identity
from tony.linux.file_descriptors import DescriptorQueue
from tony.linux.files import replace_file
from tony.model.state_directory import JobFolder

#: Modules of the application master.
MASTER = ("tony.am.main", "tony.schedulers.local.allocator")
#: Window in seconds in which AM deaths count against `am_attempts`.
_WINDOW_SECONDS = 600.0
#: AM attempts if the job record does not say.
_DEFAULT_ATTEMPTS = 5
#: Seconds between attempts to fork, if the machine has no resources for another process.
_FORK_RETRY_SECONDS = 1.0
#: Seconds to wait for executors that were asked to exit, when no further AM attempt is made.
_EXECUTOR_EXIT_SECONDS = 600
#: Signals meant for the AM, or from a terminal: the supervisor exits when the AM does.
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGPIPE)
#: Signals that stop the job, even if the AM has not installed its handlers yet.
_STOP_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)

log = logging.getLogger(__name__)


class SupervisorInfo:
    """The AM's view of its supervisor.

    Attributes:
        pid: of the supervisor; no longer our parent if it is dead.
        claim: descriptor of the claim's file inherited from an earlier AM attempt; the caller's from then on.
    """

    def __init__(self) -> None:
        """Create it in the supervisor process."""
        self.pid = os.getpid()
        self.claim: int | None = None
        self._claim_queue = DescriptorQueue()

    @property
    def is_running(self) -> bool:
        """True while the supervisor is running, which would start another AM attempt."""
        return os.getppid() == self.pid

    def pass_on(self, claim: int) -> None:
        """Keep the claim's open file for the next AM attempt."""
        with contextlib.suppress(OSError):  # then the next one has to queue again
            self._claim_queue.put(claim)

    def collect(self) -> None:
        """In the supervisor: take the file that was passed, for the next AM attempt to inherit."""
        newer = self._claim_queue.take_last()
        if newer is not None:
            if self.claim is not None:
                os.close(self.claim)
            self.claim = newer

    def drop_claim(self) -> None:
        """Drop the claim, since no AM attempt follows: executors alone hold it, and it ends with the last of them."""
        self.collect()
        if self.claim is not None:
            os.close(self.claim)
            self.claim = None


_present: SupervisorInfo | None = None


def present() -> SupervisorInfo | None:
    """Return the supervisor of this process if it is an AM; None if there is none."""
    return _present


def main() -> int:
    """Run a job to its end; return the exit code of its last AM attempt.

    The arguments are the AM's: the job directory and the number of a pipe that is closed as soon as clients can
    connect; before them, if it is not the default one: the AM's module and its arguments.
    """
    *others, folder, pipe = sys.argv[1:]
    module, *others = others or [MASTER[0]]
    isolated_interpreter.load(module, *MASTER)

    def run_attempt(first: bool) -> int:
        sys.argv[1:] = [*others, folder, pipe] if first else [*others, folder]
        code: int = import_module(module).main()
        return code

    return supervise(JobFolder(Path(folder)), run_attempt, int(pipe))


def supervise(folder: JobFolder, attempt: Callable[[bool], int], pipe: int) -> int:
    """Run AM attempts until one has finished the job, or too many have died; return the exit code.

    Args:
        attempt: called in each fork, which then returns from this function too; its argument says if it is the first.
        pipe: closed by the first AM attempt; no other process has it open.
    """
    global _present
    if not liveness_lock.take(folder.am_lock):
        print(f"another application master of {folder.job_id} is already running", file=sys.stderr)
        return ExitCode.BUG
    _present = SupervisorInfo()
    process.hear_signals()
    process.set_child_subreaper()
    gc.freeze()  # nothing here becomes garbage; a collection would copy every page shared with the AM
    usual: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
    deaths: list[float] = []
    while True:
        try:
            am = _fork(deaths)
        except OSError as error:
            print(
                f"cannot start the application master: {os_errors.describe_os_error(error)}",
                file=sys.stderr,
            )
            return ExitCode.INFRASTRUCTURE
        if am == 0:
            for number, handler in usual.items():
                signal.signal(number, handler)
            process_identity.assume(f"tony.am.main {folder.path}")
            return attempt(not deaths)
        if not usual:
            usual.update({number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED})
            process_identity.assume(f"{__name__} {folder.path}")
            os.close(pipe)
        code = os.waitstatus_to_exitcode(_wait(am))
        if folder.summary.exists():
            return max(0, code)
        if code >= 0:  # it has logged why, and would fail again
            _give_up(folder)
            return code
        _present.collect()
        deaths.append(clock.monotonic())
        reason = _find_reason_to_give_up(folder, -code, deaths)
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=clock.LOG_LINE)
        logging.Formatter.converter = time.gmtime
        if reason:
            log.error(
                "the application master (pid %d) died (%s); not restarted: %s", am, process.format_signal(-code), reason
            )
            _give_up(folder)
            return 128 - code
        log.warning(
            "the application master (pid %d) died (%s); starting the next AM attempt", am, process.format_signal(-code)
        )


def _fork(deaths: list[float]) -> int:
    """Fork. For a later AM attempt, retry while the process limit or memory is exhausted."""
    while True:
        try:
            return os.fork()
        except OSError as error:
            if not deaths or error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            time.sleep(_FORK_RETRY_SECONDS)


def _wait(am: int) -> int:
    """Wait for the AM's end, and reap orphans."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == am:
            return status


def _find_reason_to_give_up(folder: JobFolder, number: int, deaths: list[float]) -> str:
    """Return why there is no further AM attempt; empty if there is one."""
    if number in _STOP_SIGNALS:
        return "it was asked to stop"
    if not folder.credentials.exists():  # removed just before the summary is written; the event log has the result
        return "it had finished the job except for the summary"
    allowed = _count_allowed(folder)
    recent = [death for death in deaths if death > deaths[-1] - _WINDOW_SECONDS]
    if len(recent) < allowed:
        return ""
    return f"{len(recent)} of {allowed} AM attempts (am_attempts) died within {_WINDOW_SECONDS / 60:g} minutes"


def _count_allowed(folder: JobFolder) -> int:
    try:
        return int(json.loads(folder.job.read_bytes())["spec"]["am_attempts"])
    except (OSError, ValueError, LookupError, TypeError):
        return _DEFAULT_ATTEMPTS


def _remove_pid(folder: JobFolder) -> None:
    """Remove our pid from the job's `am.json`: a reader that finds it there concludes that we were killed."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        text = json.dumps({**json.loads(folder.am.read_bytes()), "supervisor": None})
        replace_file(folder.am, text.encode())


def _give_up(folder: JobFolder) -> None:
    """Ask executors to exit, and wait for that. A reader of the job directory may close the history meanwhile.

    They become our children one after the other: those of the AM's fork server as soon as that has exited.
    """
    if _present:
        _present.drop_claim()  # first: the process that closes the history removes claims without a holder
    _remove_pid(folder)
    liveness_lock.release_lock(folder.am_lock)
    own = os.getsid(0)
    signalled: set[int] = set()
    signal.alarm(_EXECUTOR_EXIT_SECONDS)  # it kills this process
    with contextlib.suppress(ChildProcessError):
        while True:
            found = process.list_own_children()
            for pid in set(process.children(os.getpid()) if found is None else found) - signalled:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM if os.getsid(pid) != own else signal.SIGKILL)
                signalled.add(pid)
            signalled.discard(os.waitpid(-1, 0)[0])
