"""Tests of `tony.hadoop.configuration`: what Hadoop's own class made of the same files.

`expected.json` was written by org.apache.hadoop.conf.Configuration of Hadoop 3.4.2, with HdfsConfiguration loaded, from
`first-site.xml` and `second-site.xml`, with SETX=sx and EMPTY= in the environment. null: it threw.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tony.hadoop.configuration import Configuration, ConfigurationError
from tony.hadoop.configuration.settings import parse_int

GOLDEN = Path(__file__).parent.parent / "golden/configuration"
EXPECTED: dict[str, dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text())


def _settings() -> Configuration:
    files = [GOLDEN / "first-site.xml", GOLDEN / "second-site.xml"]
    return Configuration.load(paths=files, environ={"SETX": "sx", "EMPTY": ""})


def _or_none(read: Any, key: str, **how: Any) -> Any:
    try:
        return read(key, **how)
    except ConfigurationError:
        return None


def _int_or_none(text: str) -> int | None:
    try:
        return parse_int(text)
    except ValueError:
        return None


def test_the_same_keys_are_set() -> None:
    """Includes, fallbacks, elements in odd places, properties without names or values."""
    assert set(EXPECTED) | {"many19"} == set(_settings())


@pytest.mark.parametrize("key", EXPECTED)
def test_a_value_is_expanded_as_hadoop_does(key: str) -> None:
    """Nested and unbound variables, loops, the limit of 20, the environment. Ours is trimmed, too."""
    expected = EXPECTED[key]["value"]
    assert (expected if expected is None else expected.strip()) == _or_none(_settings().get, key)


@pytest.mark.parametrize("key", [key for key in EXPECTED if EXPECTED[key]["value"] is not None])
def test_a_value_is_read_as_hadoop_does(key: str) -> None:
    """Whole numbers, times (milliseconds here if there is no unit), sizes, lists, truth; and what is none of them."""
    settings, expected = _settings(), EXPECTED[key]
    seconds = _or_none(settings.get_seconds, key, unit="ms")
    assert expected["int"] == _int_or_none(settings.get(key) or "")
    assert expected["bytes"] == _or_none(settings.get_size, key)
    assert expected["nanoseconds"] == (None if seconds is None else round(seconds * 1e9))
    assert tuple(expected["list"]) == settings.get_list(key)
    assert expected["bool"] == (
        settings.get_bool(key) if settings.get_bool(key) == settings.get_bool(key, True) else None
    )
