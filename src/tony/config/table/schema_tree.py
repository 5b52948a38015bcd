"""The table of settings as a tree, to look up keys and their siblings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from tony.config.table.settings_table import SETTINGS, Key, Kind, Part, Setting
from tony.schedulers.registry import list_built_in_names, plug_in_names
from tony.schedulers.settings_schema import SchedulerSetting, load_settings, role_settings_of

_SCHEDULER_KINDS = {
    "size": Kind.SIZE,
    "int": Kind.INTEGER,
    "duration": Kind.DURATION,
    "path": Kind.PATH,
    "text": Kind.TEXT,
    "truth": Kind.TRUTH,
    "words": Kind.TAGS,
    "table": Kind.TABLE,
}


@dataclass(slots=True, eq=False)
class SettingsNode:
    """One node of the tree.

    Attributes:
        setting: the row, if the node may have a value.
        named: fixed name -> child.
        any: the child for names that the user chooses, if there is one.
        word: what such a name is: `role`, `group`, `name`.
        elsewhere: names that the user cannot choose here because they are settings elsewhere.
        has_schedulers: names of installed schedulers are children as well.
        is_scheduler: its children are the settings of one scheduler for a role.
    """

    setting: Setting | None = None
    named: dict[str, SettingsNode] = field(default_factory=dict)
    any: SettingsNode | None = None
    word: str = ""
    elsewhere: tuple[str, ...] = ()
    has_schedulers: bool = False
    is_scheduler: bool = False

    @property
    def is_table(self) -> bool:
        """True if the node has children."""
        return bool(self.named) or self.any is not None

    def child(self, name: str) -> SettingsNode | None:
        """Return the child for `name`; None if there is none."""
        if name in self.elsewhere:
            return None
        found = self.named.get(name, self.any)
        if found is None and self.has_schedulers:
            _add_plug_ins()
            return self.named.get(name)
        return found


@cache
def schema() -> SettingsNode:
    """Return the root of the tree, including the settings of the schedulers."""
    root = SettingsNode()
    for setting in settings():
        _add(root, setting)
    role = root.named["roles"].any
    assert role is not None
    role.named["resources"].elsewhere = ("memory", "vcores", "gpus")
    root.named["scheduler"].has_schedulers = role.has_schedulers = True
    _mark_schedulers(role, list_built_in_names())
    return root


def _add(root: SettingsNode, setting: Setting) -> None:
    node = root
    for part in setting.path:
        if part.startswith("<"):
            node.word = part.strip("<>")
            node.any = node = node.any or SettingsNode()
        else:
            node = node.named.setdefault(part, SettingsNode())
    node.setting = setting


@cache
def _add_plug_ins() -> None:
    """Add the settings of installed schedulers, once an unknown name may be one: the search takes milliseconds."""
    for setting in (*_settings_of(plug_in_names()), *_role_settings_of(plug_in_names())):
        _add(schema(), setting)
    role = schema().named["roles"].any
    assert role is not None
    _mark_schedulers(role, plug_in_names())


def _mark_schedulers(role: SettingsNode, schedulers: Iterable[str]) -> None:
    for name in schedulers:
        if name in role.named:
            role.named[name].is_scheduler = True


def find(key: Key) -> SettingsNode | None:
    """Return the node of a key; None if there is none. `*` stands for any name that the user chooses."""
    node: SettingsNode | None = schema()
    for part in key:
        node = node and (node.any if part == "*" else node.child(part))
    return node


def find_setting(key: Key) -> Setting | None:
    """Return the setting of a key; None for an unknown key, or a table."""
    node = find(key)
    return node.setting if node else None


@cache
def settings() -> tuple[Setting, ...]:
    """Return every setting, including those of the schedulers of tony."""
    found = list(SETTINGS)
    for key, rows in (("scheduler.name", _settings_of), ("roles.<role>.spread", _role_settings_of)):
        place = next(i for i, setting in enumerate(found) if setting.key == key) + 1
        found[place:place] = rows(list_built_in_names())
    return tuple(found)


def _settings_of(schedulers: Iterable[str]) -> Iterator[Setting]:
    for scheduler in schedulers:
        for row in load_settings(scheduler):
            yield _to_setting(f"scheduler.{scheduler}.{row.name}", row)


def _role_settings_of(schedulers: Iterable[str]) -> Iterator[Setting]:
    for scheduler in schedulers:
        for row in role_settings_of(scheduler):
            yield _to_setting(f"roles.<role>.{scheduler}.{row.name}", row)


def _to_setting(key: str, row: SchedulerSetting) -> Setting:
    return Setting(
        key=key,
        kind=_SCHEDULER_KINDS[row.type.value],
        part=Part.SCHEDULER,
        meaning=row.meaning,
        shown_default=row.default,
        minimum=row.minimum,
    )
