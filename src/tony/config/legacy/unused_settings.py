"""Settings that nothing is made of: those that are not needed any more, and those that nobody knows."""

from __future__ import annotations

from tony.config.hints import Note
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.keys import KEYS, RESERVED, TYPE_ENDINGS, row_of
from tony.config.legacy.settings import LegacyValue
from tony.config.suggest import closest_match
from tony.config.value_format import name as shown

_LISTED = 5
#: For so many unknown settings the nearest one is looked for: that takes some milliseconds each.
_EXPLAINED = 20
_LISTS = "LinkedIn TonY has none with a similar name."


def tell(draft: DraftJob) -> None:
    """Notes the first kind, blames the second."""
    strangers = []
    for value in draft.settings:
        row = row_of(value.key)
        if not value.key.startswith("tony."):
            strangers.append(value)
        elif row is None:
            hint = _hint(draft, value) if len(draft.problems) < _EXPLAINED else _LISTS
            draft.blame(value, f"unknown setting; {hint}")
        elif row.gone:
            draft.note(value, f"has no effect. {row.gone}")
    if strangers:
        names = ", ".join(shown(value.key) for value in strangers[:_LISTED])
        more = f" and {len(strangers) - _LISTED} more" if len(strangers) > _LISTED else ""
        message = f"settings of others than the original are left alone: {names}{more}."
        draft.notes.append(Note(key=shown(strangers[0].key), message=message, source=strangers[0].place))


def _hint(draft: DraftJob, value: LegacyValue) -> str:
    _, _, rest = value.key.partition(".")
    name, _, ending = rest.partition(".")
    types = {each.key.split(".")[1] for each in draft.settings if each.key.endswith(".instances")} - RESERVED
    if name in types:
        near = closest_match(ending, TYPE_ENDINGS)
        near = near and f"tony.{name}.{near}"
    else:
        # Without what all of them have in common, which would make any two of them alike.
        known = [row.name.removeprefix("tony.") for row in KEYS if "<" not in row.name]
        near_ending = closest_match(ending, TYPE_ENDINGS) if ending and name not in RESERVED else None
        near = closest_match(rest, [*known, *([f"{name}.{near_ending}"] if near_ending else [])])
        near = near and f"tony.{near}"
    if near == value.key:
        return f"{shown(name)} cannot be a type's name."
    return f"did you mean `{shown(near)}`?" if near else _LISTS
