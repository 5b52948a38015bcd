"""Types of tasks: our roles."""

from __future__ import annotations

from tony.config.original import values
from tony.config.original.draft import DEFAULTS, Draft, Origin
from tony.config.original.shape import Shape

#: Memory of a task of which nothing is said.
MEMORY = "2g"


def translate(draft: Draft, types: Shape) -> None:
    """Puts a role for every type that has tasks into the draft."""
    for name, number in types.instances.items():
        value = draft.settings.get(f"tony.{name}.instances")
        place = ("roles", name)
        draft.put((*place, "instances"), number, value or Origin(DEFAULTS))
        memory = values.size_text(draft, f"tony.{name}.memory")
        draft.put((*place, "memory"), memory or MEMORY, draft.settings.get(f"tony.{name}.memory") or Origin(DEFAULTS))
        if command := draft.settings.get(f"tony.{name}.command"):
            draft.put((*place, "command"), command.text, command)
