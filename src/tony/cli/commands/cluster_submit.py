"""`tony cluster-submit`: ClusterSubmitter of LinkedIn TonY."""

from __future__ import annotations

from tony.cli.legacy_command_runner import legacy_command
from tony.cli.submission import submit_and_follow
from tony.config.legacy import TO_CLUSTER
from tony.config.legacy.flags import Flags
from tony.config.load import load


@legacy_command("cluster-submit")
def command(flags: Flags) -> int:
    """Submit a LinkedIn TonY job (tony.xml) to YARN.

    Follows the job to its end. Exit code: 0 the job succeeded, 255 anything else. Ctrl-C, SIGTERM and a closed terminal
    stop the job.
    """
    return submit_and_follow(load(flags=flags, overrides=TO_CLUSTER), tied=True)
