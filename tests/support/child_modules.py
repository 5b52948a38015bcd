"""Modules of this package as processes of a job: `tony.testing.module_runner` finds them in this checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tony.isolated_interpreter import command

_ROOT = Path(__file__).resolve().parents[2]


def module_words(name: str, *arguments: str) -> tuple[str, ...]:
    """Return a module of tony, and its arguments, that runs `main()` of `tests.support.<name>`."""
    return ("tony.testing.module_runner", str(_ROOT), f"tests.support.{name}", *arguments)


def module_setting(key: Literal["executor", "master"], name: str, *arguments: str) -> str:
    """Return the setting of the local scheduler that has it run: `tony submit --set SETTING`."""
    return f"scheduler.local.{key}={' '.join(module_words(name, *arguments))}"


def module_command(name: str, *arguments: str) -> list[str]:
    """Return its argv."""
    return command(*module_words(name, *arguments))
