"""What YARN itself tells of a job that was submitted elsewhere."""

from __future__ import annotations

import re

import pytest

from tony.hadoop import ids
from tony.hadoop.wire.application_client import ApplicationReport, ApplicationState
from tony.schedulers.yarn.client.unrecorded_applications import (
    build_tags,
    explain_missing_history,
    find_staging,
    is_ours,
)
from tony.schedulers.yarn.settings import YarnSettings

JOB = "application_1795000000000_0007"


@pytest.mark.parametrize(
    ("staging", "tag"),
    [
        ("/projects/vision/ann", "tony-staging:/projects/vision/ann"),
        ("my.own", "tony-staging:my.own"),
        ("/Vision/a b,c%/Ä\N{SNOWMAN}", "tony-staging:/%56ision/a%20b%2cc%25/%c3%84%e2%98%83"),
    ],
)
def test_a_staging_folder_is_encoded_in_a_tag(staging: str, tag: str) -> None:
    """It survives what YARN and its commands do to tags: lower case, ASCII, no commas."""
    tags = build_tags(YarnSettings(tags=("nightly",), staging=staging))
    assert tags == ("nightly", tag)
    assert tag == tag.lower()
    assert find_staging(tags) == staging


def test_cases_without_a_staging_tag() -> None:
    """The default folder; ten tags already; a name of more than a tag's length."""
    ten = tuple(map(str, range(10)))
    assert build_tags(YarnSettings(tags=("a",))) == ("a",)
    assert build_tags(YarnSettings(tags=ten, staging="/x", application_type="MINE")) == ten
    assert build_tags(YarnSettings(tags=ten[1:], staging="/x", application_type="MINE")) == (
        *ten[1:],
        "tony-staging:/x",
    )
    assert len(build_tags(YarnSettings(staging="/" + "x" * 86))) == 1
    assert build_tags(YarnSettings(staging="/" + "x" * 87)) == ()
    assert find_staging(ten) is None


@pytest.mark.parametrize(
    "settings", [YarnSettings(), YarnSettings(application_type="MINE"), YarnSettings(staging="/x")]
)
def test_ours_are_known(settings: YarnSettings) -> None:
    found = report(ApplicationState.ACCEPTED, application_type=settings.application_type, tags=build_tags(settings))
    assert is_ours(found)
    assert not is_ours(report(ApplicationState.ACCEPTED, application_type="SPARK", tags=("nightly",)))


def report(state: ApplicationState | None, **more: object) -> ApplicationReport:
    given = {
        "id": ids.parse_application_id(JOB),
        "name": "digits\x1b",
        "user": "ann",
        "application_type": "TONY",
        **more,
    }
    return ApplicationReport(state=state, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            report(ApplicationState.ACCEPTED, diagnostics="Queue is full"),
            rf"{JOB} \(digits.*, type TONY\) is ACCEPTED: Queue is full\nIt has no history .* until its application",
        ),
        (report(ApplicationState.RUNNING), r"is RUNNING\nIt has no history in hdfs://nn/x yet; try again"),
        (
            report(ApplicationState.FAILED, diagnostics="no python3", application_type="SPARK"),
            r"type SPARK\) is FAILED: no python3\nIt has no history in hdfs://nn/x: it ended before",
        ),
        (
            report(ApplicationState.RUNNING, user="bob"),
            r"belongs to bob, and only they can read its history; you are ann\.",
        ),
        (report(None, name=None, application_type=None), r"\(, type \) is in an unknown state\n"),
    ],
)
def test_a_job_without_a_record(found: ApplicationReport, told: str) -> None:
    """How it stands, in YARN's words, and why nothing more is known."""
    text = explain_missing_history(found, "ann", "hdfs://nn/x")
    assert re.search(told, text), text
    assert "\x1b" not in text
