"""`tony cluster-submit`: ClusterSubmitter of LinkedIn TonY."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tony.cli.legacy_command_runner import RawCommand, run
from tony.cli.submission import SubmitOptions, submit_and_follow
from tony.config.legacy import TO_CLUSTER
from tony.config.load import load

if TYPE_CHECKING:
    from tony.config.legacy.flags import Flags


@click.command("cluster-submit", cls=RawCommand, add_help_option=False)
def command(words: tuple[str, ...]) -> int:
    """Submit a LinkedIn TonY job (tony.xml) to YARN.

    Follows the job to its end. Exit code: 0 the job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal
    stop the job.
    """
    about = "Submit a LinkedIn TonY job to YARN and follow it to its end.\nExit code 0 if it succeeded, else 255."
    return run("cluster-submit", about, words, _go)


def _go(flags: Flags) -> int:
    resolved = load(flags=flags, overrides=TO_CLUSTER)
    return submit_and_follow(resolved, SubmitOptions(detach=False, dry_run=False, as_json=False), tied=True)
