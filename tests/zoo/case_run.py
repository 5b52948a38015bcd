"""Run one case of the failure zoo as a user does: `tony submit`, then `tony why --json`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.child_modules import JobModules, module_words
from tests.zoo.labelled_case import ZooCase

#: Variables that a client's machine and the nodes of a small cluster share only because a job says so.
_SENT = ("OUT", "PATH", "OMP_NUM_THREADS")
#: Seconds that a job may take; the slowest takes a tenth of it on an idle machine.
_TIMEOUT_SECONDS = 170.0
_BIN = Path(sys.executable).parent
_PROGRAM = "main.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What `tony why` answered for a case.

    Attributes:
        answer: its JSON; None if nothing failed, or it could not be asked.
        problem: why there is no answer; else empty.
    """

    case: ZooCase
    answer: dict[str, Any] | None
    seconds: float
    problem: str = ""

    @property
    def kind(self) -> str:
        return str(self.answer["class"]) if self.answer else ""

    @property
    def root(self) -> str:
        return (self.answer or {}).get("root_task") or ""

    @property
    def line(self) -> str:
        evidence = (self.answer or {}).get("evidence") or []
        return str(evidence[0]["text"]) if evidence else ""

    @property
    def is_kind_right(self) -> bool:
        return self.kind in self.case.classes

    @property
    def is_root_right(self) -> bool | None:
        return None if self.case.root is None else self.answer is not None and self.root == self.case.root

    @property
    def is_line_right(self) -> bool | None:
        if self.case.line is None:
            return None
        return self.case.line in self.line if self.case.line else not self.line

    @property
    def is_retry_right(self) -> bool | None:
        return None if self.case.retry is None else (self.answer or {}).get("retry") == self.case.retry

    def list_wrong(self) -> list[str]:
        """Return what of the diagnosis is wrong, one sentence each."""
        if self.problem or not self.answer:
            return [self.problem or "no failure was reported"]
        case = self.case
        wrong = []
        if not self.is_kind_right:
            wrong.append(f"class {self.kind}, not {' or '.join(case.classes)}")
        if self.is_root_right is False:
            wrong.append(f"root task {self.root or 'none'}, not {case.root or 'none'}")
        if self.is_line_right is False:
            wrong.append(f"line {self.line!r}, not {case.line!r}")
        if self.is_retry_right is False:
            wrong.append(f"retry {self.answer['retry']}, not {case.retry}")
        return wrong


def run_case(case: ZooCase, keep: Path | None = None, hadoop_conf: Path | None = None) -> CaseResult:
    """Run a case in a folder of its own, which is removed.

    Args:
        keep: a folder that gets the case's folder instead.
        hadoop_conf: configuration of the cluster on which the job runs; None: it runs on this machine.
    """
    root = Path(tempfile.mkdtemp(prefix="tony-zoo-"))
    start = time.monotonic()
    env = _build_environment(root, case)
    if hadoop_conf:
        env |= {"HADOOP_CONF_DIR": str(hadoop_conf), "TONY_SET_SCHEDULER": "yarn"}
    try:
        return _run_in(root, case, env, start)
    except subprocess.SubprocessError as error:
        _tony(root, env, "kill", "last")
        return CaseResult(case=case, answer=None, seconds=time.monotonic() - start, problem=str(error))
    finally:
        if keep:
            shutil.copytree(root, keep / case.name, dirs_exist_ok=True, symlinks=True, ignore=_list_special_files)
        shutil.rmtree(root, ignore_errors=True)


def _list_special_files(folder: str, names: list[str]) -> list[str]:
    """Return those of a folder's entries that cannot be copied: sockets and pipes."""
    paths = [Path(folder, name) for name in names]
    return [path.name for path in paths if path.is_socket() or path.is_fifo()]


def _run_in(root: Path, case: ZooCase, env: dict[str, str], start: float) -> CaseResult:
    job = _write_project(root, case, env)
    submitted = threading.Event()
    visitor = threading.Thread(target=_act_when_up, args=(root, case, env, submitted))
    visitor.start()
    try:
        done = _tony(root, env, "submit", job, command=_build_command(case))
    finally:
        submitted.set()
        visitor.join()
    seconds = time.monotonic() - start
    asked = _tony(root, env, "why", "last", "--json")
    if asked.returncode != 0:
        return CaseResult(case=case, answer=None, seconds=seconds, problem=asked.stderr + done.stderr)
    return CaseResult(case=case, answer=json.loads(asked.stdout), seconds=seconds)


def _build_command(case: ZooCase) -> list[str]:
    """Return the argv of `tony`, with other modules in place of the AM's and the executor's if the case has any."""
    modules = {name: module_words(*words) for name in ("master", "executor") if (words := getattr(case, name))}
    return JobModules(**modules).tony_command() if modules else [str(_BIN / "tony")]


def _tony(
    root: Path, env: dict[str, str], *words: str | Path, command: Sequence[str] = (str(_BIN / "tony"),)
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *words],
        cwd=root,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )


def _build_environment(root: Path, case: ZooCase) -> dict[str, str]:
    first = "/usr/bin" if case.needs == "torch" else str(_BIN)  # of `python3`
    (root / "user").mkdir(exist_ok=True)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("TONY_")},
        "HOME": str(root / "user"),
        "XDG_CONFIG_HOME": str(root / "user" / ".config"),
        "TONY_HOME": str(root / "home"),
        "TONY_SET_SCHEDULER__LOCAL__LEDGER": str(root / "ledger"),
        "PATH": os.pathsep.join((first, os.environ["PATH"], str(_BIN))),
        "OUT": str(root / "out"),
        "OMP_NUM_THREADS": "1",
    }


def _write_project(root: Path, case: ZooCase, env: dict[str, str]) -> Path:
    project = root / "project"
    (root / "out").mkdir()
    for name, text in {_PROGRAM: case.program.lstrip("\n"), **case.files}.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if case.prepare:
        subprocess.run(["bash", "-ec", case.prepare], cwd=project, env=env, capture_output=True, check=True, timeout=60)
    job = project / "job.toml"
    job.write_text(_format_job(case, {name: env[name] for name in _SENT}))
    return job


def _format_job(case: ZooCase, variables: dict[str, str]) -> str:
    command = case.command if isinstance(case.command, str) else list(case.command)
    lines = [
        f'name = "{case.name}"',
        'source = "."',
        f"command = {json.dumps(command)}",
        f'framework = "{case.framework}"',
        'stop_grace = "1s"',
        *(f"env.{name} = {json.dumps(value)}" for name, value in variables.items()),
        case.job,
        "[roles.worker]",
        f"instances = {case.tasks}",
        f'memory = "{case.memory}"',
        case.role,
        case.roles,
    ]
    return "\n".join(lines)


def _act_when_up(root: Path, case: ZooCase, env: dict[str, str], submitted: threading.Event) -> None:
    """Run `when_up` of the case as soon as its program has written `$OUT/up`."""
    while case.when_up and not submitted.wait(0.05):
        if (root / "out" / "up").exists():
            subprocess.run(["bash", "-c", case.when_up], cwd=root, env=env, capture_output=True, check=False)
            return
