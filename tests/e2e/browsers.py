"""A real browser for tests, which tells what it asked for and what it complained of."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

#: Milliseconds that anything on a page may take to come true.
TIMEOUT_SECONDS = 60_000
expect.set_options(timeout=TIMEOUT_SECONDS)
#: Widths at which every page is to be read: a desk, and a telephone.
WIDE, NARROW = 1280, 390

Scheme = Literal["light", "dark"]


def chromium() -> str | None:
    """The program; None if there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browsing:
    """A browser, and what came of it.

    Attributes:
        asked: addresses of everything that pages loaded.
        complaints: errors and warnings of pages: of scripts, and of the content security policy.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.asked: list[str] = []
        self.complaints: list[str] = []

    @contextmanager
    def page(
        self,
        base: str,
        *,
        width: int = WIDE,
        scheme: Scheme = "light",
        script: bool = True,
        zone: str = "Asia/Tokyo",
        watched: bool = True,
    ) -> Iterator[Page]:
        """A window of its own; if it is not `watched`, nothing of it counts in `asked` and `complaints`."""
        context = self._browser.new_context(
            base_url=base,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=script,
            timezone_id=zone,
            locale="en-GB",
        )
        context.set_default_timeout(TIMEOUT_SECONDS)
        try:
            yield self._watched(context) if watched else context.new_page()
        finally:
            context.close()

    def _watched(self, context: BrowserContext) -> Page:
        page = context.new_page()
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.location.get('url')}: {message.text}")

    def hosts(self) -> set[str]:
        """Every server that was asked for something."""
        return {urlsplit(address).netloc for address in self.asked if not address.startswith("data:")}


@contextmanager
def browsing() -> Iterator[Browsing]:
    """A browser; loopback is all that it reaches in a test anyway."""
    path = chromium()
    assert path is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield Browsing(browser)
        finally:
            browser.close()


def barriers(page: Page) -> list[str]:
    """What axe finds that keeps people out, one line each; more than what its best practices want."""
    found: Any = Axe().run(page, options={"resultTypes": ["violations"]}).response
    return [
        f"{page.url}: {rule['id']} ({rule['impact']}): {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for rule in found["violations"]
        for node in rule["nodes"][:3]
    ]
