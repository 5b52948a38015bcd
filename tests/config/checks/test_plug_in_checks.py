"""Kinds of roles that the job leaves to its framework: a TensorFlow job with parameter servers ends with its chief."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.config.jobs import resolve
from tony.config.load import load
from tony.config.resolved_table import list_resolved_rows
from tony.model.job_spec import JobSpec, Role
from tony.model.setting_choices import RoleKind

ALL = ("chief", "worker", "ps", "evaluator")


def job_text(roles: Sequence[str], framework: str = "tensorflow", kinds: str = "") -> str:
    """A job of these roles; `kinds` is text below the last one."""
    tables = "".join(f"[roles.{role}]\n" for role in roles)
    return f'framework = "{framework}"\ncommand = "x"\n{tables}{kinds}'


def untracked(spec: JobSpec) -> list[str]:
    return [name for name, role in spec.roles.items() if role.kind is RoleKind.UNTRACKED]


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (ALL, ["worker", "ps"]),
        (("chief", "ps"), ["ps"]),
        (("worker", "ps"), ["ps"]),  # worker:0 is the chief, and the others train as it does
        (("chief", "worker", "evaluator"), []),
    ],
)
def test_tensorflow_does_not_wait_for_servers(tmp_path: Path, roles: Sequence[str], expected: list[str]) -> None:
    assert untracked(resolve(tmp_path, job_text(roles)).spec) == expected


@pytest.mark.parametrize("framework", ["none", "pytorch"])
def test_other_frameworks_wait_for_every_role(tmp_path: Path, framework: str) -> None:
    """A name alone says nothing there."""
    assert untracked(resolve(tmp_path, job_text(ALL, framework)).spec) == []


def test_an_explicit_kind_wins(tmp_path: Path) -> None:
    """Of the role that has one; the others keep the default."""
    job = resolve(tmp_path, job_text(("chief", "worker", "ps"), kinds='kind = "tracked"'))
    assert untracked(job.spec) == ["worker"]
    assert untracked(resolve(tmp_path, job_text(ALL), sets=["roles.worker.kind=tracked"]).spec) == ["ps"]


def test_a_kind_set_by_the_framework_has_its_source(tmp_path: Path) -> None:
    """In the note of `validate` and `submit`, and as the place of the value."""
    job = resolve(tmp_path, job_text(ALL))
    (note,) = map(str, job.notes)
    assert note.startswith('roles worker and ps: kind = "untracked" by default of framework "tensorflow": they serve')
    rows = {row.key: (row.value, row.source) for row in list_resolved_rows(job)}
    assert rows["roles.ps.kind"] == ('"untracked"', 'default of framework "tensorflow"')
    assert rows["roles.chief.kind"] == ('"tracked"', "default")


def test_a_job_spec_of_python_has_the_same_defaults() -> None:
    """A kind that it leaves at TRACKED is not set."""
    spec = JobSpec(framework="tensorflow", command="x", roles={"chief": Role(), "ps": Role()})
    assert untracked(load(None, overrides=spec, site_files=[]).spec) == ["ps"]
