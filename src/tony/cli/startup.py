"""Entry point of `tony`: runs before anything slow is imported."""

from __future__ import annotations

import _thread  # `threading` takes locks that the interrupted code may hold
import os
import sys
import time

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Commands that start a job.
_SUBMIT_COMMANDS = ("run", "submit", "rerun")
#: Schedulers that run the AM on another machine.
_REMOTE_SCHEDULERS = ("kubernetes", "yarn")
#: Number of the signal; `signal` is slow to import.
_SIGINT = 2
#: Seconds after which a lost signal is sent again: the callback that lost it has returned by then.
_RESEND_SECONDS = 0.05
#: Modules of both the client and the AM: loaded once, before the AM is forked.
_SHARED_MODULES = (
    "asyncio",
    "json",
    "tony.model.submission_record",
    "tony.model.job_report",
    "tony.protocol.launch",
    "tony.rpc.client_connection",
)


def main() -> int:
    """Run one command line and return the exit code."""
    _reserve_standard_descriptors()
    _ensure_utf8()
    sys.unraisablehook = _resend_lost_signal
    try:
        return _submit() if sys.argv[1:2] and sys.argv[1] in _SUBMIT_COMMANDS else _main()
    except KeyboardInterrupt as error:  # before the command handles it
        return 128 + _find_number(error)
    finally:
        sys.unraisablehook = sys.__unraisablehook__


def names_remote_scheduler(arguments: Sequence[str]) -> bool:
    """Return True if a job is not for this machine, as far as `--scheduler` or its TOML file says.

    A standby would then only delay the client: loading the modules of an AM takes as much CPU time as a submission.

    Args:
        arguments: the name of the command, and what follows it.
    """
    import tomllib  # late: only commands that submit need it

    own = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)  # what follows is the program's
    for number, word in enumerate(own):
        option, equals, value = word.partition("=")
        if option == "--scheduler":
            return (value if equals else "".join(own[number + 1 : number + 2])) in _REMOTE_SCHEDULERS
    files = [word for word in own if word.endswith(".toml") and os.path.isfile(word)] if own[0] == "submit" else []
    try:
        with open(files[0] if files else os.devnull, "rb") as content:
            settings = tomllib.load(content).get("scheduler")
    except (OSError, ValueError):  # which is reported when the job file is loaded
        return False
    return isinstance(settings, dict) and settings.get("name") in _REMOTE_SCHEDULERS


def _submit() -> int:
    import gc  # late: only commands that submit need it

    gc.disable()  # loaded modules never become garbage; `isolated_interpreter.settle` enables it again
    if names_remote_scheduler(sys.argv[1:]):
        return _main()
    from tony import isolated_interpreter  # late: after the collector was turned off
    from tony.schedulers.local.supervision import am_prefork

    isolated_interpreter.load(*_SHARED_MODULES)
    am_prefork.prepare()
    try:
        return _main()
    finally:
        left = am_prefork.take()
        if left:
            left.dismiss()


def _reserve_standard_descriptors() -> None:
    """Open /dev/null for standard streams that were closed (`>&-`); the next opened file would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number


def _ensure_utf8() -> None:
    """Re-execute with `-X utf8` if file names are limited to ASCII.

    Names of jobs and files are UTF-8 in job directories. In the C locale Python uses UTF-8 by default; PYTHONUTF8=0 and
    PYTHONCOERCECLOCALE=0, which turn that off, are meant for user programs, which inherit them unchanged.
    """
    if sys.getfilesystemencoding() == "ascii" and sys.executable and "utf8" not in sys._xoptions:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _resend_lost_signal(lost: sys.UnraisableHookArgs) -> None:
    """Send Ctrl-C, or another termination signal, again if it arrived where Python drops exceptions.

    Those are finalizers and callbacks of weak references; each import runs some.
    """
    error = lost.exc_value
    while True:
        try:
            if isinstance(error, KeyboardInterrupt):
                _thread.start_new_thread(_send_late, (_find_number(error),))
            else:
                sys.__unraisablehook__(lost)
            return
        except KeyboardInterrupt as another:  # it would be dropped, too
            error = another


def _find_number(error: KeyboardInterrupt) -> int:
    """Return the number of the signal; `InterruptedBySignal` has one."""
    return int(getattr(error, "number", _SIGINT))


def _send_late(number: int) -> None:
    time.sleep(_RESEND_SECONDS)
    os.kill(os.getpid(), number)


def _main() -> int:
    from tony.cli.main import main  # late: it loads click; a standby starts before

    return main()
