"""Any job, written as a job file and read again, is the same job; any text at all is a job or a list of errors."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.config.specs import as_tables, as_toml, jobs
from tony.config.files.site_policy import check_again
from tony.config.load import Resolved, load
from tony.config.resolved_table import list_resolved_rows
from tony.config.table.schema_tree import settings as known_settings
from tony.errors import ConfigError
from tony.model.codec import from_plain, to_plain
from tony.model.job_spec import JobSpec
from tony.model.masking import redact


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all the examples of a test."""
    return tmp_path_factory.mktemp("jobs")


def _load(folder: Path, text: str, name: str, **more: Any) -> Resolved:
    (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    return load(name, environ={}, cwd=folder, site_files=[], **more)


@given(spec=jobs())
def test_a_job_round_trips_through_toml(folder: Path, spec: JobSpec) -> None:
    assert spec == _load(folder, as_toml(spec), "job.toml").spec


@given(spec=jobs())
def test_a_job_round_trips_through_yaml(folder: Path, spec: JobSpec) -> None:
    assert spec == _load(folder, yaml.safe_dump(as_tables(spec)), "job.yaml").spec


@given(spec=jobs())
def test_a_jobspec_is_unchanged_by_the_checks(folder: Path, spec: JobSpec) -> None:
    """So are its record, its table and the check in the AM."""
    resolved = load(None, overrides=spec, environ={}, cwd=folder, site_files=[])
    assert spec == resolved.spec
    assert spec == from_plain(JobSpec, to_plain(resolved.spec))
    assert [] == check_again(spec, [])
    assert list_resolved_rows(resolved)
    redact(spec)


@given(spec=jobs())
def test_a_call_may_give_all_of_a_job_as_a_mapping(folder: Path, spec: JobSpec) -> None:
    assert spec == load(overrides=as_tables(spec), environ={}, cwd=folder, site_files=[]).spec


_parts = st.sampled_from(sorted({part.strip("<>") for setting in known_settings() for part in setting.path}))
_values = st.recursive(
    st.sampled_from(["1g", "10m", "off", "a", "chief", "gang", "20000-20010", "{params.x}", "main", "", "x::y"])
    | st.integers(-5, 10**6)
    | st.booleans()
    | st.floats()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_parts, inner, max_size=3),
    max_leaves=6,
)


@given(tables=st.recursive(_values, lambda inner: st.dictionaries(_parts, inner, max_size=5), max_leaves=20))
def test_known_keys_with_any_values_give_a_job_or_errors(folder: Path, tables: Any) -> None:
    """From a call, where values are of every type, and from a file."""
    given_tables = tables if isinstance(tables, dict) else {"command": tables}
    for _ in range(2):
        try:
            load(overrides=given_tables, environ={}, cwd=folder, site_files=[])
        except ConfigError as error:
            str(error).encode("utf-8", "surrogatepass")
    with contextlib.suppress(ConfigError):
        _load(folder, yaml.safe_dump(given_tables), "job.yaml")
