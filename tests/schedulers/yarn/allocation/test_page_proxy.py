"""The proxy of a job's page on YARN and its OS users, from the cluster's configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts import mentions
from tests.schedulers.yarn.fake_cluster import JOB, start_fake_cluster
from tests.schedulers.yarn.samples import uploaded
from tony.schedulers.allocator_interface import PageProxy
from tony.schedulers.yarn.allocation.allocator import YarnAllocator
from tony.schedulers.yarn.launch_payload import Uploaded
from tony.testing.sample_jobs import build_two_roles

RM = {"yarn.resourcemanager.webapp.address": "127.0.0.1:8088"}
PAIR = {
    "yarn.resourcemanager.ha.enabled": "true",
    "yarn.resourcemanager.ha.rm-ids": "a,b",
    "yarn.resourcemanager.hostname.a": "127.0.0.1",
    "yarn.resourcemanager.hostname.b": "127.0.0.2",
}
SECURE_WEB = {"yarn.http.policy": "HTTPS_ONLY", "yarn.resourcemanager.webapp.https.address": "127.0.0.1:8090"}
SERVES = uploaded("pages.zip", public=True)


async def load_page_proxy(
    folder: Path, configuration: Mapping[str, str], pages: Uploaded | None = SERVES, memory: int | str = "1g"
) -> PageProxy:
    """What an application master is told that sees this configuration."""
    spec = replace(build_two_roles(), scheduler_settings={"am_memory": memory})
    async with start_fake_cluster(folder, opens=False, spec=spec) as cluster:
        payload = cluster._payload()
        seen = {**payload.configuration, **configuration}
        source = YarnAllocator(cluster.job, replace(payload, configuration=seen, pages=pages), cluster._container_env())
        try:
            page_proxy = source.page_proxy()
        finally:
            source._store.close()
    assert page_proxy is not None
    return page_proxy


@pytest.mark.parametrize(
    ("configuration", "peers", "proxy", "origins"),
    [
        (RM, ("127.0.0.1",), "http://127.0.0.1:8088", {"http://127.0.0.1:8088"}),
        (SECURE_WEB, ("127.0.0.1",), "https://127.0.0.1:8090", {"https://127.0.0.1:8090"}),
        (
            {**RM, "yarn.web-proxy.address": "127.0.0.3:9099"},
            ("127.0.0.3",),
            "http://127.0.0.3:9099",
            {"http://127.0.0.1:8088", "http://127.0.0.3:9099"},
        ),
        (PAIR, ("127.0.0.1", "127.0.0.2"), "http://127.0.0.1:8088", {"http://127.0.0.1:8088", "http://127.0.0.2:8088"}),
    ],
    ids=["one", "https", "proxy of its own", "pair"],
)
async def test_only_the_proxy_is_served(
    tmp_path: Path, configuration: Mapping[str, str], peers: tuple[str, ...], proxy: str, origins: set[str]
) -> None:
    """Only hosts of the proxy, under all names that browsers use for it; all other clients are redirected to it."""
    page_proxy = await load_page_proxy(tmp_path, configuration)
    assert (page_proxy.peers, page_proxy.proxy, set(page_proxy.origins)) == (peers, f"{proxy}/proxy/{JOB}/", origins)
    assert page_proxy.runs_as == ("yarn",)


async def test_users_that_may_see_the_page(tmp_path: Path) -> None:
    """All users that YARN lets through, as it shows them all output; unless it has ACLs."""
    assert (await load_page_proxy(tmp_path / "open", RM)).vouches
    listed = {**RM, "yarn.acl.enable": "true", "yarn.resourcemanager.principal": "resman/_HOST@EXAMPLE.ORG"}
    page_proxy = await load_page_proxy(tmp_path / "lists", listed)
    assert (page_proxy.vouches, page_proxy.runs_as) == (False, ("resman", "yarn"))


async def test_packages_that_serve_the_page(tmp_path: Path) -> None:
    """The shipped archive, compiled for this Python if possible; otherwise the plain page says why it is the only
    one."""
    page_proxy = await load_page_proxy(tmp_path, RM)
    assert (page_proxy.packages, page_proxy.plain) == (str(tmp_path / "tony-pages/pages.zip"), "")
    compiled = tmp_path / f"tony-pages/pages-{sys.implementation.cache_tag}.zip"
    compiled.parent.mkdir()
    compiled.touch()
    assert (await load_page_proxy(tmp_path, RM)).packages == str(compiled)
    without = await load_page_proxy(tmp_path, RM, pages=None)
    assert without.packages == ""
    assert mentions(without.plain, "tony-jobs[web]", "submitted")
    small = await load_page_proxy(tmp_path, RM, memory="255m")
    assert (small.packages, small.plain) == ("", "scheduler.yarn.am_memory is below 256m.")
