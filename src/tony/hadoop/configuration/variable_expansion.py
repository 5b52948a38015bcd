"""Replaces `${...}` in values of a Hadoop configuration, by Hadoop's rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

#: Replacements in one value (`Configuration.MAX_SUBST`).
MAX_EXPANSIONS = 20
#: Characters that a value may grow to: 20 replacements double a text of 8 characters to 8 MiB.
MAX_LENGTH = 1 << 20
_VARIABLE = re.compile(r"\$\{([^}$ ]+)\}")


def expand(text: str, lookup: Callable[[str], str | None], environ: Mapping[str, str]) -> str:
    """Return the value with everything in it replaced.

    Args:
        text: the value as written.
        lookup: the unexpanded value of a key (or of a Java system property), or None.
        environ: for `${env.X}`.

    Raises:
        ValueError: too many replacements.
    """
    value = text
    for _ in range(MAX_EXPANSIONS):
        match = _VARIABLE.search(value)
        if match is None:
            return value
        new = _find_variable(match[1], environ)
        if new is None:
            new = lookup(match[1])
        if new is None:
            return value
        if match[0] in new:
            return text
        value = value[: match.start()] + new + value[match.end() :]
        if len(value) > MAX_LENGTH:
            raise ValueError(f"it grows beyond {MAX_LENGTH} characters when its ${{...}} are replaced.")
    raise ValueError(f"it needs more than {MAX_EXPANSIONS} replacements of ${{...}}; Hadoop makes no more.")


def _find_variable(variable: str, environ: Mapping[str, str]) -> str | None:
    if not variable.startswith("env.") or len(variable) == 4:
        return None
    name = variable[4:]
    for at, char in enumerate(name):
        if name.startswith(":-", at):
            return environ.get(name[:at]) or name[at + 2 :]
        if char == "-":
            return environ.get(name[:at], name[at + 1 :])
    return environ.get(name)
