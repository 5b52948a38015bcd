"""The documentation site: every page can be read and searched without a network."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright", reason="needs Playwright, which is not in this environment")

from playwright.sync_api import expect

from tests.e2e.browsers import browsing, chromium
from tests.support.http_servers import LocalServer, QuietHandler

ROOT = Path(__file__).parents[2]
#: One page of each kind: the README, a guide, a generated table, a list, a page of an example.
PAGES = ("index", "yarn", "settings", "decisions/index", "examples/digits/index")

pytestmark = pytest.mark.slow


class _Handler(QuietHandler, SimpleHTTPRequestHandler):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, directory=str(ROOT / "site"))


@pytest.fixture
def address() -> Iterator[str]:
    """Where the site is served, built as `make site` builds it: nothing is done when nothing changed."""
    if chromium() is None:
        pytest.skip("there is no Chromium on PATH")
    subprocess.run([ROOT / "scripts" / "site"], check=True)
    with LocalServer(_Handler) as server:
        yield f"http://{server.host_and_port}/"


def test_pages_pictures_and_search_load_nothing_from_other_hosts(address: str) -> None:
    with browsing() as browser, browser.page(address) as page:
        for name in PAGES:
            page.goto(f"{name}.html", wait_until="load")
            expect(page.locator("article h1").first).to_be_visible()
        page.goto("index.html", wait_until="load")
        widths = page.eval_on_selector_all("article img", "images => images.map(image => image.naturalWidth)")
        assert widths
        assert all(width > 0 for width in widths)
        query = page.locator("[data-md-component=search-query]")
        query.click()
        expect(page.locator(".md-search-result__meta")).to_have_text("Type to start searching")  # its script is ready
        query.press_sequentially("restart_grace")
        result = page.locator(".md-search-result__link", has_text="Settings").first
        expect(result).to_be_visible()
        result.click()
        page.wait_for_url("**/settings.html*")
        assert browser.hosts() == {urlsplit(address).netloc}
        assert browser.complaints == []
