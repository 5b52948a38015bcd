"""The table of settings as a tree, for finding what a key means and which keys there are beside it."""

from __future__ import annotations

from functools import cache

from tony.config.settings_table import SETTINGS, Half, Key, Kind, Setting
from tony.dataclass import dataclass, field

_SCHEDULER_KINDS = {
    "size": Kind.SIZE,
    "int": Kind.INTEGER,
    "duration": Kind.DURATION,
    "path": Kind.PATH,
    "text": Kind.TEXT,
}


@dataclass(slots=True, eq=False)
class SettingsNode:
    """One place in the tree.

    Attributes:
        setting: the row, if a value may stand here.
        named: child by its fixed name.
        any: the child for every name that the author chooses, if there is one.
        word: what such a name is: `role`, `group`, `name`.
        elsewhere: names that the author cannot choose here, since they have a place of their own.
    """

    setting: Setting | None = None
    named: dict[str, SettingsNode] = field(default_factory=dict)
    any: SettingsNode | None = None
    word: str = ""
    elsewhere: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether keys may stand below."""
        return bool(self.named) or self.any is not None

    def child(self, name: str) -> SettingsNode | None:
        """What `name` below this place means."""
        return None if name in self.elsewhere else self.named.get(name, self.any)


@cache
def schema() -> SettingsNode:
    """The tree's root, the schedulers' own settings included."""
    root = SettingsNode()
    for setting in settings():
        node = root
        for part in setting.path:
            if part.startswith("<"):
                node.word = part.strip("<>")
                node.any = node = node.any or SettingsNode()
            else:
                node = node.named.setdefault(part, SettingsNode())
        node.setting = setting
    role = root.named["roles"].any
    assert role is not None
    role.named["resources"].elsewhere = ("memory", "vcores", "gpus")
    return root


def find(key: Key) -> SettingsNode | None:
    """What a key means; None if nothing. `*` stands for any name of the author's."""
    node: SettingsNode | None = schema()
    for part in key:
        node = node and (node.any if part == "*" else node.child(part))
    return node


@cache
def settings() -> tuple[Setting, ...]:
    """Every setting, those of each scheduler behind `scheduler.name`."""
    place = next(i for i, setting in enumerate(SETTINGS) if setting.key == "scheduler.name") + 1
    return (*SETTINGS[:place], *_schedulers(), *SETTINGS[place:])


def _schedulers() -> tuple[Setting, ...]:
    # Which schedulers there are is known above this package; asked for when it is needed, never at import.
    from tony.schedulers.registry import names
    from tony.schedulers.settings_schema import settings_of

    return tuple(
        Setting(
            key=f"scheduler.{scheduler}.{row.name}",
            kind=_SCHEDULER_KINDS[row.type.value],
            half=Half.SCHEDULER,
            meaning=row.meaning,
            shown_default=row.default,
            minimum=row.minimum,
        )
        for scheduler in names()
        for row in settings_of(scheduler)
    )
