"""Words and numbers as pages show them."""

from __future__ import annotations

import pytest

from tony.web import page_text


@pytest.mark.parametrize(
    ("said", "html"),
    [
        ("Run `tony login <name>`, then again.", "Run <code>tony login &lt;name&gt;</code>, then again."),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("it's `open", "it&#39;s `open"),
        ("<b>\u202e", "&lt;b&gt;\\u202e"),
    ],
)
def test_what_is_to_be_typed_looks_so(said: str, html: str) -> None:
    """What stands between backticks; the rest stays text, and nothing in it steers."""
    assert html == str(page_text.render_sentence(said))
