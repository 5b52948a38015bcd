"""Secrets that lie outside of the job file, and whether they are shown anywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts import mention_each
from tony.config.files.secret_references import resolve_reference, webhook_error
from tony.config.load import load
from tony.config.resolved_table import list_resolved_rows
from tony.errors import ConfigError
from tony.history.event_log import settings_digest
from tony.model.job_spec import JobSpec, Notify
from tony.model.masking import mask_value, redact

HOOK = "https://hooks.example.com/services/T0/XYZZY"
JOB = """command = "true"
[notify]
webhook = "env:HOOK"
secret = "file:key"
on = ["failed"]
"""


def job(folder: Path, text: str, environ: Mapping[str, str] = {}) -> JobSpec:
    (folder / "job.toml").write_text(text)
    return load(folder / "job.toml", environ=environ, cwd=folder, site_files=()).spec


def test_references_are_followed_at_submission(tmp_path: Path) -> None:
    """A file's path is relative to the job file; blanks around a secret are none of it."""
    (tmp_path / "key").write_text("  k3y\n")
    spec = job(tmp_path, JOB)
    assert spec.notify == Notify(webhook="env:HOOK", secret=f"file:{tmp_path}/key", on=("failed",))
    assert resolve_reference(spec, {"HOOK": HOOK}, {}).notify == Notify(webhook=HOOK, secret="k3y", on=("failed",))


def test_missing_secrets_are_reported(tmp_path: Path) -> None:
    """All at once, with the place where each was set, and without any part of a secret."""
    spec = job(tmp_path, JOB)
    with pytest.raises(ConfigError) as caught:
        resolve_reference(spec, {}, {"notify.webhook": "job.toml:3"})
    assert mention_each(
        [str(problem) for problem in caught.value.problems],
        ('notify.webhook = "env:HOOK" (job.toml:3)', "HOOK"),
        (f'notify.secret = "file:{tmp_path}/key"', "no such file"),
    )
    with pytest.raises(ConfigError, match="http or https") as caught:
        resolve_reference(replace(spec, notify=replace(spec.notify, secret=None)), {"HOOK": "ftp://XYZZY/"}, {})
    assert "XYZZY" not in str(caught.value)


@pytest.mark.timeout(60)
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Opening it would wait for a writer."""
    os.mkfifo(tmp_path / "key")
    spec = job(tmp_path, JOB)
    with pytest.raises(
        ConfigError, match=f"{tmp_path}/key is not a regular file. Name a regular file, or use env:NAME."
    ):
        resolve_reference(spec, {"HOOK": HOOK}, {})


@pytest.mark.parametrize(
    "error",
    [
        'webhook = "hooks.example.com/XYZZY"',
        'webhook = "https://a:XYZZY@hooks.example.com/"',
        'webhook = "https://hooks.example.com/XYZZY y"',
        'webhook = "https://hooks.example.com:99999/XYZZY"',
        'webhook = ["https://hooks.example.com/XYZZY"]',
        'webhook = "env:not-a-name"',
        'webhook = ""',
        'webhoook = "https://hooks.example.com/XYZZY"',
        'secret = "XYZZY"',
        'secret = 7\nwebhook = "https://hooks.example.com/XYZZY"',
        'on = ["failed"]',
        'on = ["fail"]\nwebhook = "https://hooks.example.com/XYZZY"',
    ],
    ids=lambda error: error.partition(" ")[0],
)
def test_errors_do_not_show_secrets(tmp_path: Path, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        job(tmp_path, f'command = "true"\n[notify]\n{error}\n')
    assert "XYZZY" not in str(caught.value)


def test_nothing_that_is_kept_or_shown_has_it() -> None:
    """The record, the table of values; the host of an address may be seen, and the digest is the same without."""
    spec = JobSpec(command="true", notify=Notify(webhook=HOOK, secret="k3y"))
    kept = redact(spec)
    assert kept.notify == Notify(webhook="https://hooks.example.com/***", secret="***")
    assert redact(kept) == kept
    assert settings_digest(kept) == settings_digest(spec) == settings_digest(JobSpec(command="true"))
    resolved = load(None, overrides=spec, environ={}, site_files=())
    rows = {row.key: row.value for row in list_resolved_rows(resolved)}
    assert rows["notify.webhook"] == '"https://hooks.example.com/***"'
    assert rows["notify.secret"] == '"***"'
    assert mask_value("not an address") == "***"
    assert mask_value("https://a.b:88?key=1") == "https://a.b:88/***"
    assert mask_value("https://a.b@c/") == "***"


@pytest.mark.parametrize("good", [HOOK, "http://127.0.0.1:80/a?b=c", "https://[::1]:8/", "http://h"])
def test_addresses(good: str) -> None:
    assert webhook_error(good) == ""
