"""Inputs for Hypothesis: what a target is used to, changed as faults and enemies would change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from hypothesis import strategies as st

from tests.fuzz.json_change import change
from tests.fuzz.target import Target

#: Times the fuzzer's longest input that one of ours may have: enough for what grows with its square to show.
_LONGER = 25

#: What has broken parsers before, of text, of JSON and of numbers.
NASTY: tuple[bytes, ...] = (
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\u0000",
    b"\x1b[2J\x1b]0;x\x07",
    b"\xe2\x80\xae",
    b"\xc2\xb2",
    b"\xd9\xa3",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-0",
    b"1e308",
    b"true",
    b"null",
    b"-1",
    b"18446744073709551616",
    b"9" * 5000,
    b'"',
    b"'",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"..",
    b"/",
    b"%s{0}",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"{" * 3000,
)

_Edit = Callable[[bytes], bytes]


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """A target's seeds after up to six changes, and now and then bytes of no meaning."""
    seeds, tokens, longest = target.seeds(), target.tokens, _LONGER * target.longest
    words = st.sampled_from([*NASTY, *tokens])
    place = st.integers(0, 2**16)
    length = st.integers(1, 64)
    edit = st.one_of(
        st.builds(_insert, place, words | st.binary(min_size=1, max_size=8)),
        st.builds(_replace, place, length, words | st.binary(min_size=1, max_size=8)),
        st.builds(_flip, place, st.integers(1, 255)),
        st.builds(_cut, place, length | st.just(longest)),
        st.builds(_repeat, place, length, st.sampled_from([2, 10, 1000, longest])),
        st.builds(_graft, place, place, st.sampled_from(list(seeds))),
    )
    changed = st.builds(_apply, st.sampled_from(list(seeds)), st.lists(edit, max_size=6), st.just(longest))
    if target.json:
        as_json = st.builds(lambda data, seed: change(data, Random(seed)), st.sampled_from(list(seeds)), place)
        return st.one_of(as_json, as_json, as_json, changed, changed, st.binary(max_size=64))
    return st.one_of(changed, changed, changed, st.binary(max_size=64))


def _apply(data: bytes, edits: Sequence[_Edit], longest: int) -> bytes:
    for edit in edits:
        data = edit(data)[:longest]
    return data


def _insert(place: int, word: bytes) -> _Edit:
    def edit(data: bytes) -> bytes:
        at = place % (len(data) + 1)
        return data[:at] + word + data[at:]

    return edit


def _replace(place: int, length: int, word: bytes) -> _Edit:
    def edit(data: bytes) -> bytes:
        at = place % (len(data) + 1)
        return data[:at] + word + data[at + length :]

    return edit


def _flip(place: int, bits: int) -> _Edit:
    def edit(data: bytes) -> bytes:
        if not data:
            return data
        at = place % len(data)
        return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]

    return edit


def _cut(place: int, length: int) -> _Edit:
    def edit(data: bytes) -> bytes:
        at = place % (len(data) + 1)
        return data[:at] + data[at + length :]

    return edit


def _repeat(place: int, length: int, times: int) -> _Edit:
    def edit(data: bytes) -> bytes:
        at = place % (len(data) + 1)
        piece = data[at : at + length]
        return data[:at] + piece * min(times, 100_000 // max(1, len(piece))) + data[at + length :]

    return edit


def _graft(place: int, other_place: int, other: bytes) -> _Edit:
    def edit(data: bytes) -> bytes:
        return data[: place % (len(data) + 1)] + other[other_place % (len(other) + 1) :]

    return edit
