"""An AM that dies, or finds its disk full, while it handles an event: faults that cannot be injected from outside.

    --set module_setting("master", "crashing_master", "kill master before the effects of event 9")

Its arguments are the words of a fault plan (a semicolon separates faults), or `plan=FILE`; then an AM's usual
arguments: the job directory and an optional descriptor of a pipe. Everything else is as in production, including the
supervisor, which runs this program for each AM attempt; each fault is injected once.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.faults.crash_points import CrashingMaster, CrashingWriter, CrashPoints
from tests.support.faults.plan import FaultPlan
from tests.support.faults.plan_parser import parse_plan
from tony.am import main as am
from tony.errors import ConfigError, ExitCode
from tony.model.layout import JobFolder


def main() -> int:
    """Run one AM attempt."""
    words, rest = _divided(sys.argv[1:])
    try:
        CrashingWriter.fates = CrashPoints(_plan(words), JobFolder(Path(rest[0])))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return ExitCode.REFUSED
    sys.argv[1:] = rest
    vars(am).update(LogWriter=CrashingWriter, Master=CrashingMaster)  # production has no hook for it
    return am.main()


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the plan from the AM's arguments, at the job directory: no word of a plan begins with a slash."""
    at = next(number for number, word in enumerate(arguments) if word.startswith("/"))
    return arguments[:at], arguments[at:]


def _plan(words: list[str]) -> FaultPlan:
    if len(words) == 1 and words[0].startswith("plan="):
        file = Path(words[0].removeprefix("plan="))
        return parse_plan(file.read_text("utf-8"), str(file))
    return parse_plan(" ".join(words), "scheduler.local.master")
