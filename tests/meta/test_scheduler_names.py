"""A scheduler is one package and one line: no other module names one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tony
from tony.schedulers.registry import list_built_in_names

PACKAGE = Path(tony.__file__).parent
NAMES = "|".join(list_built_in_names())
#: Modules and packages that may, and why.
ALLOWED = {
    "schedulers/registry.py": "the line",
    "cli/startup.py": "forks an AM on this machine before anything else is loaded",
    "cli/commands/mini.py": "shows how to use the cluster that it starts",
    "config/legacy": "LinkedIn TonY has YARN only",
    "model/job_spec.py": "the default",
    "storage/hdfs/hdfs_discovery.py": "jobs of every scheduler name Hadoop's configuration in `scheduler.yarn.conf`",
}
#: YARN and its properties as parts of Hadoop, and a scheme of file systems called `local`.
OTHER_MEANINGS = ("hadoop/", "mini/", "portal/histories/history_location.py")
#: A word of its own, a setting, or an option.
NAMED = re.compile(rf"{NAMES}|.*(\bscheduler\.|--scheduler )({NAMES})\b.*", re.DOTALL)


def _modules() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).as_posix()
        if not own.startswith((*(f"schedulers/{name}/" for name in list_built_in_names()), *OTHER_MEANINGS)):
            yield path


def _named(path: Path) -> Iterator[str]:
    """Every mention of a scheduler in the code of a module; its docstrings may say what they like."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            yield from (each for each in imported if re.match(rf"tony\.schedulers\.({NAMES})\b", each))
        elif isinstance(node, ast.Constant) and id(node) not in prose and NAMED.fullmatch(str(node.value)):
            yield str(node.value)


def _is_allowed(path: Path) -> bool:
    own = path.relative_to(PACKAGE).as_posix()
    return any(own == name or own.startswith(f"{name}/") for name in ALLOWED)


def test_no_other_module_names_a_scheduler() -> None:
    """Those that may are few, and each does."""
    wrong = [f"{path}: {name}" for path in _modules() if not _is_allowed(path) for name in _named(path)]
    assert wrong == []


def test_those_that_may_do() -> None:
    assert len(ALLOWED) <= 6
    for name in ALLOWED:
        place = PACKAGE / name
        assert any(list(_named(path)) for path in (place.rglob("*.py") if place.is_dir() else [place])), name
