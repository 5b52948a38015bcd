"""How a job's program is told how often to save: where one of its parameters or variables says it. Pure."""

from __future__ import annotations

import re

from tony.advice.facts import Run, Saves
from tony.advice.recommendation import SettingChange
from tony.config.layers import dotted

_NAME = re.compile(r"save|checkpoint|ckpt|snapshot", re.IGNORECASE)
#: How far what was measured may be from what a parameter says in seconds.
_NEAR = 0.1


def change_of_interval(run: Run, saves: Saves, seconds: float) -> tuple[SettingChange, ...]:
    """The change that has it save every so many seconds; none where it is not certain which value does that.

    A value counts if its name speaks of saving and it is what was measured: the very number of steps, or the seconds.
    """
    found = [
        (key, text, new)
        for key, text in _words(run)
        if _NAME.search(key) and (new := _new(text, saves, seconds)) is not None
    ]
    if len(found) != 1:
        return ()
    key, text, new = found[0]
    return (SettingChange(key=key, old=text, new=new),) if new != text else ()


def _words(run: Run) -> list[tuple[str, str]]:
    spec = run.spec
    found = [(dotted(("params", name)), str(value)) for name, value in spec.params.items()]
    found += [(dotted(("env", name)), str(value)) for name, value in spec.env.items()]
    return found + [
        (dotted(("roles", role, "env", name)), str(value))
        for role, each in spec.roles.items()
        for name, value in each.env.items()
    ]


def _new(text: str, saves: Saves, seconds: float) -> str | None:
    """What would stand there; None if it is not what was measured."""
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not saves.every:
        return None
    value = int(text)
    if value == saves.steps and value > 0:
        return str(max(1, round(saves.steps * seconds / saves.every)))
    if value and abs(value - saves.every) <= _NEAR * value:
        return str(max(1, round(seconds)))
    return None
