"""The ends of the logs of daemons."""

from __future__ import annotations

import re
from pathlib import Path

from tony.linux.files import read_tail

#: Lines of a log that an error shows, most of which are not from a stack trace.
_LINES = 12
#: Bytes of a log that are searched for them.
_TAIL = 65536
_PORT_IN_USE = re.compile(r"BindException|Address already in use|Port in use", re.IGNORECASE)


def log_tail(log: Path) -> list[str]:
    """Return the last informative lines of a log: stack traces without their frames."""
    try:
        text = read_tail(log, _TAIL).decode(errors="replace")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"\s+(at |\.\.\. \d+ more)", line)]
    # Hadoop's shutdown banner of asterisks has no further information.
    lines = [line for line in lines if not re.match(r"[/*]|SHUTDOWN_MSG", line) and "SHUTDOWN_MSG" not in line]
    return [line[:400] for line in lines[-_LINES:]]


def is_port_in_use(log: Path) -> bool:
    """Return True if a daemon died because its port was in use."""
    return any(_PORT_IN_USE.search(line) for line in log_tail(log))
