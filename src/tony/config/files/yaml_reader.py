"""Reads YAML settings with the core schema of YAML 1.2.

PyYAML composes the nodes, which have line numbers; the values are converted here. So `no`, `on`, `off`, `1:30` and
dates are text, duplicate keys are errors, tags are refused, and the expansion of aliases is limited.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from tony.config.table.layers import MAX_DEPTH, Written, format_key, quote
from tony.config.table.settings_table import Key

#: Most values in one file, including repetitions by aliases.
MAX_NODES = 50_000
#: Nesting of brackets: a few more than settings need. PyYAML's cost grows with the square of it.
_MAX_BRACKETS = 30

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,999})", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)", re.ASCII)
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOTHING = ("", "~", "null", "Null", "NULL")
_PLAIN_TAGS = tuple(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "value")
)
_MERGE = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """Text that is not valid YAML, or not supported."""

    def __init__(self, message: str, mark: Any = None) -> None:
        self.message = message
        self.line = mark.line + 1 if mark else 1
        self.column = mark.column + 1 if mark else 1
        super().__init__(message)


def read_yaml(text: str) -> tuple[dict[str, Any], dict[Key, int]]:
    """Return the values of a YAML text, and the line of each key.

    Raises:
        YamlError: the text is not valid.
    """
    try:
        root = yaml.compose(text, Loader=_YamlLoader)
    except YamlError:
        raise
    except yaml.MarkedYAMLError as error:
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(f"not valid YAML: {reason}.", error.problem_mark or error.context_mark) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        mark = yaml.Mark("", 0, before.count("\n"), len(before) - before.rfind("\n") - 1, None, 0)
        raise YamlError("not valid YAML: an unprintable character.", mark) from None
    except RecursionError:
        raise YamlError("lists or tables are nested too deeply.") from None
    except ValueError as error:  # a \\U escape beyond Unicode
        raise YamlError(f"not valid YAML: {error}.") from None
    reader = _YamlReader()
    if root is None or (isinstance(root, yaml.ScalarNode) and root.value in _NOTHING and root.style is None):
        return {}, {}
    if not isinstance(root, yaml.MappingNode):
        raise YamlError("write settings as `key: value`.", root.start_mark)
    try:
        return reader.table(root, ()), reader.lines
    except RecursionError:  # a table merged into itself
        raise YamlError("a table is merged into itself.", root.start_mark) from None


class _YamlLoader(yaml.SafeLoader):
    """PyYAML's loader with a limit on nested brackets."""

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Handle an opening bracket."""
        if self.flow_level > _MAX_BRACKETS:
            raise YamlError("lists or tables are nested too deeply.", self.get_mark())
        super().fetch_flow_collection_start(token)


@dataclass(slots=True)
class _YamlReader:
    lines: dict[Key, int] = field(default_factory=dict)
    nodes: int = 0

    def count(self, node: yaml.Node) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise YamlError("too many values; do aliases repeat each other?", node.start_mark)

    def value(self, node: yaml.Node, key: Key) -> Any:
        self.count(node)
        if len(key) > 2 * MAX_DEPTH:
            raise YamlError("lists or tables are nested too deeply.", node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.item(inner, (*key, str(number))) for number, inner in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self.table(node, key)
        raise YamlError(f"tags such as {quote(node.tag[:60])} are not supported.", node.start_mark)

    def item(self, node: yaml.Node, key: Key) -> Any:
        self.lines[key] = node.start_mark.line + 1
        return self.value(node, key)

    def table(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for name_node, value_node in node.value:
            if name_node.tag == _MERGE:
                merged = {**self.merge_tables(value_node, key), **merged}
        own: dict[str, Any] = {}
        first: dict[str, int] = {}
        for name_node, value_node in node.value:
            if name_node.tag == _MERGE:
                continue
            name, line = _name(name_node), name_node.start_mark.line + 1
            if name in own:
                message = f"`{format_key((*key, name))}` is set twice; first in line {first[name]}."
                raise YamlError(message, name_node.start_mark)
            first[name] = self.lines[(*key, name)] = line
            own[name] = self.value(value_node, (*key, name))
        return {**merged, **own}

    def merge_tables(self, node: yaml.Node, key: Key) -> dict[str, Any]:
        """Return the tables merged by `<<`; earlier ones win."""
        tables = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values: dict[str, Any] = {}
        for table in tables:
            if not isinstance(table, yaml.MappingNode):
                raise YamlError("`<<` takes a table, or a list of tables.", table.start_mark)
            self.count(table)
            values = {**self.table(table, key), **values}
        return values


def _name(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag not in _PLAIN_TAGS:
        raise YamlError("a key must be text.", node.start_mark)
    return str(node.value)


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if node.tag not in _PLAIN_TAGS:
        raise YamlError(f"tags such as {quote(node.tag[:60])} are not supported.", node.start_mark)
    if node.style is not None:
        return text
    if text in _TRUTH:
        return _TRUTH[text]
    if text in _NOTHING:
        return None
    if _INTEGER.fullmatch(text):
        return Written(int(text), text)
    if _FLOAT.fullmatch(text):
        return Written(float(text), text)
    return text
