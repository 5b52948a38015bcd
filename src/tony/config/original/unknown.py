"""Settings that nothing is made of: those that are not needed any more, and those that nobody knows."""

from __future__ import annotations

from tony.config.nearest import nearest
from tony.config.notes import Note
from tony.config.original.draft import Draft
from tony.config.original.keys import KEYS, RESERVED, TYPE_ENDINGS, row_of
from tony.config.original.settings import Value

_LISTED = 5


def tell(draft: Draft) -> None:
    """Notes the first kind, blames the second."""
    strangers = []
    for value in draft.settings:
        row = row_of(value.key)
        if not value.key.startswith("tony."):
            strangers.append(value)
        elif row is None:
            draft.blame(value, f"unknown setting; {_hint(draft, value)}")
        elif row.gone:
            draft.note(value, row.gone)
    if strangers:
        names = ", ".join(value.key for value in strangers[:_LISTED])
        more = f" and {len(strangers) - _LISTED} more" if len(strangers) > _LISTED else ""
        message = f"settings of others than the original are left alone: {names}{more}."
        draft.notes.append(Note(key=strangers[0].key, message=message, source=strangers[0].place))


def _hint(draft: Draft, value: Value) -> str:
    _, _, rest = value.key.partition(".")
    name, _, ending = rest.partition(".")
    types = {each.key.split(".")[1] for each in draft.settings if each.key.endswith(".instances")} - RESERVED
    if name in types:
        near = nearest(ending, TYPE_ENDINGS)
        near = near and f"tony.{name}.{near}"
    else:
        known = [row.name for row in KEYS if "<" not in row.name]
        like_type = [f"tony.{name}.{each}" for each in TYPE_ENDINGS] if ending and name not in RESERVED else []
        near = nearest(value.key, [*known, *like_type])
    return f"did you mean `{near}`?" if near else "docs/migrating.md lists all of the original's."
