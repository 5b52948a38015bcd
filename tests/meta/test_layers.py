"""Imports between packages go one way, and no other module names a scheduler."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter

import pytest

import tony
from tests.meta.sources import PACKAGE, find_nodes, parse_modules
from tony.schedulers.registry import list_built_in_names

#: Top-level modules that any package may import, and what they import themselves.
BELOW: dict[str, set[str]] = {
    **{name: set() for name in ("errors", "units", "clock", "retry", "address", "control_characters")},
    "isolated_interpreter": set(),
    "name_suggestions": {"units"},
    "http_requests": {"errors", "retry"},
}
#: Package -> the packages that it imports: exactly these. Before an arrow is added, see whether the fact belongs lower.
ARROWS: dict[str, set[str]] = {
    "model": set(),
    "linux": set(),
    "hadoop": set(),
    "kube": set(),
    "oci": set(),
    "python_hooks": set(),
    "protocol": {"model"},
    "diagnosis": {"model"},
    "core": {"diagnosis", "model"},
    "frameworks": {"model"},
    "rpc": {"linux", "protocol"},
    "mini": {"kube", "linux", "model"},
    "history": {"core", "linux", "model"},
    "storage": {"hadoop", "linux", "mini", "model"},
    "schedulers": {"core", "hadoop", "kube", "linux", "model", "oci", "protocol", "rpc", "storage"},
    "testing": {"core", "model", "protocol", "schedulers"},
    "config": {"frameworks", "hadoop", "linux", "model", "schedulers"},
    "executor": {"diagnosis", "frameworks", "linux", "model", "protocol", "rpc", "schedulers", "storage"},
    "am": {"config", "core", "diagnosis", "frameworks", "history", "linux", "model", "protocol", "rpc", "schedulers"},
    "jobs": {"config", "core", "history", "linux", "model", "protocol", "rpc", "schedulers", "storage"},
    "advice": {"config", "core", "history", "jobs", "model"},
    "client": {
        *("config", "frameworks", "history", "jobs", "linux", "model", "protocol", "rpc", "schedulers", "storage"),
    },
    "web": {"advice", "config", "core", "history", "jobs", "linux", "model", "protocol"},
    "portal": {"config", "core", "history", "jobs", "linux", "model", "schedulers", "storage", "web"},
    "cli": {
        *(
            "advice",
            "client",
            "config",
            "core",
            "diagnosis",
            "frameworks",
            "history",
            "jobs",
            "linux",
            "mini",
            "model",
            "portal",
        ),
        *("protocol", "schedulers", "storage"),
    },
}
#: Code in a task, for which `tony` is this folder.
TASK_LIBRARY = "python_hooks/library/"
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
PURE_PACKAGES = ("core", "diagnosis", "frameworks", "protocol")
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
        found += [(path, _resolve(node.module or "", alias.name)) for alias in node.names]
    return list(dict.fromkeys(found))


def _resolve(module: str, name: str) -> str:
    """Return the module that `from module import name` loads."""
    path = f"{module}.{name}".removeprefix("tony.").replace(".", "/")
    is_module = module == "tony" or f"{path}.py" in parse_modules() or f"{path}/__init__.py" in parse_modules()
    return f"{module}.{name}" if is_module else module


def _get_package(path: str) -> str:
    return path.partition("/")[0].removesuffix(".py")


def _list_arrows() -> set[tuple[str, str]]:
    """Return package or top-level module, and another one that it imports."""
    found = {
        (_get_package(path), module.split(".")[1])
        for path, module in _list_imports()
        if module.startswith("tony.") and not path.startswith(TASK_LIBRARY) and path != "__init__.py"
    }
    return {(package, target) for package, target in found if target not in {package, "__version__"}}


def test_packages_import_each_other_as_in_the_table() -> None:
    used = {(package, target) for package, target in _list_arrows() if target not in BELOW and package in ARROWS}
    assert used == {(package, target) for package, targets in ARROWS.items() for target in targets}


def test_no_cycle_of_packages() -> None:
    TopologicalSorter(ARROWS).prepare()


def test_top_level_modules_import_no_package() -> None:
    used = {arrow for arrow in _list_arrows() if arrow[0] not in ARROWS}
    assert used == {("__main__", "cli"), *((name, target) for name, targets in BELOW.items() for target in targets)}


def test_only_named_modules_are_imported_from_some_packages() -> None:
    wrong = [
        f"{path} must not import {module}"
        for path, module in _list_imports()
        if module.startswith("tony.")
        and (only := ONLY.get((_get_package(path), module.split(".")[1]))) is not None
        and module not in only
    ]
    assert wrong == []


def test_the_package_imports_nothing_of_the_checkout() -> None:
    assert [each for each in _list_imports() if each[1].partition(".")[0] in OUTSIDE] == []


@pytest.mark.parametrize("package", ARROWS)
def test_no_cycle_in_a_package(package: str) -> None:
    """Its sub-packages, each as a whole, and the modules next to them."""
    graph: dict[str, set[str]] = {}
    for path, module in _list_imports():
        if path.startswith(f"{package}/") and module.startswith(f"tony.{package}."):
            part, target = path.split("/")[1].removesuffix(".py"), module.split(".")[2]
            graph.setdefault(part, set()).update({target} - {part})
    TopologicalSorter(graph).prepare()


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
