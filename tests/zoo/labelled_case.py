"""The labelled cases of the failure zoo: what each runs, and what its diagnosis should be."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.framework_envs import has_torch
from tony.model.diagnosis import FailureKind

CASES = Path(__file__).parent / "cases"
_KINDS = {kind.value for kind in FailureKind}
#: Weight of what a case needs: heavy cases run first.
_WEIGHTS = {"tensorflow": 8, "torch": 3, "jax": 4, "javac": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooCase:
    """One failing job and its labels, as `tests/zoo/README.md` describes them.

    Attributes:
        file: stem of the file that has it.
        classes: accepted kinds; the first one is the label.
        root: the root task; empty if it is no single one; None if it is not judged.
        line: part of the decisive line; empty if no line shows it; None if it is not judged.
        retry: the same job may succeed the next time; None if it is not judged.
        reason_wrong: why the diagnosis is known to be wrong; empty if it should be right.
        yarn: it is one of those that run on YARN as well.
        master, executor: modules of tests/support that run in place of tony's, with their arguments.
    """

    name: str
    file: str
    classes: tuple[str, ...]
    root: str | None = None
    line: str | None = None
    retry: bool | None = None
    reason_wrong: str = ""
    yarn: bool = False
    command: str | Sequence[str] = "python3 main.py"
    program: str = ""
    tasks: int = 1
    framework: str = "none"
    memory: str = "1g"
    job: str = ""
    role: str = ""
    roles: str = ""
    needs: str = ""
    prepare: str = ""
    when_up: str = ""
    master: Sequence[str] = ()
    executor: Sequence[str] = ()
    note: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Return how much work the case is, compared with others."""
        return self.tasks * _WEIGHTS.get(self.needs, 1)


def load_cases(folder: Path = CASES) -> list[ZooCase]:
    """Return the cases of all files in a folder; names are unique."""
    found = [_build_case(row, path.stem) for path in sorted(folder.glob("*.toml")) for row in _read_file(path)["case"]]
    names = [case.name for case in found]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"names of more than one case: {sorted(doubled)}")
    return found


def _read_file(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def _build_case(row: dict[str, Any], file: str) -> ZooCase:
    classes = row.pop("class")
    case = ZooCase(file=file, classes=(classes,) if isinstance(classes, str) else tuple(classes), **row)
    if unknown := set(case.classes) - _KINDS:
        raise ValueError(f"{case.name}: no kinds of failure: {sorted(unknown)}")
    return case


@functools.cache
def is_possible(need: str) -> bool:
    """Return True if this machine has what a case needs; a name without a rule is a program on PATH."""
    if need in ("tensorflow", "jax"):
        return find_spec(need) is not None
    match need:
        case "":
            return True
        case "torch":
            return has_torch()
        case "root":
            return os.geteuid() == 0
        case "mount":
            command = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
            return sys.platform == "linux" and subprocess.run(command, capture_output=True, check=False).returncode == 0
    return shutil.which(need) is not None
