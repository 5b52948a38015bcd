"""The original's end-to-end table on one machine: each job is converted, and its job file submitted."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from tests.e2e.lab import Lab
from tests.legacy_cases import CASES, SCRIPTS

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("name", CASES)
def test_case(lab: Lab, name: str) -> None:
    """A job file that was made from its settings and flags ends as the original's table says."""
    case = CASES[name]
    folder, out = lab.root / "project", lab.root / "out"
    for file, text in SCRIPTS.items():
        lab.file(f"src/{file}", text)
    with zipfile.ZipFile(folder / "venv.zip", "w") as archive:
        archive.writestr("123.xml", "<xml/>")
    out.mkdir()
    settings = {**case.conf, **_little_memory(case.conf)}
    words = [
        *("--src_dir", "src", "--shell_env", f"OUT={out}", "--shell_env", f"CASE={name}"),
        *(("--container_env", "SKIP_HADOOP_PATH=true") if case.skip else ()),
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        *case.flags,
    ]
    converted = lab.tony("convert", _empty(lab), *words, cwd=folder)
    assert converted.returncode == 0, converted.stderr
    (folder / "job.toml").write_text(converted.stdout)
    done = lab.tony("submit", folder / "job.toml")
    assert done.returncode == (1 if case.code else 0), done.stdout + done.stderr + converted.stdout
    if case.states:
        assert {task["task"]: task["state"] for task in lab.status("last")["tasks"]} == case.states


def _empty(lab: Lab) -> Path:
    return lab.file("tony.xml", "<configuration></configuration>")


def _little_memory(conf: object) -> dict[str, str]:
    found = re.findall(r"tony\.(\w+)\.instances", str(conf))
    return {f"tony.{name}.memory": "128" for name in found} or {"tony.am.memory": "128"}
