"""Tests of `tony.config.files.yaml_reader`: YAML as people mean it."""

from __future__ import annotations

from typing import Any

import pytest

from tony.config.files.yaml_reader import read_yaml
from tony.config.table.layers import Written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off", "off"),
        ("no", "no"),
        ("on", "on"),
        ("y", "y"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("=", "="),
        ('"12"', "12"),
        ("'true'", "true"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("12", Written(12, "12")),
        ("-3", Written(-3, "-3")),
        ("1.10", Written(1.1, "1.10")),
        ("1e-3", Written(0.001, "1e-3")),
        ("1.", Written(1.0, "1.")),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, expected: Any) -> None:
    """The core schema of YAML 1.2; numbers keep the text they were written as."""
    values, _ = read_yaml(f"a: {text}")
    assert {"a": expected} == values


def test_merge_keys_and_aliases_are_understood() -> None:
    """Shared parts are written once; what stands in the table itself wins."""
    shared = "base: &b {memory: 1g, env: {A: x}}\nmore: &m {memory: 2g, gpus: 1}\n"
    text = shared + "w:\n  memory: 3g\n  <<: [*b, *m]\nv: {<<: *b}\n"
    values, lines = read_yaml(text)
    assert {"memory": "3g", "env": {"A": "x"}, "gpus": Written(1, "1")} == values["w"]
    assert {"memory": "1g", "env": {"A": "x"}} == values["v"]
    assert (4, 1, 2) == (lines["w", "memory"], lines["w", "env"], lines["w", "gpus"])


def test_keys_are_always_text() -> None:
    """`on`, `1` and `null` are names like others."""
    assert {"on", "1", "null", "1.5"} == set(read_yaml("on: a\n1: b\nnull: c\n1.5: d")[0])
