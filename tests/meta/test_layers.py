"""Imports between packages go one way, and no other module names a scheduler."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest

import tony
from tests.meta.sources import PACKAGE, find_nodes, parse_modules
from tony.schedulers.registry import list_built_in_names

BELOW_MODEL = {
    *("errors", "units", "clock", "retry", "address", "control_characters", "isolated_interpreter", "name_suggestions"),
}
BASE = BELOW_MODEL | {"model", "linux"}
PURE = BASE | {"core", "frameworks", "protocol", "config"}
MIDDLE = PURE | {"schedulers", "storage", "rpc"}
#: Package or top-level module -> those that it may import, besides itself.
ALLOWED: dict[str, set[str]] = {
    **{name: set() for name in BELOW_MODEL},
    "name_suggestions": {"units"},
    "model": BELOW_MODEL,
    "linux": BELOW_MODEL,
    "python_hooks": {"reporting"},  # as programs see it: a part of their own `tony`
    "hadoop": {"errors", "units", "retry", "address"},
    "core": BELOW_MODEL | {"model"},
    "frameworks": BELOW_MODEL | {"model"},
    "protocol": BELOW_MODEL | {"model"},
    "config": PURE | {"schedulers", "hadoop"},
    "rpc": PURE,
    "storage": PURE | {"hadoop", "mini"},
    "schedulers": PURE | {"storage", "rpc", "hadoop"},
    "history": MIDDLE,
    "am": MIDDLE | {"history"},
    "executor": MIDDLE,
    "jobs": MIDDLE | {"history"},
    "advice": MIDDLE | {"history", "jobs"},
    "client": MIDDLE | {"history", "jobs"},
    "web": MIDDLE | {"history", "jobs", "advice"},
    "portal": MIDDLE | {"history", "jobs", "advice", "web"},
    "mini": BASE,
    "cli": MIDDLE | {"history", "jobs", "advice", "client", "portal", "mini"},
    "__main__": {"cli"},
    "testing": BASE | {"core", "protocol", "schedulers"},
}
#: `config` may ask a scheduler for its table of settings, by name, and nothing else of it; it reads XML as Hadoop does.
#: Files in HDFS may ask whether a small cluster runs.
ONLY = {
    ("config", "hadoop"): {"tony.hadoop.configuration", "tony.hadoop.configuration.settings"},
    ("config", "schedulers"): {"tony.schedulers.settings_schema", "tony.schedulers.registry", "tony.schedulers"},
    ("storage", "mini"): {"tony.mini"},
}
#: Packages of the checkout that are not in the wheel.
OUTSIDE = {"tests", "bench"}
#: No I/O, no clock, no randomness where decisions are made.
IMPURE = {"asyncio", "time", "random", "os", "socket", "subprocess", "threading", "logging", "pathlib", "secrets"}
PURE_PACKAGES = ("core", "frameworks", "protocol")
#: Where plug-ins are looked up: the one place of a pure package that may.
LOOKUPS = {"frameworks/registry.py"}
SCHEDULERS = "|".join(list_built_in_names())
#: Modules and packages that may name a scheduler, and why.
NAMES_SCHEDULERS = {
    "schedulers/registry.py": "the line",
    "cli/startup.py": "forks an AM on this machine before anything else is loaded",
    "cli/commands/mini.py": "shows how to use the cluster that it starts",
    "config/legacy": "LinkedIn TonY has YARN only",
    "model/job_spec.py": "the default",
    "storage/hdfs/hdfs_clients.py": "jobs of every scheduler name Hadoop's configuration in `scheduler.yarn.conf`",
}
#: YARN and its properties as parts of Hadoop, and a scheme of file systems called `local`.
OTHER_MEANINGS = ("hadoop/", "mini/", "portal/histories/history_locations.py")
#: A word of its own, a setting, or an option.
NAMED = re.compile(rf"{SCHEDULERS}|.*(\bscheduler\.|--scheduler )({SCHEDULERS})\b.*", re.DOTALL)


@cache
def _list_imports() -> list[tuple[str, str]]:
    """Return path and imported module, also inside functions and type-checking blocks."""
    assert [path for path, node in find_nodes(ast.ImportFrom) if node.level] == [], "relative imports"
    found = [(path, alias.name) for path, node in find_nodes(ast.Import) for alias in node.names]
    for path, node in find_nodes(ast.ImportFrom):
        names = [f"tony.{alias.name}" for alias in node.names] if node.module == "tony" else [node.module or ""]
        found += [(path, name) for name in names]
    return found


def _get_package(path: str) -> str:
    return path.partition("/")[0].removesuffix(".py")


def _is_forbidden(path: str, module: str) -> bool:
    if module.partition(".")[0] in OUTSIDE:
        return True
    if not module.startswith("tony.") or module == "tony.__version__" or path == "__init__.py":
        return False
    package, target = _get_package(path), module.split(".")[1]
    only = ONLY.get((package, target))
    return target not in ALLOWED[package] | {package} or (only is not None and module not in only)


def test_a_module_imports_only_packages_below_its_own() -> None:
    wrong = [f"{path} must not import {module}" for path, module in _list_imports() if _is_forbidden(path, module)]
    assert wrong == []


def test_deciding_does_no_io() -> None:
    """Core, frameworks and protocol know no clock, no file, no socket and no randomness."""
    wrong = [
        f"{path} must not import {module}"
        for path, module in _list_imports()
        if _get_package(path) in PURE_PACKAGES and path not in LOOKUPS and module.split(".")[0] in IMPURE
    ]
    assert wrong == []


def test_schedulers_never_import_each_other() -> None:
    """What two of them need lies beside them."""
    pattern = re.compile(rf"schedulers/({SCHEDULERS})/.* tony\.schedulers\.(?!\1\b)({SCHEDULERS})\b")
    assert [each for pair in _list_imports() if pattern.match(each := " ".join(pair))] == []


def test_no_other_module_names_a_scheduler() -> None:
    """A scheduler is one package and one line. Those that may name one are few, and each does."""
    found = list(_list_scheduler_names())
    allowed = {name for name in NAMES_SCHEDULERS for path, _ in found if path == name or path.startswith(f"{name}/")}
    assert allowed == set(NAMES_SCHEDULERS)
    assert [(path, name) for path, name in found if not path.startswith(tuple(NAMES_SCHEDULERS))] == []


def _list_scheduler_names() -> Iterator[tuple[str, str]]:
    """Yield path and mention of a scheduler in code; docstrings may name them."""
    for path, tree in parse_modules().items():
        if re.match(rf"schedulers/({SCHEDULERS})/", path) or path.startswith(OTHER_MEANINGS):
            continue
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                yield from ((path, each) for each in imported if re.match(rf"tony\.schedulers\.({SCHEDULERS})\b", each))
            elif isinstance(node, ast.Constant) and id(node) not in prose and NAMED.fullmatch(str(node.value)):
                yield path, str(node.value)


@pytest.mark.parametrize("module", ["tony.executor.main", "tony.am.main", "tony.schedulers.local.allocator"])
def test_code_in_containers_needs_only_the_standard_library(module: str) -> None:
    """Executor and application master import with site-packages switched off."""
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import {module}; "
        "print([m for m in sys.modules if 'site-packages' in (getattr(sys.modules[m], '__file__', None) or '')])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_public_names_exist() -> None:
    """Everything in `tony.__all__` can be imported, and nothing else is public."""
    assert sorted(tony.__all__) == [*dir(tony)]
    for name in tony.__all__:
        assert getattr(tony, name) is not None
