"""`tony settings`."""

from __future__ import annotations

from dataclasses import asdict

import click
from click.shell_completion import CompletionItem

from tony.cli.options import TextType, json_option
from tony.cli.output import plain_value, print_json, say
from tony.cli.terminal_text import columns_of
from tony.config.settings_doc import SettingRow, settings_rows, settings_table_markdown


class SettingParameter(TextType):
    """A setting's name, or a part of it; the value is the text."""

    name = "setting"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of settings."""
        return [CompletionItem(row.name) for row in settings_rows() if row.name.startswith(incomplete)]


@click.command("settings")
@click.argument("names", metavar="[NAME]...", nargs=-1, type=SettingParameter())
@json_option("Print the table as JSON.")
@click.option("--markdown", is_flag=True, help="Print the table as a page of the docs.")
def command(names: tuple[str, ...], as_json: bool, markdown: bool) -> None:
    """List the settings of job files: type, unit, default and meaning.

    NAME shows only settings that have this word in their name.
    """
    if markdown:
        click.echo(settings_table_markdown(), nl=False)
        return
    rows = [row for row in settings_rows() if not names or any(name.lower() in row.name.lower() for name in names)]
    if as_json:
        print_json([{**asdict(row), "default": plain_value(row.default)} for row in rows])
        return
    if not rows:
        say(f"no setting has {' or '.join(names)} in its name")
    for row in rows:
        _show(row)


def _show(row: SettingRow) -> None:
    unit = f" ({row.unit})" if row.unit else ""
    default = f"; default {row.default}" if row.default else ""
    say(row.name, bold=True)
    for text in (f"{row.type}{unit}{default}", row.meaning):
        click.echo(click.wrap_text(text, columns_of() or 100, "    ", "    "))
