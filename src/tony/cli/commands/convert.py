"""`tony convert XML_FILE`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from tony.config.legacy.flags import parse
from tony.config.legacy.job_file_writer import job_file
from tony.config.legacy.translate import translate
from tony.errors import ConfigError


@click.command("convert", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("xml_file", type=click.Path(readable=False))
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def command(xml_file: str, flags: tuple[str, ...]) -> int:
    """Convert XML_FILE, a LinkedIn TonY job, to a job file.

    FLAGS are the LinkedIn TonY flags that the job was submitted with, such as --src_dir and --executes; they go into
    the job file, too.
    """
    try:
        draft, _ = translate(parse(["--conf_file", xml_file, *flags]), os.environ, Path.cwd())
    except ConfigError as error:
        raise ConfigError(error.problems, checked_file=xml_file) from error
    if draft.problems:
        raise ConfigError(draft.problems, checked_file=xml_file)
    sys.stdout.write(job_file(draft))
    return 0
