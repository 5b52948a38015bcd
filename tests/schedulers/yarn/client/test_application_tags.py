"""Tags of an application: what other clients find its job by."""

from __future__ import annotations

import pytest

from tony.hadoop.wire.application_client import ApplicationReport
from tony.schedulers.yarn.client.application_tags import build_tags, find_staging, is_ours
from tony.schedulers.yarn.settings import YarnSettings


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
    found = ApplicationReport(application_type=settings.application_type, tags=build_tags(settings))
    assert is_ours(found)
    assert not is_ours(ApplicationReport(application_type="SPARK", tags=("nightly",)))
