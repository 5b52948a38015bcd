"""Arrows point down: what each room of the house may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tony

PACKAGE = Path(tony.__file__).parent

#: Room -> the rooms it may import. A room may always import itself.
BELOW_MODEL = {"errors", "units", "clock", "retry", "address", "control_characters", "isolated_interpreter"}
BASE = BELOW_MODEL | {"model", "linux"}
PURE = BASE | {"core", "frameworks", "protocol", "config"}
MIDDLE = PURE | {"schedulers", "storage", "rpc"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "units": set(),
    "clock": set(),
    "retry": set(),
    "address": set(),
    "control_characters": set(),
    "isolated_interpreter": set(),
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
    "schedulers": PURE | {"storage", "rpc", "hadoop", "mini"},
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
#: Schedulers and files in HDFS may ask whether a small cluster runs.
ONLY = {
    ("config", "hadoop"): {"tony.hadoop.configuration", "tony.hadoop.configuration.value_parsing"},
    ("config", "schedulers"): {"tony.schedulers.settings_schema", "tony.schedulers.registry", "tony.schedulers"},
    ("schedulers", "mini"): {"tony.mini"},
    ("storage", "mini"): {"tony.mini"},
}
#: Packages of the checkout that are not in the wheel.
OUTSIDE = {"tests", "bench"}
#: No I/O, no clock, no randomness where decisions are made.
IMPURE = {"asyncio", "time", "random", "os", "socket", "subprocess", "threading", "logging", "pathlib", "secrets"}
PURE_ROOMS = ("core", "frameworks", "protocol")
#: Where plug-ins are looked up: the one place of a pure room that may.
LOOKUPS = {"frameworks/registry.py"}


def _modules() -> Iterator[Path]:
    return (path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py" or path.parent != PACKAGE)


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[str]:
    """Every module imported anywhere in a file, also inside functions; type-checking blocks count too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            if node.module == "tony":
                yield from (f"tony.{alias.name}" for alias in node.names)
            else:
                yield node.module


def _forbidden(room: str, module: str) -> bool:
    if module.partition(".")[0] in OUTSIDE:
        return True
    if not module.startswith("tony.") or module == "tony.__version__":
        return False
    target = module.split(".")[1]
    only = ONLY.get((room, target))
    return target not in ALLOWED[room] | {room} or (only is not None and module not in only)


def test_arrows_point_down() -> None:
    """A module imports only rooms below its own."""
    wrong = [
        f"{path.relative_to(PACKAGE)} must not import {module}"
        for path in _modules()
        for module in _imports(path)
        if _forbidden(_room(path), module)
    ]
    assert wrong == []


def test_deciding_does_no_io() -> None:
    """Core, frameworks and protocol know no clock, no file, no socket and no chance."""
    wrong = [
        f"{own} must not import {module}"
        for path in _modules()
        if _room(path) in PURE_ROOMS and (own := str(path.relative_to(PACKAGE))) not in LOOKUPS
        for module in _imports(path)
        if module.split(".")[0] in IMPURE
    ]
    assert wrong == []


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
