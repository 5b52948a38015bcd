"""What `--portal URL` does: the commands that look at jobs, and some that change one, ask a portal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from tony.cli.options import F, home
from tony.cli.output import warn
from tony.model.job_summary import JobHead

if TYPE_CHECKING:
    from tony.jobs.job_list import Filter
    from tony.jobs.portal_client import PortalClient

#: Jobs of a list, unless a number is said: a portal may have a million.
USUAL = 50


def portal_option(function: F) -> F:
    """The option --portal."""
    return click.option(
        "--portal", metavar="URL", help="Ask this portal, not this machine's records; see also: tony login."
    )(function)


@contextmanager
def asked(text: str) -> Iterator[PortalClient]:
    """The portal that was named.

    Raises:
        UserError: that is no address.
    """
    from tony.jobs.portal_client import PortalClient  # late: few ask one, and it speaks https

    portal = PortalClient.of(home(), text)
    try:
        yield portal
    finally:
        portal.close()


def heads(portal: PortalClient, wanted: Filter, limit: int | None) -> Sequence[JobHead]:
    """The jobs that are wanted, newest first; without a limit only so many, which is told."""
    words: dict[str, str] = {}
    for name, value in (("user", wanted.user), ("scheduler", wanted.scheduler)):
        if value is not None:
            words[name] = value
    for name, moment in (("since", wanted.since), ("until", wanted.until)):
        if moment is not None:
            words[name] = repr(moment)
    states = wanted.states
    if states is not None and len(states) == 1:
        words["state"] = next(iter(states)).value

    def takes(head: JobHead) -> bool:
        pattern = wanted.name and wanted.name.replace("[", "[[]")
        return (pattern is None or fnmatchcase(head.name, pattern)) and (states is None or head.state in states)

    found = [*portal.jobs(words, takes, USUAL + 1 if limit is None else limit)]
    if limit is None and len(found) > USUAL:
        warn(f"these are the newest {USUAL}; -n 1000 shows so many")
        return found[:USUAL]
    return found
