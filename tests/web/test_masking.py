"""Secrets in what programs print."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.web.masking import Mask

HIDDEN = [
    ("key AKIAIOSFODNN7EXAMPLE.", "key ********************."),
    ("ghp_" + "a1" * 18, "*" * 40),
    ("hf_" + "Ab1" * 11, "*" * 36),
    ("s3://ann:pass-word@host/x", "s3://ann:*********@host/x"),
    ("Authorization: Bearer abcdefghij", "Authorization: Bearer **********"),
    ("export HF_TOKEN=abc WANDB_API_KEY=x", "export HF_TOKEN=*** WANDB_API_KEY=*"),
    ("tony_01234567_" + "x" * 43, "*" * 57),
    ("eyJhbGciOiJI.eyJzdWIiOiIxMjM0.SflKxwRJSMeKK", "*" * 43),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n", "*" * 37),
]
SHOWN = [
    "step 100 loss=0.5 keys=3",
    "tokens=100 token per second: 55",
    "http://host:8080/path",
    "see http://host:8080 or mail ann@host",
    "KEYFRAMES=3 MONKEY=4",
    "s3://bucket/a:b",
    "x = '***'",
]


@pytest.mark.parametrize(("printed", "shown"), HIDDEN)
def test_what_looks_like_a_secret(printed: str, shown: str) -> None:
    """Is stars, as many as it had bytes."""
    assert Mask().text(printed) == shown


@pytest.mark.parametrize("printed", SHOWN)
def test_what_does_not(printed: str) -> None:
    """Is as it was."""
    assert Mask().text(printed) == printed


def test_what_is_known_to_be_one() -> None:
    """Stands nowhere, whatever it looks like; what is too short to be told from other text is left."""
    mask = Mask(["hunter22", "hunter22-long", "ab", "pä55wörd"])
    assert mask.text("xhunter22-longx hunter22 ab pä55wörd") == f"x{'*' * 13}x {'*' * 8} ab {'*' * 10}"


@given(st.binary(max_size=300), st.lists(st.text(max_size=12), max_size=3))
def test_offsets_stay(data: bytes, known: list[str]) -> None:
    """Whatever is printed, it is as long as it was, and its lines are where they were."""
    hidden = Mask(known).hide(data)
    assert len(hidden) == len(data)
    assert all(after in (before, ord("*")) for before, after in zip(data, hidden, strict=True))


@given(st.text(), st.sampled_from([printed for printed, _ in HIDDEN]))
def test_json_stays_json(text: str, secret: str) -> None:
    """What is hidden inside of JSON is hidden inside of one text of it."""
    before = {"a": f"{text}{secret}", "b": text}
    after = json.loads(Mask().hide(json.dumps(before).encode()))
    assert after.keys() == before.keys()


@pytest.mark.parametrize(
    "unit", ["a", "A_", "eyJ", "://", "TOKEN", "sk-", "-----BEGIN ", "://x:y@", "PRIVATE KEY-----"]
)
def test_no_text_takes_long(unit: str) -> None:
    """A megabyte of what forms begin with takes no longer than any other."""
    data = (unit * (1 << 20))[: 1 << 20].encode()
    began = time.process_time()
    Mask().hide(data)
    assert time.process_time() - began < 20
