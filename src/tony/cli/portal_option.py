"""The option `--portal URL`: query a portal instead of the local state directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from tony.cli.options import F, home
from tony.cli.terminal.output import warn
from tony.model.job_summary import JobHead

if TYPE_CHECKING:
    from tony.jobs.job_list import Filter
    from tony.jobs.portal_client import PortalClient

#: Default of -n with a portal, which may have a million jobs.
DEFAULT_LIMIT = 50


def portal_option(function: F) -> F:
    """Add the option --portal."""
    return click.option(
        "--portal", metavar="URL", help="Query this portal instead of this machine; see also: tony login."
    )(function)


@contextmanager
def open_portal(text: str) -> Iterator[PortalClient]:
    """Connect to the portal with this address.

    Raises:
        UserError: this is not an address.
    """
    from tony.jobs.portal_client import PortalClient  # late: rarely needed, and it loads TLS

    portal = PortalClient.of(home(), text)
    try:
        yield portal
    finally:
        portal.close()


def heads(portal: PortalClient, wanted: Filter, limit: int | None) -> Sequence[JobHead]:
    """Return the matching jobs, newest first; without a limit the newest `DEFAULT_LIMIT`, with a warning."""
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

    found = [*portal.jobs(words, takes, DEFAULT_LIMIT + 1 if limit is None else limit)]
    if limit is None and len(found) > DEFAULT_LIMIT:
        warn(f"only the newest {DEFAULT_LIMIT} are shown; use -n 1000 for more")
        return found[:DEFAULT_LIMIT]
    return found
