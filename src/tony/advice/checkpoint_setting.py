"""Finds the parameter or variable that sets the checkpoint interval of a job. Pure."""

from __future__ import annotations

import re

from tony.advice.facts import CheckpointStats, Run
from tony.advice.recommendation import SettingChange
from tony.config.files.layers import format_key
from tony.units import format_duration

_NAME = re.compile(r"save|checkpoint|ckpt|snapshot", re.IGNORECASE)
#: Tolerance between the measured interval and a parameter in seconds.
_TOLERANCE = 0.1


def change_of_interval(run: Run, saves: CheckpointStats, seconds: float) -> tuple[SettingChange, ...]:
    """Return the change to a checkpoint interval in seconds; empty if the parameter is not certain.

    A parameter is certain if its name refers to saving and its value equals the measured steps or seconds.
    """
    found = [
        (key, text, new)
        for key, text in _find_interval_settings(run)
        if _NAME.search(key) and (new := _compute_new_value(text, saves, seconds)) is not None
    ]
    if len(found) != 1:
        return ()
    key, text, new = found[0]
    return (SettingChange(key=key, old=text, new=new),) if new != text else ()


def format_interval_hint(saves: CheckpointStats, seconds: float) -> str:
    """Return `Save every 5 m, every 300 steps.`"""
    steps = ""
    if saves.steps and saves.every:
        steps = f", every {max(1, round(saves.steps * seconds / saves.every))} steps"
    return f"Save every {format_duration(seconds)}{steps}."


def _find_interval_settings(run: Run) -> list[tuple[str, str]]:
    spec = run.spec
    found = [(format_key(("params", name)), str(value)) for name, value in spec.params.items()]
    found += [(format_key(("env", name)), str(value)) for name, value in spec.env.items()]
    return found + [
        (format_key(("roles", role, "env", name)), str(value))
        for role, each in spec.roles.items()
        for name, value in each.env.items()
    ]


def _compute_new_value(text: str, saves: CheckpointStats, seconds: float) -> str | None:
    """Return the new value; None if the present one is not the measured interval."""
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not saves.every:
        return None
    value = int(text)
    if value == saves.steps and value > 0:
        return str(max(1, round(saves.steps * seconds / saves.every)))
    if value and abs(value - saves.every) <= _TOLERANCE * value:
        return str(max(1, round(seconds)))
    return None
