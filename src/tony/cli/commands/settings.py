"""`tony settings`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict

import click
from click.shell_completion import CompletionItem

from tony.cli.options import TextType, json_option
from tony.cli.terminal.output import print_json, say, to_plain_value
from tony.cli.terminal.terminal_text import find_columns
from tony.config.settings_doc import SettingRow, settings_rows, settings_table_markdown
from tony.config.table.settings_table import is_common
from tony.errors import UserError
from tony.name_suggestions import find_closest_match


class SettingParameter(TextType):
    """The name of a setting, or a part of it; the value is the text."""

    name = "setting"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the settings that begin with the text."""
        return [CompletionItem(row.name) for row in settings_rows() if row.name.startswith(incomplete)]


@click.command("settings")
@click.argument("names", metavar="[NAME]...", nargs=-1, type=SettingParameter())
@click.option("--all", "every", is_flag=True, help="List every setting.")
@json_option("Print the table of all settings as JSON.")
@click.option("--markdown", is_flag=True, help="Print the table of all settings as a page of the docs.")
def command(names: tuple[str, ...], every: bool, as_json: bool, markdown: bool) -> None:
    """List the settings of a job file: type, unit, default and meaning.

    Without NAME, only the settings that most jobs need. NAME is a setting, such as roles.worker.memory, or a word of
    its name; with several, settings that match all of them.
    """
    if markdown:
        click.echo(settings_table_markdown(), nl=False)
        return
    rows = settings_rows()
    if names:
        rows = tuple(row for row in rows if all(_is_match(name.lower(), row.name.lower()) for name in names))
        if not rows:
            raise UserError(f"no setting has {' and '.join(names)} in its name{_suggest(names)}")
    if as_json:
        print_json([{**asdict(row), "default": to_plain_value(row.default)} for row in rows])
    elif names or every:
        _show(rows)
    else:
        common = [row for row in rows if is_common(row.name)]
        _show(common)
        rest = f"`tony settings --all` shows the other {len(rows) - len(common)}, `tony settings NAME` a single one."
        click.echo("\n" + click.wrap_text(rest, find_columns() or 100))


def _is_match(name: str, setting: str) -> bool:
    """Return True if the name is a part of the setting's, or the whole with names in place of `<role>` and the like."""
    pattern = re.sub("<[a-z]+>", "[^.]+", setting.replace(".", r"\."))
    return name in setting or re.fullmatch(pattern, name) is not None


def _suggest(names: tuple[str, ...]) -> str:
    for name in names:
        given = name.split(".")
        rows = [row.name.split(".") for row in settings_rows()]
        near = find_closest_match(name, (".".join(_fill_names(row, given)) for row in rows))
        if near is None:
            by_last_part = {row[-1]: ".".join(row) for row in rows}
            near = by_last_part.get(find_closest_match(given[-1], by_last_part) or "")
        if near:
            return f"; did you mean {near}?"
    return ""


def _fill_names(setting: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return the parts of a setting with the user's names in place of `<role>` and the like."""
    if len(setting) != len(given):
        return list(setting)
    return [name if part.startswith("<") else part for part, name in zip(setting, given, strict=True)]


def _show(rows: Sequence[SettingRow]) -> None:
    for row in rows:
        unit = f" ({row.unit})" if row.unit else ""
        default = f"; default {row.default}" if row.default else ""
        say(row.name, bold=True)
        for text in (f"{row.type}{unit}{default}", row.meaning):
            click.echo(click.wrap_text(text, find_columns() or 100, "    ", "    "))
