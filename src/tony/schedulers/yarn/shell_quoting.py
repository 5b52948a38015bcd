"""Quoting of container variables for the script in which YARN sets them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tony.model.placeholders import VARIABLE

#: Characters that a shell interprets inside double quotes, unless they begin a variable.
_SPECIAL = re.compile(rf'(?P<variable>{VARIABLE.pattern})|[\\"`$]', re.ASCII)
#: Read by YARN itself, as they are sent; no shell interprets them.
_READ_BY_YARN = "YARN_CONTAINER_RUNTIME_"


def escape_for_shell(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables escaped for YARN, which writes the values unchanged into a script between double quotes."""
    return {
        name: value if name.startswith(_READ_BY_YARN) else _SPECIAL.sub(_quote_match, value)
        for name, value in variables.items()
    }


def _quote_match(found: re.Match[str]) -> str:
    return found[0] if found["variable"] else f"\\{found[0]}"
