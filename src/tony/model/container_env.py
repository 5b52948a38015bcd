"""Variables of the containers themselves: `$NAME` and `${NAME}` stand for the node's, all else is taken as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})", re.ASCII)
#: What means something to a shell inside double quotes, unless it begins a variable.
_MEANS_SOMETHING = re.compile(rf'(?P<variable>{_VARIABLE.pattern})|[\\"`$]', re.ASCII)
#: A cluster's scheduler reads these itself, as they are sent; no shell comes between.
_READ_BY_YARN = "YARN_CONTAINER_RUNTIME_"


def expand_variables(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """As a container of this machine has them; a name that is not set stands for nothing."""
    return {
        name: _VARIABLE.sub(lambda found: environ.get(found[1] or found[2], ""), value)
        for name, value in variables.items()
    }


def for_shell(variables: Mapping[str, str]) -> dict[str, str]:
    """As a shell script must have them between double quotes to set them so: YARN writes values there as they are."""
    return {
        name: value if name.startswith(_READ_BY_YARN) else _MEANS_SOMETHING.sub(_quoted, value)
        for name, value in variables.items()
    }


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found["variable"] else f"\\{found[0]}"
