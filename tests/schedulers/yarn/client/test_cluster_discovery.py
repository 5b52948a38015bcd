"""Which cluster is meant, and what is said of one that does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tony.mini import PROPERTY
from tony.mini.site_xml import to_xml
from tony.model.layout import Home
from tony.schedulers.yarn.client.cluster_discovery import find_cluster
from tony.schedulers.yarn.settings import YarnSettings


@pytest.mark.parametrize("mini", [True, False])
def test_how_to_mend_a_small_cluster(tmp_path: Path, mini: bool) -> None:
    """Whose ResourceManager does not answer is told with its address; of `tony mini` also what starts it again."""
    (tmp_path / "core-site.xml").write_text(
        to_xml({"fs.defaultFS": "hdfs://127.0.0.1:2", **({PROPERTY: "true"} if mini else {})})
    )
    (tmp_path / "yarn-site.xml").write_text(to_xml({"yarn.resourcemanager.address": "127.0.0.1:1"}))
    cluster = find_cluster(YarnSettings(conf=str(tmp_path)), Home(tmp_path), {})
    (daemon,) = cluster.applications()._proxy.daemons
    assert daemon.source.endswith("; of tony mini: restart it with `tony mini restart rm`") is mini
