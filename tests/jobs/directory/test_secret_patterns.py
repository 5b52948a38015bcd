"""Secrets in what programs print."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from tony.jobs.directory.secret_patterns import HTML, JSON, PRINTED, FormMask

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
ASSIGNED = [
    ("--password=hunter2", "--password=*******"),
    ("--db-password secret --x", "--db-password ****** --x"),
    ("--api-key=abc", "--api-key=***"),
    ("['x', '--password', 'hunter2']", "['x', '--password', '*******']"),
    ('{"api_key": "abcdefgh", "n": 1}', '{"api_key": "********", "n": 1}'),
    ("{'client_secret': 'abcdefgh'}", "{'client_secret': '********'}"),
    ('password="correct-horse"', 'password="*************"'),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG==", "aws_secret_access_key = ***********************"),
    ("db_password: hunter22", "db_password: ********"),
    ("Token=abc123 ", "Token=****** "),
    ("http://h/x?access_token=abcdef&b=1", "http://h/x?access_token=******&b=1"),
    ('{"m": "{\\"password\\": \\"abcdefgh\\"}"}', '{"m": "{\\"password\\": \\"********\\"}"}'),
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
def test_text_that_looks_like_a_secret_is_masked(printed: str, shown: str) -> None:
    """With as many stars as it had bytes."""
    assert PRINTED.mask_text(printed) == shown


@pytest.mark.parametrize("printed", SHOWN)
def test_other_text_is_not_masked(printed: str) -> None:
    assert PRINTED.mask_text(printed) == printed


@pytest.mark.parametrize(
    "code",
    [
        "password = get_password()",
        "password=self.password2,",
        'token = os.environ["HF_TOKEN1"]',
        "login(token=token)",
        "def f(token: str, password: Password1Type) -> None:",
        "token = tokens2[0]",
        '{"eos_token": "<|endoftext|>", "pad_token": "[PAD]", "unk_token": "unknown1"}',
        "token_count=1000000 max_tokens=4096abc",
        "key = sort_column_1",
        "token: 1000000",
        "--max-tokens 100 --tokenizer gpt2-long",
        '"page_token"',
    ],
)
def test_code_and_counts(code: str) -> None:
    """Names of secrets occur in many lines that hold none."""
    assert PRINTED.mask_text(code) == code


@pytest.mark.parametrize(("printed", "shown"), ASSIGNED)
def test_values_behind_names(printed: str, shown: str) -> None:
    assert PRINTED.mask_text(printed) == shown
    assert json.loads(JSON.mask_text(json.dumps([printed]))) == [shown]
    assert HTML.mask_text(str(escape(printed))) == str(escape(shown))


def test_fields_of_our_own_answers_stay() -> None:
    """The token of a page is in its JSON and HTML."""
    answer, page = json.dumps({"page_token": "abcdef12345"}), '<div data-token="abcdef12345"><a href="x?a=1&amp;b=2">'
    assert JSON.mask_text(answer) == answer
    assert HTML.mask_text(page) == page


@given(st.binary(max_size=300), st.sampled_from([PRINTED, JSON, HTML]))
def test_offsets_stay(data: bytes, mask: FormMask) -> None:
    """Whatever is printed, it is as long as it was, and its lines are where they were."""
    hidden = mask.hide(data)
    assert len(hidden) == len(data)
    assert all(after in (before, ord("*")) for before, after in zip(data, hidden, strict=True))


@given(st.text(), st.sampled_from([printed for printed, _ in HIDDEN]))
def test_json_stays_json(text: str, secret: str) -> None:
    """What is hidden inside of JSON is hidden inside of one text of it."""
    before = {"a": f"{text}{secret}", "b": text}
    after = json.loads(JSON.hide(json.dumps(before).encode()))
    assert after.keys() == before.keys()


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "A_",
        "eyJ",
        "://",
        "TOKEN",
        "sk-",
        "-----BEGIN ",
        "://x:y@",
        "PRIVATE KEY-----",
        "token=",
        "token",
        "--a",
        "password: a1",
    ],
)
def test_no_text_takes_long(unit: str) -> None:
    """A megabyte of what forms begin with takes no longer than any other."""
    data = (unit * (1 << 20))[: 1 << 20].encode()
    began = time.process_time()
    PRINTED.hide(data)
    assert time.process_time() - began < 20
