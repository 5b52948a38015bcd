"""Output of programs becomes HTML: its colours, and nothing else that steers."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.web import ansi_html
from tony.web.ansi_html import PLAIN, TextStyle


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("<script>&'\"", "&lt;script&gt;&amp;&#39;&#34;"),
        ("\x1b[31mred\x1b[0m not", '<span class="f1">red</span> not'),
        ("\x1b[1;32;41mall\x1b[22m less", '<span class="b f2 g1">all</span><span class="f2 g1"> less</span>'),
        ("\x1b[91mbright\x1b[39m", '<span class="f9">bright</span>'),
        ("\x1b[38;5;196mof 256\x1b[m", '<span class="f9">of 256</span>'),
        ("\x1b[38;2;0;0;240mnearest", '<span class="f4">nearest</span>'),
        ("\x1b[38:2:0:0:240mcolons", '<span class="f4">colons</span>'),
        ("\x1b[7mreversed", '<span class="f0 g7">reversed</span>'),
        ("\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;a title\x1b\\text", "text"),
        ("\x1b[2J\x1b[3;4Hclear", "clear"),
        ("\x9b31mC1\x9b0m", "C1"),
        ("cut off \x1b[3", "cut off "),
        ("cut off \x1b]8;;http://x", "cut off "),
        ("1 %\r50 %\r99 %", "99 %"),
        ("done\r", "done"),
        ("abc\b\bXY", "aXY"),
        ("\bx", "x"),
        ("a\tb", "a    b"),
        ("\x00\x07bell", "\\x00\\x07bell"),
        ("\u202eevil", "\\u202eevil"),
    ],
)
def test_a_line(text: str, shown: str) -> None:
    """Each kind of thing that programs print, as it is shown."""
    assert shown == ansi_html.render_line(text)[0]


def test_colours_go_on_over_lines_and_pieces() -> None:
    """A colour holds until it is changed, also where the next piece begins, whose reader hands its name on."""
    shown, style = ansi_html.render_lines(b"\x1b[1;33mone\ntwo\n")
    assert [(0, '<span class="b f3">one</span>'), (11, '<span class="b f3">two</span>')] == shown
    assert "b.f3" == str(style)
    (last,), _ = ansi_html.render_lines(b"three", TextStyle.parse("b.f3"))
    assert (0, '<span class="b f3">three</span>') == last


@pytest.mark.parametrize("text", ["", "x", "f1 onclick=", "f1.", "f99999", "b" * 100, "<b>"])
def test_an_invalid_style_is_ignored(text: str) -> None:
    """A style in a URL is one, or nothing."""
    assert PLAIN == TextStyle.parse(text)


def test_letters_that_are_taken_back() -> None:
    """However many there are, each is read once: the rendering blocks the server's event loop."""
    assert ansi_html.render_line("abc\b\bd\b\b\be") == ("e", PLAIN)
    began = time.process_time()
    shown, _ = ansi_html.render_lines((b"a" * 9_999 + b"\b" * 9_998 + b"\n") * 50)
    assert {html for _, html in shown} == {"a"}
    assert time.process_time() - began < 20


def test_a_long_line_is_cut() -> None:
    """Of a line without an end so much is shown as a browser bears, and said how much more there is."""
    shown, _ = ansi_html.render_line("x" * 1_000_000)
    assert len(shown) < 25_000
    assert "980000 characters more on this line" in shown


@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_nothing_gets_through(data: bytes) -> None:
    """Whatever is printed: no markup but spans of classes, nothing that steers, and every line keeps its offset."""
    shown, style = ansi_html.render_lines(data)
    text = "".join(html for _, html in shown)
    bare = text.replace("</span>", "")
    while (start := bare.find('<span class="')) >= 0:
        end = bare.index('">', start)
        assert set(bare[start + 13 : end]) <= set("bdiufgcut 0123456789")
        bare = bare[:start] + bare[end + 2 :]
    assert "<" not in bare
    assert ">" not in bare
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in bare)
    assert all(offset == 0 or data[offset - 1 : offset] == b"\n" for offset, _ in shown)
    assert style == TextStyle.parse(str(style))
