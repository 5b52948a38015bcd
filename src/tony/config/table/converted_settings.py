"""Converts the merged settings: every value with its source, and every error."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tony.config.table.layers import Branch, Layer, Leaf, Written, format_key
from tony.config.table.schema_tree import SettingsNode, schema
from tony.config.table.settings_table import Key, Kind, Setting
from tony.config.table.value_conversion import InvalidValueError, convert
from tony.config.table.value_format import format_as_toml
from tony.errors import Problem
from tony.model.ids import ROLE_NAME
from tony.model.masking import MASK, is_secret, mask_secret, mask_value
from tony.name_suggestions import find_closest_match

#: Errors after which unknown keys get no suggestion: that takes a millisecond each.
_MAX_SUGGESTIONS = 100
#: A name in `{params.NAME}`.
PARAM_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)
ENV_NAME = re.compile(r"[^=\0\ud800-\udfff]+")
#: A name that a shell can set: on YARN a shell script sets it.
_CONTAINER_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: YARN's syntax: a name, optionally with a domain in front.
_RESOURCE_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,99}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)

_RULE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}", re.ASCII)

_NAMES: dict[str, tuple[re.Pattern[str], str]] = {
    "role": (ROLE_NAME, "a role name is up to 63 letters, digits, `-` and `_`, beginning with a letter."),
    "group": (ROLE_NAME, "a group name is up to 63 letters, digits, `-` and `_`, beginning with a letter."),
    "rule": (
        _RULE_NAME,
        'each rule has a name of its own, of up to 40 small letters, digits and `-`: name = "scratch-full".',
    ),
    "exports": (ENV_NAME, "a variable name must not be empty or contain `=`."),
    "params": (PARAM_NAME, "a parameter name is up to 100 letters, digits, `-`, `_` and `.`."),
    "resources": (_RESOURCE_NAME, "a resource name is letters, digits, `.`, `-` and `_`, as in `yarn.io/fpga`."),
    "env": (ENV_NAME, "a variable name must not be empty or contain `=`."),
    "container_env": (
        _CONTAINER_ENV_NAME,
        "the name of a container variable is letters, digits and `_`, not beginning with a digit.",
    ),
}

_SET_BY_TONY = "tony sets this variable in every program, so this value would be lost. Choose another name."
_MARKS_TASKS = "tony uses this variable to mark the processes of a task. Choose another name."
#: Variables that tony always sets -> message for a job that sets them.
RESERVED_ENV: Mapping[str, str] = {
    **dict.fromkeys(("JOB_NAME", "TASK_INDEX", "TASK_NUM", "JOB_ID", "appid", "SESSION_ID", "TB_PORT"), _SET_BY_TONY),
    **dict.fromkeys(("DISTRIBUTED_MODE", "IS_CHIEF", "ATTEMPT_NUMBER", "NUM_AM_RETRIES"), _SET_BY_TONY),
    **dict.fromkeys(("TONY_PROGRESS", "TONY_STACKS"), _SET_BY_TONY),
    **dict.fromkeys(("TONY_TASK", "TONY_OUTER_TASKS", "TONY_EXECUTOR"), _MARKS_TASKS),
    "CUDA_VISIBLE_DEVICES": "tony sets this variable to the GPUs of the task. Request GPUs with "
    "gpus = 1 below [roles.NAME].",
}


@dataclass(frozen=True, slots=True)
class ConvertedValue:
    """One value.

    Attributes:
        value: canonical.
        raw: as written.
        layer: where it was set.
        setting: its row of the table.
    """

    value: Any
    raw: Any
    layer: Layer
    setting: Setting


@dataclass(slots=True, eq=False)
class ValueTable:
    """All valid values, and the problems of the others.

    Attributes:
        found: key -> value; without defaults.
        children: key of a table -> name -> canonical value, for the same values.
        roles: names of roles in the job's order; without invalid names.
        broken: keys of invalid values.
        partial, raw: key of a broken list -> its items, None in place of invalid ones; and the list as written.
        tables: key -> the strongest layer that has this table.
        secret: names that the job declares as secret.
        origin: the job file, the source of errors about missing keys; None without one.
        is_staged: the job's files are staged already, so that they need not exist.
    """

    found: dict[Key, ConvertedValue] = field(default_factory=dict)
    children: dict[Key, dict[str, Any]] = field(default_factory=dict)
    roles: list[str] = field(default_factory=list)
    broken: dict[Key, Layer] = field(default_factory=dict)
    partial: dict[Key, Sequence[str | None]] = field(default_factory=dict)
    raw: dict[Key, Any] = field(default_factory=dict)
    tables: dict[Key, Layer] = field(default_factory=dict)
    origin: str | None = None
    problems: list[Problem] = field(default_factory=list)
    secret: frozenset[str] = frozenset()
    is_staged: bool = False

    def value(self, key: Key) -> Any:
        """Return the canonical value of a key; None if it was not set."""
        found = self.found.get(key)
        return found.value if found else None

    def list_children(self, key: Key) -> Mapping[str, Any]:
        """Return name -> value of everything directly below a key."""
        return self.children.get(key, {})

    def list_rules(self) -> Sequence[str]:
        """Return the names of the rules for lines of output, those of sites first; without invalid ones."""
        return [key[-1] for key in self.tables if key[:-1] == ("diagnosis", "rules") and key not in self.broken]

    def find_source(self, key: Key) -> str | None:
        """Return where a key, or the nearest table around it, was set; the job file if neither was."""
        if key in self.found:
            return self.found[key].layer.where(key)
        layer = self.broken.get(key) or self.tables.get(key)
        if layer:
            return layer.where(key)
        return self.find_source(key[:-1]) if len(key) > 1 else self.origin

    def add_error(self, key: Key, message: str, *, item: int | None = None) -> None:
        """Add an error about a value (or one item of a list), or about a missing key."""
        found = self.found.get(key)
        layer, raw = (found.layer, found.raw) if found else (self.broken.get(key), self.raw.get(key))
        value, where = None, self.find_source(key)
        if found or key in self.raw:
            assert layer is not None
            value = format_value(key, _item(raw, item), self.secret)
            where = layer.where(key if item is None else (*key, str(item)))
        self.problems.append(
            Problem(key=_format_item_key(key, item), message=message, value=value, source=where or None)
        )


def read(tree: Branch) -> ValueTable:
    """Convert the merged settings according to the table of settings."""
    value_table = ValueTable(secret=_find_declared_secrets(tree))
    _read_table(value_table, schema(), tree, ())
    return value_table


def _find_declared_secrets(tree: Branch) -> frozenset[str]:
    """Return the names in `secret`; errors of that list are reported later."""
    leaf = tree.children.get("secret")
    value = leaf.value if isinstance(leaf, Leaf) else None
    value = getattr(value, "value", value)
    names = value if isinstance(value, list | tuple) else ()
    return frozenset(name for name in names if isinstance(name, str))


def format_value(key: Key, raw: Any, named: Collection[str] = ()) -> str:
    """Return a value for a message, with secrets masked.

    Args:
        named: names that the job declares as secret.
    """
    if len(key) > 1 and (key[-2] in ("env", "container_env", "params") or key[0] == "scheduler"):
        if is_secret(key[-1], named):
            return MASK
        return mask_secret("", format_as_toml(raw))
    if key[0] == "notify" and key[1:2] != ("on",):
        text = raw.text if isinstance(raw, Written) else raw
        return format_as_toml(mask_value(text)) if isinstance(text, str) else MASK
    return format_as_toml(raw)


def _format_item_key(key: Key, item: int | None) -> str:
    return format_key(key) if item is None else f"{format_key(key)}[{item}]"


def _item(raw: Any, item: int | None) -> Any:
    value = raw.value if item is not None and hasattr(raw, "value") else raw
    return value[item] if item is not None and isinstance(value, list | tuple) and item < len(value) else raw


def _read_table(value_table: ValueTable, node: SettingsNode, branch: Branch, key: Key) -> None:
    value_table.tables[key] = branch.layer
    for name, child in branch.children.items():
        inner = node.child(name)
        place = (*key, name)
        if inner is None:
            _report_unknown(value_table, node, place, child)
            continue
        named = name in node.named or _name_is_possible(value_table, node, place, child)
        if named and key == ("roles",):
            value_table.roles.append(name)
        if isinstance(child, Branch) and inner.is_table:
            _read_table(value_table, inner, child, place)
        elif inner.setting and named and (isinstance(child, Leaf) or inner.setting.kind is Kind.TABLE):
            _read_value(value_table, inner.setting, child.to_leaf() if isinstance(child, Branch) else child, place)
        elif not (isinstance(child, Leaf) and _is_nothing(child)):
            _report_misplaced(value_table, inner, place, child)


def _read_value(value_table: ValueTable, setting: Setting, leaf: Leaf, key: Key) -> None:
    try:
        value = convert(setting, leaf.value, leaf.layer.base)
    except InvalidValueError as wrong:
        value_table.broken[key] = leaf.layer
        if wrong.items:
            value_table.partial[key] = wrong.items
            value_table.raw[key] = leaf.value
        for fault in wrong.faults:
            place = key if fault.item is None else (*key, str(fault.item))
            value_table.problems.append(
                Problem(
                    key=_format_item_key(key, fault.item),
                    message=fault.message,
                    value=format_value(key, _item(leaf.value, fault.item), value_table.secret),
                    source=leaf.layer.where(place),
                )
            )
    else:
        value_table.found[key] = ConvertedValue(value, leaf.value, leaf.layer, setting)
        value_table.children.setdefault(key[:-1], {})[key[-1]] = value


def _is_nothing(leaf: Leaf) -> bool:
    """Return True for a key without a value, as in YAML: an empty table."""
    return leaf.value is None or (isinstance(leaf.value, Written) and leaf.value.value is None)


def _name_is_possible(value_table: ValueTable, node: SettingsNode, key: Key, child: Branch | Leaf) -> bool:
    pattern, rule = _NAMES[node.word if node.word != "name" else key[-2]]
    if key[-2] in ("env", "container_env", "exports") and key[-1] in RESERVED_ENV:
        rule = RESERVED_ENV[key[-1]]
    elif key[-2] == "container_env" and is_secret(key[-1], value_table.secret):
        rule = (
            "this is a secret, by its name or by `secret`, and container variables end up in files that others can "
            "read. Set it below [env], which is protected."
        )
    elif pattern.fullmatch(key[-1]):
        return True
    value_table.problems.append(Problem(key=format_key(key), message=rule, source=child.layer.where(key)))
    value_table.broken[key] = child.layer
    return False


def _report_unknown(value_table: ValueTable, node: SettingsNode, key: Key, child: Branch | Leaf) -> None:
    value = format_value(key, child.value, value_table.secret) if isinstance(child, Leaf) else None
    # A suggestion takes a millisecond: too slow for thousands.
    hint = (
        _suggest(node, key, has_full_keys=child.layer.has_full_keys)
        if len(value_table.problems) < _MAX_SUGGESTIONS
        else "`tony settings --all` lists the known ones."
    )
    message = f"unknown key; {hint}"
    value_table.problems.append(
        Problem(key=format_key(key), message=message, value=value, source=child.layer.where(key))
    )


def _suggest(node: SettingsNode, key: Key, *, has_full_keys: bool) -> str:
    name = key[-1]
    above = f"{format_key(key[:-1])}." if has_full_keys and len(key) > 1 else ""
    role_above = "roles.NAME." if has_full_keys else ""
    root = schema()
    role = root.named["roles"].any
    assert role is not None
    if node is role and name in root.named and name not in role.named:
        instead = f"write `{name}`." if has_full_keys else "write it above the first [section]."
        return f"`{name}` is a setting of the job: {instead}"
    if name in node.elsewhere:
        return f"write `{role_above}{name}`." if has_full_keys else f"write `{name}` directly below [roles.NAME]."
    if node is root and name in ("final", "limits"):
        return "this is a setting of site files, not of jobs."
    if node is root and name in role.named:
        instead = f"write `{role_above}{name}`." if has_full_keys else "write it below [roles.NAME]."
        return f"`{name}` is a setting of a role: {instead}"
    for known, child in node.named.items():
        if name.lower() in _synonyms(child):
            return f"did you mean `{above}{known}`?"
    near = find_closest_match(name, node.named)
    if near is None and node is root:
        near_role = find_closest_match(name, role.named)
        if near_role:
            below = "" if has_full_keys else " Write it below [roles.NAME]."
            return f"did you mean `{role_above}{near_role}`, a setting of a role?{below}"
    synonyms = {word: known for known, child in node.named.items() for word in _synonyms(child)}
    if near is None and (word := find_closest_match(name, synonyms)):
        return f"did you mean `{above}{synonyms[word]}`?"
    known_keys = ", ".join(sorted(node.named))
    otherwise = f"known here: {known_keys}." if len(node.named) < 8 else "`tony settings --all` lists the known ones."
    return f"did you mean `{above}{near}`?" if near else otherwise


def _synonyms(node: SettingsNode) -> tuple[str, ...]:
    """Return other words for a setting, or for its table (`env`, `params`, `groups`)."""
    setting = node.setting or (node.any and node.any.setting)
    return setting.also if setting else ()


def _report_misplaced(value_table: ValueTable, node: SettingsNode, key: Key, child: Branch | Leaf) -> None:
    if key in value_table.broken:
        return
    value_table.broken[key] = child.layer
    if isinstance(child, Branch):
        message = "expected a single value, not a table."
    elif node.named.keys() >= {"instances"}:
        message = f"expected a table: write [{format_key(key)}] and the settings of the role below it."
    else:
        below = f"{next(iter(node.named), node.word.upper() or 'NAME')} = ..."
        message = f"expected a table: write [{format_key(key)}] and below it {below}"
    value = format_value(key, child.value, value_table.secret) if isinstance(child, Leaf) else None
    value_table.problems.append(
        Problem(key=format_key(key), message=message, value=value, source=child.layer.where(key))
    )
