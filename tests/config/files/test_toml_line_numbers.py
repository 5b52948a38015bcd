"""Tests of `tony.config.files.toml_line_numbers`: each key's line, whatever way TOML writes it."""

from __future__ import annotations

import tomllib
from typing import Any

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from tony.config.files.toml_line_numbers import scan
from tony.config.table.layers import MAX_DEPTH

TEXT = '''# a comment = with an equals sign
name = "digits"   # another
"quoted key" = 'it''s'
command = """
python "train.py" \\"""
--all""\"""
raw = \'\'\'
[not.a.table]
x = 1\'\'\'

dotted . "k.e.y" . z = 1979-05-27 07:32:00
list = [
  "a", # first
  [1, 2],
  { b = 3 },
]
inline = { a = 1, b.c = [ "]", '}' ], "d,e" = "}" }

[roles.worker]   # a table
memory = "2g"
  indented = true
[ roles . 'my role' ]
env = { A = "1" }
[[many]]
x = 1
[[many]]
x = 2
'''


def test_the_line_of_every_kind_of_key() -> None:
    """Comments, strings over several lines, dotted and quoted keys, inline tables, lists, tables, lists of tables."""
    text = TEXT.replace("'it''s'", "'it is'")
    tomllib.loads(text)
    lines = {key: text.split("\n")[line - 1].strip() for key, line in scan(text).lines.items()}
    assert {
        ("name",): 'name = "digits"   # another',
        ("quoted key",): "\"quoted key\" = 'it is'",
        ("command",): 'command = """',
        ("raw",): "raw = '''",
        ("dotted", "k.e.y", "z"): 'dotted . "k.e.y" . z = 1979-05-27 07:32:00',
        ("list",): "list = [",
        ("list", "0"): '"a", # first',
        ("list", "1"): "[1, 2],",
        ("list", "1", "1"): "[1, 2],",
        ("list", "2", "b"): "{ b = 3 },",
        ("inline", "b", "c"): 'inline = { a = 1, b.c = [ "]", \'}\' ], "d,e" = "}" }',
        ("roles",): "[roles.worker]   # a table",
        ("roles", "worker"): "[roles.worker]   # a table",
        ("roles", "worker", "memory"): 'memory = "2g"',
        ("roles", "worker", "indented"): "indented = true",
        ("roles", "my role"): "[ roles . 'my role' ]",
        ("roles", "my role", "env", "A"): 'env = { A = "1" }',
        ("many", "1", "x"): "x = 2",
    }.items() <= lines.items()


def test_an_unknown_key_has_the_line_of_its_table() -> None:
    """A missing key is reported where it would be."""
    lines = scan("a = 1\n[b]\nc = 2\n")
    assert (2, 3, 1) == (lines.find_line(("b", "x")), lines.find_line(("b", "c", "0")), lines.find_line(("z", "y")))


def test_a_duplicate_key_is_found() -> None:
    """With both lines."""
    assert (("b", "c"), 2, 4) == scan("[b]\nc = 1\nd = 2\nc = 3\n").twice
    assert (("b",), 1, 3) == scan("[b]\nc = 1\n[b]\n").twice
    assert scan("[[b]]\nc = 1\n[[b]]\nc = 1\n").twice is None


keys = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
scalars = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(allow_nan=False),
    st.datetimes(),
)
documents = st.dictionaries(
    keys,
    st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
        max_leaves=12,
    ),
    max_size=6,
)


def _keys(values: dict[str, Any], place: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = set()
    for name, value in values.items():
        key = (*place, name)
        found.add(key)
        if isinstance(value, dict):
            found |= _keys(value, key)
    return found


@given(documents)
def test_every_key_of_tomllib_has_a_line(document: dict[str, Any]) -> None:
    """What tomlkit writes is found again, each top-level key at a line that holds it."""
    text = tomlkit.dumps(document)
    values = tomllib.loads(text)
    found = scan(text)
    assert found.twice is None
    shallow = {key for key in _keys(values) if len(key) <= MAX_DEPTH}
    assert shallow <= found.lines.keys()
    lines = text.split("\n")
    for key in shallow:
        assert 1 <= found.lines[key] <= len(lines)
