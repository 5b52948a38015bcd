"""What docs/contributing/ asks of an addition and nothing else would notice if it were forgotten."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import tony
from tony.core import actions
from tony.schedulers.registry import load, names, package_of

PACKAGE = Path(tony.__file__).parent
ROOT = PACKAGE.parents[1]
ACTIONS = [cls for cls in vars(actions).values() if isinstance(cls, type) and issubclass(cls, actions.Action)]


@pytest.mark.parametrize("action", [cls.__name__ for cls in ACTIONS if cls.kind])
def test_every_action_is_performed(action: str) -> None:
    """A `match` without its case would pass over it without a word."""
    assert re.search(rf"\bact\.{action}\b", (PACKAGE / "am" / "master.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", names())
def test_a_scheduler_is_complete(name: str) -> None:
    """Its settings, the suite that it passes, its golden request, its page."""
    assert name == load(name).name
    import_module(f"{package_of(name)}.settings")
    for path in (f"tests/conformance/test_{name}.py", f"docs/{name}.md"):
        assert (ROOT / path).is_file(), path
    golden = ROOT / "tests" / "golden" / "schedulers"
    assert (golden / f"{name}.json").is_file() or list((golden / name).glob("*.json")), name


@pytest.mark.parametrize("name", names())
def test_schedulers_never_import_each_other(name: str) -> None:
    """What two of them need lies beside them."""
    others = {package_of(other) for other in names()} - {package_of(name)}
    for path in (PACKAGE.parent / package_of(name).replace(".", "/")).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            used = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            used += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [module for module in used for other in others if f"{module}.".startswith(f"{other}.")], path
