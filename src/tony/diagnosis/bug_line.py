"""The line that proves a bug of tony: an exception of its own code, and where it was raised."""

from __future__ import annotations

import re
import traceback
from posixpath import basename

from tony.errors import ExitCode
from tony.model.diagnosis import EvidenceLine

#: In the log of an executor that fails, and in the sentence about its container, which quotes the end of that log.
EXECUTOR_BUG = "a bug in the executor: "
_QUOTED = re.compile(
    rf"exit code {ExitCode.BUG.value}\b.*{EXECUTOR_BUG}"
    r"(?P<text>.+?)(?: \((?P<place>[\w.]+:\d+ in \S+)\))?(?:; full log: .*)?$",
    re.DOTALL,
)


def build_bug_line(error: BaseException) -> EvidenceLine:
    """Return an exception as a line of evidence; of a group of exceptions its first one."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    return EvidenceLine(stream="log", number=0, text=text, ago=0.0, rule="", code_place=place)


def format_bug(error: BaseException) -> str:
    """Return an exception and its place as one text."""
    line = build_bug_line(error)
    return f"{line.text} ({line.code_place})" if line.code_place else line.text


def find_executor_bug(end: str) -> EvidenceLine | None:
    """Return the exception that ended an executor, from the sentence about its container; None if it was no bug."""
    found = _QUOTED.search(end)
    if found is None:
        return None
    return EvidenceLine(stream="log", number=0, text=found["text"], ago=0.0, rule="", code_place=found["place"] or "")
