"""`tony version`."""

from __future__ import annotations

import platform
import sys

import click

import tony
from tony.cli.options import json_option
from tony.cli.terminal.output import print_json, say


@click.command("version")
@json_option()
def command(as_json: bool) -> None:
    """Print the version."""
    facts = {"tony": tony.__version__, "python": platform.python_version(), "interpreter": sys.executable}
    if as_json:
        print_json(facts)
    else:
        say(f"tony {facts['tony']} (Python {facts['python']}, {facts['interpreter']})")
