"""References to variables in the values of `container_env`: `$NAME`, `${NAME}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: A reference to a variable.
VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})", re.ASCII)


def expand_variables(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables expanded from this machine's environment; unset ones are empty."""
    return {
        name: VARIABLE.sub(lambda found: environ.get(found[1] or found[2], ""), value)
        for name, value in variables.items()
    }
