"""The table of settings as text: `tony settings` and docs/settings.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tony.config.files.site_policy import LIMITS
from tony.config.table.layers import quote
from tony.config.table.schema_tree import settings
from tony.config.table.settings_table import Kind, Setting
from tony.config.table.value_format import format_canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting as documented.

    Attributes:
        name: dotted; `<role>` and the like stand for a name that the user chooses.
        type: `size`, `one of "all", "chief"`, ...
        unit: the units that its text may have; empty if it has none.
        default: as in a job file, or a description; empty if there is none.
        reader: the part of tony that uses it.
    """

    name: str
    type: str
    unit: str
    default: str
    meaning: str
    reader: str


def settings_rows() -> tuple[SettingRow, ...]:
    """Return every setting, in the order of the docs; those of site files come last."""
    return tuple(_row(setting) for setting in (*settings(), *_SITE))


def settings_table_markdown() -> str:
    """Return the table as a page of the docs."""
    rows = settings_rows()
    lines = [
        "# Settings",
        "",
        _INTRODUCTION,
        "",
        "| name | type | default | meaning |",
        "|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join([*lines, ""])


_INTRODUCTION = """\
Every key of a job file with its default. `<role>` and the like stand for names that you choose. Sizes need a unit of
`b k m g t`, powers of 1024 (`512m`, `1.5g`), durations one of `ms s m h d` (`30s`). For timeouts, `"off"` or `"0s"`
means no limit; for waits, `"off"` means no end and `"0s"` no wait."""

_SITE = (
    Setting(
        key="final",
        kind=Kind.NAMES,
        part=LIMITS[0].part,
        meaning='Site files only: keys that jobs must not change, such as `"tls"` or `"roles.*.gpus"`.',
        shown_default="[]",
    ),
    *LIMITS,
)


def _row(setting: Setting) -> SettingRow:
    return SettingRow(
        name=setting.key,
        type=_type(setting),
        unit=setting.unit,
        default=format_canonical(setting, setting.default) if setting.shown_default is None else setting.shown_default,
        meaning=setting.meaning
        if setting not in LIMITS
        else f"Site files only: {setting.meaning[0].lower()}{setting.meaning[1:]}",
        reader=setting.part.value,
    )


def _type(setting: Setting) -> str:
    if setting.choices:
        return f"{setting.kind.value} {', '.join(quote(str(member.value)) for member in setting.choices)}"
    return "list of keys" if setting.key == "final" else setting.kind.value


def _cells(row: SettingRow) -> Iterator[str]:
    yield f"`{row.name}`"
    yield row.type
    yield f"`{row.default}`" if row.default[:1] in ('"', "[") or row.default.isalnum() else row.default
    yield row.meaning.replace("|", "\\|")
