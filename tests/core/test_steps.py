"""The arrows between the machine's steps point one way, as their list says."""

from __future__ import annotations

import ast
from pathlib import Path

import tony.core.steps
from tony.core import application
from tony.core.deadline import TASK_DEADLINES, DeadlineKind
from tony.core.events import EVENTS
from tony.core.steps import deadlines

FOLDER = Path(tony.core.steps.__path__[0])
DOC = tony.core.steps.__doc__ or ""


def listed() -> list[str]:
    """The modules in the order of the list: from the top to the end."""
    return [line.split()[0] for line in DOC.splitlines() if line.startswith("    ")]


def imported(module: str) -> set[str]:
    used: set[str] = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "tony.core.steps":
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tony.core.steps."):
            used.add((node.module or "").removeprefix("tony.core.steps."))
    return used


def test_every_step_is_in_the_list() -> None:
    """A module that is not listed has no place between the others."""
    assert sorted(listed()) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def test_the_arrows_point_one_way() -> None:
    """Each step uses only what stands below it."""
    order = listed()
    upward = [(name, used) for name in order for used in imported(name) if order.index(used) <= order.index(name)]
    assert upward == []


def test_every_event_and_deadline_has_a_handler() -> None:
    """One that is added without would end the application master when it comes."""
    assert application._HANDLERS.keys() == set(EVENTS.values())
    assert deadlines._TASK_HANDLERS.keys() == TASK_DEADLINES
    assert deadlines._NAME_HANDLERS.keys() | deadlines._JOB_HANDLERS.keys() == set(DeadlineKind) - TASK_DEADLINES
