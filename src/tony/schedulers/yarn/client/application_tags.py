"""The tags of an application, by which other clients find its job again. Pure.

The staging folder of a job that does not use the default one is stored in a tag of the application. YARN accepts ten
tags of at most 100 characters each, and Java clients write them in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import unquote

from tony.hadoop.wire.application_client import ApplicationReport
from tony.schedulers.yarn.settings import YarnSettings

#: Prefix of the tag with the staging folder.
_PREFIX = "tony-staging:"
_MAX_TAGS = 10
_MAX_NAME_CHARACTERS = 100
_PLAIN = re.compile(rb"[a-z0-9/._~-]")
_DEFAULT_SETTINGS = YarnSettings()
#: Tag of a job of tony under another application type.
_APPLICATION_TYPE = "tony"


def build_tags(settings: YarnSettings) -> tuple[str, ...]:
    """Return an application's tags: the user's, and those that other clients need to find the job.

    These are its staging folder, and a marker under another application type. A folder name too long for a tag is left
    out, as are both if the job has ten tags of its own.
    """
    own = []
    if settings.staging != _DEFAULT_SETTINGS.staging:
        letters = (bytes((byte,)) for byte in settings.staging.encode("utf-8", "replace"))
        text = "".join(letter.decode() if _PLAIN.match(letter) else f"%{letter[0]:02x}" for letter in letters)
        own.append(f"{_PREFIX}{text}")
    if settings.application_type != _DEFAULT_SETTINGS.application_type:
        own.append(_APPLICATION_TYPE)
    return (*settings.tags, *(tag for tag in own if len(tag) <= _MAX_NAME_CHARACTERS))[
        : max(_MAX_TAGS, len(settings.tags))
    ]


def is_ours(report: ApplicationReport) -> bool:
    """Return True if an application is certainly a job of tony."""
    own = report.application_type == _DEFAULT_SETTINGS.application_type
    return own or _APPLICATION_TYPE in report.tags or find_staging(report.tags) is not None


def find_staging(tags: Collection[str]) -> str | None:
    """Return the staging folder named in an application's tags; None if there is none."""
    return next((unquote(tag.removeprefix(_PREFIX)) for tag in tags if tag.startswith(_PREFIX)), None)
