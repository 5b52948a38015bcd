"""Variables of the containers themselves: `$NAME` and `${NAME}` are the node's variables, all else is literal."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})", re.ASCII)
#: Characters that a shell interprets inside double quotes, unless they begin a variable.
_SPECIAL = re.compile(rf'(?P<variable>{_VARIABLE.pattern})|[\\"`$]', re.ASCII)
#: Read by YARN itself, as they are sent; no shell interprets them.
_READ_BY_YARN = "YARN_CONTAINER_RUNTIME_"


def expand_variables(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables expanded from this machine's environment; unset ones are empty."""
    return {
        name: _VARIABLE.sub(lambda found: environ.get(found[1] or found[2], ""), value)
        for name, value in variables.items()
    }


def for_shell(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables escaped for YARN, which writes the values unchanged into a script between double quotes."""
    return {
        name: value if name.startswith(_READ_BY_YARN) else _SPECIAL.sub(_quoted, value)
        for name, value in variables.items()
    }


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found["variable"] else f"\\{found[0]}"
