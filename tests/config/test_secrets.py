"""Tests of `tony.config.secrets`: what is nobody's business is shown to nobody."""

from __future__ import annotations

import pytest

from tony.config.secrets import is_secret, masked, redact
from tony.model.job import JobSpec, Role


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "db_password",
        "PASSWD",
        "api-key",
        "WANDB_API_KEY",
        "CREDENTIALS",
        "PassPhrase",
    ],
)
def test_names_that_speak_of_secrets(name: str) -> None:
    """The name is all we have to go by."""
    assert is_secret(name)


@pytest.mark.parametrize("name", ["PATH", "PWD", "OMP_NUM_THREADS", "lr", "HOME", ""])
def test_names_that_do_not(name: str) -> None:
    """Most values may be seen."""
    assert not is_secret(name)


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
    """Secrets wholly, addresses in part."""
    assert expected == masked(name, value)


def test_a_record_is_redacted_everywhere() -> None:
    """Variables of the job and of its roles, parameters, settings of the scheduler; the job itself is not changed."""
    spec = JobSpec(
        env={"HF_TOKEN": "a", "A": "1"},
        params={"api_key": "b", "lr": "0.1"},
        roles={"w": Role(env={"PASSWORD": "c", "URL": "https://u:p@h"})},
        scheduler_settings={"token": "d", "gpus": 2},
    )
    redacted = redact(spec)
    assert {"HF_TOKEN": "***", "A": "1"} == redacted.env
    assert {"api_key": "***", "lr": "0.1"} == redacted.params
    assert {"PASSWORD": "***", "URL": "https://u:***@h"} == redacted.roles["w"].env
    assert {"token": "***", "gpus": 2} == redacted.scheduler_settings
    assert "a" == spec.env["HF_TOKEN"]
