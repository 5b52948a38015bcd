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
def test_text_to_be_typed_is_code(said: str, html: str) -> None:
    """Text between backticks; the rest stays text, and nothing in it is markup."""
    assert html == str(page_text.render_sentence(said))
