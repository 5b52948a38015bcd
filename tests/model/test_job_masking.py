"""Tests of `tony.model.masking`: secret values in settings, commands and the job directory are masked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.config.jobs import resolve
from tony.config.load import Resolved
from tony.config.resolved_table import list_resolved_rows
from tony.errors import ConfigError
from tony.history.event_log import settings_digest
from tony.model.job_spec import JobSpec, Role
from tony.model.masking import build_mask, mask_secret, redact


@pytest.mark.parametrize(
    ("expected", "name", "value"),
    [
        ("***", "HF_TOKEN", "hf_123"),
        ("http://me:***@host/x", "http_proxy", "http://me:word@host/x"),
        ("http://host:80/x", "http_proxy", "http://host:80/x"),
        ("a:b@c", "PLAIN", "a:b@c"),
    ],
)
def test_a_value_is_masked(expected: str, name: str, value: str) -> None:
    assert expected == mask_secret(name, value)


def test_a_record_is_redacted_everywhere() -> None:
    """Variables of the job and of its roles, parameters, settings of the scheduler; the job itself is not changed."""
    spec = JobSpec(
        env={"HF_TOKEN": "a", "A": "1"},
        params={"api_key": "b", "lr": "0.1"},
        roles={"w": Role(env={"PASSWORD": "c", "URL": "https://u:p@h"})},
        scheduler_settings={"token": "d", "gpus": 2, "template": {"env": [{"name": "SECRET", "value": "hush-hush"}]}},
    )
    redacted = redact(spec)
    assert {"HF_TOKEN": "***", "A": "1"} == redacted.env
    assert {"api_key": "***", "lr": "0.1"} == redacted.params
    assert {"PASSWORD": "***", "URL": "https://u:***@h"} == redacted.roles["w"].env
    template = {"env": [{"name": "SECRET", "value": "***"}]}
    assert {"token": "***", "gpus": 2, "template": template} == redacted.scheduler_settings
    assert build_mask(spec).hide_text("hush-hush") == "*********"
    assert "a" == spec.env["HF_TOKEN"]


TABLES: Sequence[tuple[dict[str, Any], dict[str, Any]]] = (
    ({"annotations": {"api_token": "hush-hush"}}, {"annotations": {"api_token": "***"}}),
    ({"volumeAttributes": {"password": "hush-hush"}}, {"volumeAttributes": {"password": "***"}}),
    ({"args": ["--api-token=hush-hush", "-v"]}, {"args": ["--api-token=***", "-v"]}),
    ({"args": ["--token", "hush-hush", "train"]}, {"args": ["--token", "***", "train"]}),
    ({"args": ["http://me:hush-hush@host"]}, {"args": ["http://me:***@host"]}),
    ({"env": [{"name": "A_TOKEN", "value": "hush-hush"}]}, {"env": [{"name": "A_TOKEN", "value": "***"}]}),
)


@pytest.mark.parametrize(("table", "shown"), TABLES)
def test_a_secret_in_a_table_of_the_scheduler_is_masked(table: dict[str, Any], shown: dict[str, Any]) -> None:
    """It is masked where the table is shown, and in other text."""
    job = JobSpec(scheduler_settings={"template": {"spec": [table]}})
    assert redact(job).scheduler_settings == {"template": {"spec": [shown]}}
    role = JobSpec(roles={"w": Role(scheduler_settings={"kubernetes": {"template": table}})})
    assert redact(role).roles["w"].scheduler_settings == {"kubernetes": {"template": shown}}
    for spec in (job, role):
        assert build_mask(spec).hide_text("a hush-hush") == "a *********"
        assert redact(redact(spec)) == redact(spec)


@pytest.mark.parametrize(
    "table",
    [
        {"secretName": "my-secret", "claimName": "my-claim", "secretProviderClass": "my-vault"},
        {"secretKeyRef": {"name": "my-secret", "key": "my-token"}},
        {"topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["pod-template-hash"]},
        {"tolerations": [{"key": "dedicated-key", "value": "ml-team", "operator": "Equal"}]},
        {"/keys": "secret:my-keys"},
        {"args": ["--token-file=/var/run/my-token", "--tokenizer", "gpt-2-large"]},
        {"args": ["--token", "--verbose", "gpt-2-large"]},
    ],
)
def test_a_name_in_a_table_of_the_scheduler_is_shown(table: dict[str, Any]) -> None:
    spec = JobSpec(scheduler_settings={"template": table})
    assert redact(spec) == spec
    assert not build_mask(spec)


NAMED = """
command = ["train", "--token", "abc-def-ghi", "--license=4711-0815"]
secret = ["LICENSE"]
[env]
HF_TOKEN = "abc-def-ghi"
LICENSE = "4711-0815"
ARGUMENTS = "-l 4711-0815"
"""


def test_secrets_that_a_job_names(tmp_path: Path) -> None:
    """They are masked wherever the job is shown, in commands and other variables, too; the digest stays the same."""
    spec = resolve(tmp_path, NAMED).spec
    redacted = redact(spec)
    assert redacted.env == {"HF_TOKEN": "***", "LICENSE": "***", "ARGUMENTS": "-l *********"}
    assert redacted.command == ("train", "--token", "***********", "--license=*********")
    assert redact(redacted) == redacted
    assert settings_digest(redacted) == settings_digest(spec)
    rows = " ".join(row.value for row in list_resolved_rows(Resolved(spec=spec, sources={})))
    assert "4711" not in rows
    assert "abc-def" not in rows


def test_errors_near_a_secret_do_not_quote_it(tmp_path: Path) -> None:
    """The value of a variable that the job names is in no message."""
    with pytest.raises(ConfigError) as caught:
        resolve(tmp_path, 'command = "x"\nsecret = ["LICENSE", "A=b"]\n[env]\nLICENSE = ["4711-0815"]\n')
    text = str(caught.value)
    assert "4711" not in text
    assert "secret[1]" in text
    assert "name of a variable or parameter" in text


def test_a_named_secret_is_no_variable_of_containers(tmp_path: Path) -> None:
    """Nodes write those into files that many can read."""
    with pytest.raises(ConfigError, match="this is a secret"):
        resolve(tmp_path, 'command = "x"\nsecret = ["LICENSE"]\n[container_env]\nLICENSE = "4711-0815"\n')
