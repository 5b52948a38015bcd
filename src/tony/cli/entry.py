"""Where `tony` begins: before anything is imported that takes time."""

from __future__ import annotations

import os
import sys

#: Commands that start a job, nearly always one of the local scheduler.
_STARTING = ("run", "submit")
#: As other Unix programs end by SIGINT.
_INTERRUPTED = 130
#: What both the client and the application master need: loaded once, before the one becomes a fork of the other.
_SHARED = (
    "asyncio",
    "json",
    "tony.model.job_record",
    "tony.model.job_report",
    "tony.protocol.launch",
    "tony.rpc.client_connection",
)


def main() -> int:
    """Runs one command line; answers the exit code."""
    _keep_standard_numbers()
    _insist_on_utf8()
    try:
        if sys.argv[1:2] and sys.argv[1] in _STARTING:
            return _main_with_standby()
        return _main()
    except KeyboardInterrupt:  # so early that nobody heeded it yet
        return _INTERRUPTED


def _main_with_standby() -> int:
    import gc

    gc.disable()  # nothing of what is loaded ever becomes garbage; `bootstrap.settle` undoes it
    from tony import bootstrap
    from tony.schedulers.local import standby

    bootstrap.load(*_SHARED)
    standby.prepare()
    try:
        return _main()
    finally:
        left = standby.take()
        if left:
            left.dismiss()


def _keep_standard_numbers() -> None:
    """Whoever closed our standard streams (`>&-`) left their numbers free, and the next file of ours would get one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free


def _insist_on_utf8() -> None:
    """Begins again where no name can be written but in ASCII.

    Names of jobs and files are UTF-8 in every record. In the locale C Python takes all names for UTF-8; whoever forbids
    it (PYTHONUTF8=0, PYTHONCOERCECLOCALE=0) means their programs, which inherit these variables unchanged.
    """
    if sys.getfilesystemencoding() == "ascii" and sys.executable and "utf8" not in sys._xoptions:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _main() -> int:
    from tony.cli.main import main

    return main()
