"""A job that was submitted elsewhere: where its record is, and what is said while there is none. Pure.

The staging folder of a job that is not in the usual place is told by a tag of the application's. YARN takes ten tags
of at most 100 characters each, and Java's clients write them in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import unquote

from tony.hadoop import ids
from tony.hadoop.remote_text import shown
from tony.hadoop.wire.reports import ApplicationReport, ApplicationState
from tony.hadoop.yarn.application_client import ENDED
from tony.schedulers.yarn.settings import YarnSettings

_PREFIX = "tony-staging:"
_MOST_TAGS, _LONGEST = 10, 100
_PLAIN = re.compile(rb"[a-z0-9/._~-]")
_USUAL = YarnSettings()
#: Of applications that cannot be known by their type.
_OURS = "tony"


def all_tags(settings: YarnSettings) -> tuple[str, ...]:
    """An application's tags: the user's, and what others have to know where it is not as usual.

    That is its staging folder, and under another type whose it is. A folder whose name is too long for a tag is not
    told; nor is anything of a job that has ten tags of its own.
    """
    own = []
    if settings.staging != _USUAL.staging:
        letters = (bytes((byte,)) for byte in settings.staging.encode("utf-8", "replace"))
        text = "".join(each.decode() if _PLAIN.match(each) else f"%{each[0]:02x}" for each in letters)
        own.append(f"{_PREFIX}{text}")
    if settings.application_type != _USUAL.application_type:
        own.append(_OURS)
    return (*settings.tags, *(tag for tag in own if len(tag) <= _LONGEST))[: max(_MOST_TAGS, len(settings.tags))]


def is_ours(report: ApplicationReport) -> bool:
    """Whether an application is a job for certain."""
    own = report.application_type == _USUAL.application_type
    return own or _OURS in report.tags or staging_of(report.tags) is not None


def staging_of(tags: Collection[str]) -> str | None:
    """The staging folder that an application's tags name; None if they name none."""
    return next((unquote(tag.removeprefix(_PREFIX)) for tag in tags if tag.startswith(_PREFIX)), None)


def why(report: ApplicationReport, user: str, record: str) -> str:
    """Why nothing is known of a job but what the ResourceManager says, and what to do.

    Args:
        user: who asks.
        record: where the record was looked for.
    """
    job = ids.application_text(report.id) if report.id else "the application"
    if report.user and report.user != user:
        name = shown(report.name or "")
        return f"{job} ({name}) is {report.user}'s, and its record is for them alone; you are {user}."
    state = report.state.name if report.state else "of unknown state"
    said = "" if report.diagnostics in ("", "N/A") else f": {shown(report.diagnostics).strip()}"
    begin = f"{job} ({shown(report.name or '')}, type {shown(report.application_type or '')}) is {state}{said}\n"
    if report.state in ENDED:
        return f"{begin}There is no record of it in {record}: it ended before it began one, or is no job of tony's."
    if report.state is ApplicationState.RUNNING:
        return f"{begin}Its record is not in {record} yet; try again in a moment. It may be no job of tony's."
    return f"{begin}There is no record of it in {record} before its application master has begun."
