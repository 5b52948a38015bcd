"""Tests of `tony.config.table.settings_table`, `schema` and `table`: one table, and nothing beside it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.facts import mentions
from tony.config.settings_doc import settings_rows, settings_table_markdown
from tony.config.table.schema_tree import find, settings
from tony.config.table.settings_table import SETTINGS, Kind, Setting
from tony.config.table.value_conversion import convert
from tony.config.table.value_format import format_canonical
from tony.model.job_spec import JobSpec, MemoryGrowth, Notify, Resources, Role, Timeouts

#: Fields that are tables of their own: their parts are in the table, not they.
ASSEMBLED = {
    "env",
    "container_env",
    "exports",
    "memory_on_oom",
    "diagnosis_rules",
    "params",
    "groups",
    "notify",
    "roles",
    "timeouts",
    "scheduler_settings",
    "after",
    "min_instances",
    "timeout_after",
    "resources",
    "others",
}


def _names(cls: type[JobSpec | Role | Resources | Timeouts | Notify | MemoryGrowth], prefix: str = "") -> set[str]:
    return {f"{prefix}{field.name}" for field in dataclasses.fields(cls) if field.name not in ASSEMBLED}


def test_every_field_of_a_job_can_be_set() -> None:
    """No field without a key, no key without a field."""
    job = {setting.attribute for setting in SETTINGS if setting.attribute and setting.path[0] != "roles"}
    role = {setting.attribute for setting in SETTINGS if setting.attribute and setting.path[0] == "roles"}
    nested = _names(Timeouts, "timeouts.") | _names(Notify, "notify.") | _names(MemoryGrowth, "memory_on_oom.")
    assert _names(JobSpec) | nested == job
    assert _names(Role) | _names(Resources, "resources.") == role


def test_keys_are_unique_and_are_found_by_their_own_name() -> None:
    keys = [setting.key for setting in settings()]
    assert len(set(keys)) == len(keys)
    for setting in settings():
        node = find(tuple("*" if part.startswith("<") else part for part in setting.path))
        assert node is not None
        assert setting is node.setting


@pytest.mark.parametrize(
    "setting", [s for s in SETTINGS if s.default is not None], ids=lambda setting: str(setting.key)
)
def test_a_default_as_it_is_shown_is_read_as_the_default(setting: Setting) -> None:
    """What the docs say may be copied into a job file."""
    text = format_canonical(setting, setting.default)
    raw: object = text.strip('"')
    if setting.kind in (Kind.INTEGER, Kind.TRUTH):
        raw = {"false": False, "true": True}.get(text, int(text) if text.isdigit() else text)
    if setting.kind is Kind.NUMBER:
        raw = float(text)
    if setting.kind in (Kind.FILES, Kind.TAGS, Kind.CODES):
        raw = json.loads(text)
    assert setting.default == convert(setting, raw, Path("/"))


def test_aliases_shadow_no_key() -> None:
    """A hint that names another word for a key must not shadow a real one beside it."""
    beside = {setting.path[-1] for setting in SETTINGS if len(setting.path) == 1}
    assert not [s.key for s in SETTINGS if len(s.path) == 1 and beside & set(s.also)]


def test_the_table_has_name_type_unit_default_and_meaning() -> None:
    rows = {row.name: row for row in settings_rows()}
    memory, kind, limit = rows["roles.<role>.memory"], rows["roles.<role>.kind"], rows["job_timeout"]
    assert ("size", "b k m g t", '"1g"', "scheduler") == (memory.type, memory.unit, memory.default, memory.reader)
    assert 'one of "tracked", "untracked", "sidecar", "setup"' == kind.type
    assert ("duration or off", '"off"') == (limit.type, limit.default)
    assert mentions(rows["limits.total_gpus"].meaning, "GPUs")
    assert all(row.meaning.endswith(".") for row in rows.values())
    assert "scheduler.local.gpus" in rows


def test_the_page_of_the_docs_has_every_setting() -> None:
    page = settings_table_markdown()
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(settings_rows()) == len(lines)
    assert all(line.replace("\\|", "").count("|") == 5 for line in lines)
    assert mentions(page, "stop_grace", '"15s"')
    assert page.endswith("|\n")
