"""`tony init`: files that are valid, and none that is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tony
from tony.cli.starter_jobs import STARTER_JOBS
from tony.config.load import load
from tony.frameworks.registry import names


@pytest.mark.parametrize("framework", STARTER_JOBS)
def test_a_job_of_each_framework(tony: Tony, tmp_path: Path, framework: str) -> None:
    """In a new folder; the next command is the last line."""
    folder = tmp_path / "my job"
    answer = tony("init", str(folder), "--framework", framework)
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[-1] == f"Next: tony submit '{folder}/job.toml'"
    resolved = load(folder / "job.toml", environ={}, site_files=())
    assert (resolved.spec.framework, resolved.spec.name) == (framework, "my job")
    assert (len(resolved.spec.task_ids), resolved.notices) == (2, ())
    compile((folder / "train.py").read_text(), "train.py", "exec")


def test_frameworks_exist() -> None:
    assert set(STARTER_JOBS) <= set(names())


@pytest.mark.parametrize("name", ["job.toml", "train.py"])
def test_nothing_is_overwritten(tony: Tony, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one of the two files written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("mine")
    answer = tony("init")
    assert (answer.code, answer.out) == (2, "")
    assert name in answer.err
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_missing_module_is_named(tony: Tony, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    answer = tony("init", str(tmp_path), "--framework", "jax")
    assert answer.code == 0
    assert "no jax" in answer.err


def test_an_unknown_framework(tony: Tony, tmp_path: Path) -> None:
    answer = tony("init", str(tmp_path), "--framework", "pytorhc")
    assert answer.code == 2
    assert "did you mean 'pytorch'?" in answer.err
