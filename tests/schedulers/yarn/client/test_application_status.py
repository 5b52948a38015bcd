"""Where the cluster's own pages show a job."""

from __future__ import annotations

import pytest

from tony.hadoop.wire.reports import ApplicationReport
from tony.schedulers.yarn.client.application_status import find_tracking_url


@pytest.mark.parametrize(
    ("tracking", "page"),
    [
        ("http://rm:8088/proxy/application_1_0001/", "http://rm:8088/proxy/application_1_0001/"),
        ("rm:8088/proxy/application_1_0001/", "http://rm:8088/proxy/application_1_0001/"),
        ("https://rm:8090/cluster/app/application_1_0001", "https://rm:8090/cluster/app/application_1_0001"),
        ("N/A", ""),
        ("ftp://rm/", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_the_tracking_address(tracking: str | None, page: str) -> None:
    """As the ResourceManager tells it, with a scheme, or nothing."""
    assert find_tracking_url(ApplicationReport(tracking_url=tracking)) == page
