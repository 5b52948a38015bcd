"""The documentation site: every page can be read and searched without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright", reason="needs Playwright, which is not in this environment")

from playwright.sync_api import expect

from tests.e2e.browsers import browsing, chromium

ROOT = Path(__file__).parents[2]
#: One page of each kind: the README, a guide, a generated table, a list, a page of an example.
PAGES = ("index", "yarn", "settings", "decisions/index", "examples/digits/index")

pytestmark = pytest.mark.slow


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the site is served, built as `make site` builds it."""
    if chromium() is None:
        pytest.skip("there is no Chromium on PATH")
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_pages_and_search_load_nothing_from_other_hosts(address: str) -> None:
    with browsing() as browser, browser.page(address) as page:
        for name in PAGES:
            page.goto(f"{name}.html", wait_until="load")
            expect(page.locator("article h1").first).to_be_visible()
        page.goto("index.html", wait_until="load")
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


def test_pictures_of_the_readme_are_shown(address: str) -> None:
    with browsing() as browser, browser.page(address) as page:
        page.goto("index.html", wait_until="load")
        widths = page.eval_on_selector_all("article img", "images => images.map(image => image.naturalWidth)")
        assert widths
        assert all(width > 0 for width in widths)


def test_a_link_to_no_heading_fails_the_build(tmp_path: Path) -> None:
    """Through `scripts/site`, as `make check` runs it."""
    for name in ("README.md", "mkdocs.yml", "requirements/lock.txt", "scripts/site", "scripts/site_hook.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("bench", "docs", "examples", "tests"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "logs", "golden")
        )
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    (tmp_path / "docs" / "glossary.md").write_text("# Glossary\n\n[Roles](yarn.md#no-such-heading)\n")
    done = subprocess.run([tmp_path / "scripts" / "site"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "'yarn.md#no-such-heading'" in done.stderr
