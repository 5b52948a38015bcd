"""Checks of `[[diagnosis.rules]]`: patterns that executors can search for in all output without stalling."""

from __future__ import annotations

from tony.config.table.converted_settings import ValueTable
from tony.config.table.settings_table import Key
from tony.model.job_spec import JobSpec
from tony.model.line_pattern import explain_refusal

#: Rules of one job, those of its site included.
MAX_RULES = 50
_MAX_ADVICE_LENGTH = 300
_EXAMPLES = {"pattern": "pattern = 'quota exceeded on /scratch'", "class": 'class = "quota"'}


def check_rules(spec: JobSpec, values: ValueTable) -> None:
    """Report incomplete rules, patterns that cannot be used, and too many rules."""
    rules = values.list_rules()
    if len(rules) > MAX_RULES:
        message = f"{len(rules)} rules are too many; a job and its site may have {MAX_RULES} together."
        values.add_error(("diagnosis", "rules"), message)
    for name in rules:
        place = ("diagnosis", "rules", name)
        for part, example in _EXAMPLES.items():
            if (*place, part) not in values.found and (*place, part) not in values.broken:
                values.add_error(place, f"`{part}` is missing. Add {example}.")
        _check_texts(values, place)


def _check_texts(values: ValueTable, place: Key) -> None:
    pattern, advice = values.value((*place, "pattern")), values.value((*place, "advice")) or ""
    if pattern is not None and (fault := explain_refusal(pattern)):
        values.add_error((*place, "pattern"), fault)
    if len(advice) > _MAX_ADVICE_LENGTH or not advice.isprintable():
        message = f"advice is one line of up to {_MAX_ADVICE_LENGTH} printable characters."
        values.add_error((*place, "advice"), message)
