"""Modules of this package as processes of a job: `tony.testing.module_runner` finds them in this checkout."""

from __future__ import annotations

from pathlib import Path

from tony.bootstrap import command

_ROOT = Path(__file__).resolve().parents[2]


def module_words(name: str, *arguments: str) -> tuple[str, ...]:
    """Return a module of tony, and its arguments, that runs `main()` of `tests.support.<name>`."""
    return ("tony.testing.module_runner", str(_ROOT), f"tests.support.{name}", *arguments)


def module_setting(name: str, *arguments: str) -> str:
    """Return the value of `scheduler.local.executor` or `scheduler.local.master` for it."""
    return " ".join(module_words(name, *arguments))


def module_command(name: str, *arguments: str) -> list[str]:
    """Return its argv."""
    return command(*module_words(name, *arguments))
