"""Modules of this package as processes of a job: `tony.testing.module_runner` finds them in this checkout."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from tony.isolated_interpreter import command

_ROOT = Path(__file__).resolve().parents[2]


def module_words(name: str, *arguments: str) -> tuple[str, ...]:
    """Return a module of tony, and its arguments, that runs `main()` of `tests.support.<name>`."""
    return ("tony.testing.module_runner", str(_ROOT), f"tests.support.{name}", *arguments)


def module_command(name: str, *arguments: str) -> list[str]:
    """Return its argv."""
    return command(*module_words(name, *arguments))


@dataclass(frozen=True, kw_only=True)
class JobModules:
    """Modules that run in place of the AM and of the executors of a job on this machine.

    Attributes:
        master: a module of tony and its arguments (`module_words`); empty for production's, as is the next one.
    """

    master: tuple[str, ...] = ()
    executor: tuple[str, ...] = ()

    def tony_command(self) -> list[str]:
        """Return the argv of a `tony` whose jobs on this machine run them."""
        words = self.master or ("tony.am.main",)
        if self.executor:
            words = module_words("am_with_executor", json.dumps(self.executor), *words)
        return [sys.executable, str(Path(__file__).with_name("faulty_tony.py")), json.dumps(words)]
