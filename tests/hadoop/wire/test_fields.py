"""Our messages against what Hadoop's own classes say of theirs: numbers, types, defaults, what is required."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tony.hadoop.wire.proto import (
    BOOL,
    BYTES,
    FLOAT,
    INT32,
    INT64,
    SINT32,
    STRING,
    UINT32,
    UINT64,
    FieldKind,
    ProtoMessage,
)

#: Module as in the table -> its path.
MODULES = {
    "application_client": "wire.application_client",
    "application_master": "wire.application_master",
    "namenode_rpc": "hdfs.namenode_rpc",
    "placement": "wire.placement",
    "rpc": "wire.rpc",
    "yarn_records": "wire.yarn_records",
}
KINDS = {kind.name: kind for kind in (BOOL, BYTES, FLOAT, INT32, INT64, SINT32, STRING, UINT32, UINT64)}
#: Where our default is another one on purpose: absent is something that a caller must be able to see.
OUR_DEFAULTS = {
    ("application_client.ApplicationSubmissionContext", "application_name"),
    ("application_client.ApplicationSubmissionContext", "queue"),
    ("application_client.ApplicationSubmissionContext", "applicationType"),
}
FIELD = re.compile(r"  (\d+)([*!]?) (\S+) (enum )?(\S+)(?: \[(.*)\])?")


def table() -> tuple[dict[str, tuple[str, list[re.Match[str]]]], dict[str, dict[int, str]]]:
    """Our name -> (Hadoop's name, its fields), and the enums' members."""
    messages: dict[str, tuple[str, list[re.Match[str]]]] = {}
    enums: dict[str, dict[int, str]] = {}
    fields: list[re.Match[str]] = []
    text = (Path(__file__).parents[1] / "golden" / "messages-3.4.2.txt").read_text()
    for line in text.splitlines():
        field = FIELD.fullmatch(line)
        if field:
            fields.append(field)
        elif line.startswith("enum "):
            _, name, *members = line.split()
            enums[name] = {int(number): word for number, word in (each.split("=") for each in members)}
        elif not line.startswith("#"):
            ours, theirs = line.split()
            fields = []
            messages[ours] = (theirs, fields)
    return messages, enums


MESSAGES, ENUMS = table()
OURS = {theirs: ours for ours, (theirs, _) in MESSAGES.items()}


def message_class(name: str) -> type[ProtoMessage]:
    module, _, cls = name.partition(".")
    found: type[ProtoMessage] = getattr(importlib.import_module(f"tony.hadoop.{MODULES[module]}"), cls)
    assert issubclass(found, ProtoMessage)
    return found


def plan(cls: type[ProtoMessage]) -> dict[int, tuple[str, Any, bool]]:
    """Field number -> name, kind, repeated."""
    from tony.hadoop.wire.proto import _plan_of, read_varint

    made = cls._plan or _plan_of(cls)
    return {read_varint(key, 0)[0] >> 3: (name, kind, many) for name, key, kind, many in made.fields}


def test_every_message_of_ours_is_in_the_table() -> None:
    written = set()
    for module in MODULES:
        loaded = importlib.import_module(f"tony.hadoop.{MODULES[module]}")
        written |= {
            f"{module}.{name}"
            for name, each in vars(loaded).items()
            if isinstance(each, type) and issubclass(each, ProtoMessage) and each.__module__ == loaded.__name__
        }
    assert set(MESSAGES) == written


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_the_fields_are_those_of_hadoop(name: str) -> None:
    """Each of our fields has the number, type, and default of one of Hadoop's; each required one is there."""
    cls = message_class(name)
    ours = plan(cls)
    theirs = {int(field[1]): field for field in MESSAGES[name][1]}
    assert set(ours) <= set(theirs)
    made = cls._plan
    assert made is not None
    for number, field in theirs.items():
        if number not in ours:
            assert field[2] != "!", f"{name} lacks the required {field[3]}"
            continue
        attribute, kind, many = ours[number]
        where = f"{name}.{attribute}"
        assert many == (field[2] == "*"), where
        assert (attribute in made.required) == (field[2] == "!"), where
        if field[4]:
            members = ENUMS[field[5]]
            assert isinstance(kind, FieldKind), where
            assert kind.read is not None
            assert all(kind.read(each) is not None for each in members), where
        elif field[5] in KINDS:
            assert kind is KINDS[field[5]], where
        else:
            assert isinstance(kind, type), where
            assert OURS[field[5]] == f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}", where
        if field[6] is not None and (name, field[3]) not in OUR_DEFAULTS:
            default = getattr(cls, attribute)
            if field[4]:
                assert ENUMS[field[5]][int(default)] == field[6], where
            else:
                assert str(default).lower() == field[6].lower(), where
