"""Settings without effect: those no longer needed, and unknown ones."""

from __future__ import annotations

from tony.config.checks.hints import Note
from tony.config.legacy.draft_job import DraftJob
from tony.config.legacy.keys import KEYS, RESERVED, TYPE_ENDINGS, row_of
from tony.config.legacy.settings_sources import LegacyValue
from tony.config.name_suggestions import find_closest_match
from tony.config.table.value_format import format_name

_MAX_NAMES = 5
#: Unknown settings for which the nearest one is suggested: that takes some milliseconds each.
_MAX_SUGGESTIONS = 20
_NO_SUGGESTION = "LinkedIn TonY has none with a similar name."


def check(draft: DraftJob) -> None:
    """Add a note for each setting that is no longer needed, and an error for each unknown one."""
    foreign = []
    for value in draft.settings:
        row = row_of(value.key)
        if not value.key.startswith("tony."):
            foreign.append(value)
        elif row is None:
            hint = _hint(draft, value) if len(draft.problems) < _MAX_SUGGESTIONS else _NO_SUGGESTION
            draft.add_error(value, f"unknown setting; {hint}")
        elif row.obsolete:
            draft.note(value, f"has no effect. {row.obsolete}")
    if foreign:
        names = ", ".join(format_name(value.key) for value in foreign[:_MAX_NAMES])
        more = f" and {len(foreign) - _MAX_NAMES} more" if len(foreign) > _MAX_NAMES else ""
        message = f"settings that do not begin with `tony.` are ignored: {names}{more}."
        draft.notes.append(Note(key=format_name(foreign[0].key), message=message, source=foreign[0].place))


def _hint(draft: DraftJob, value: LegacyValue) -> str:
    _, _, rest = value.key.partition(".")
    name, _, ending = rest.partition(".")
    types = {setting.key.split(".")[1] for setting in draft.settings if setting.key.endswith(".instances")} - RESERVED
    if name in types:
        near = find_closest_match(ending, TYPE_ENDINGS)
        near = near and f"tony.{name}.{near}"
    else:
        # Compare without the common prefix, which would make all keys similar.
        known = [row.name.removeprefix("tony.") for row in KEYS if "<" not in row.name]
        near_ending = find_closest_match(ending, TYPE_ENDINGS) if ending and name not in RESERVED else None
        near = find_closest_match(rest, [*known, *([f"{name}.{near_ending}"] if near_ending else [])])
        near = near and f"tony.{near}"
    if near == value.key:
        return f"{format_name(name)} cannot be a type."
    return f"did you mean `{format_name(near)}`?" if near else _NO_SUGGESTION
