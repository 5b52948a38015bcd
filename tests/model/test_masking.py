"""Secrets of a job: which names mean one, and stars in their place in every piece of output."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tony.model.masking import MaskedStream, SecretMask, find_secrets, is_secret

SECRET_NAMES = [
    "HF_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "db_password",
    "PASSWD",
    "api-key",
    "WANDB_API_KEY",
    "CREDENTIALS",
    "PassPhrase",
    "DB_PASS",
    "db.pass",
    "SSHPASS",
    "MYSQL_PWD",
    "DBPWD",
    "REDIS_AUTH",
    "PROXY_AUTHORIZATION",
    "SESSION_COOKIE",
    "SENTRY_DSN",
    "AZURE_STORAGE_CONNECTION_STRING",
    "SQLCONNSTR_MAIN",
    "BLOB_SAS",
    "BLOB_SAS_URL",
]
PLAIN_NAMES = [
    "PATH",
    "PWD",
    "OLDPWD",
    "OMP_NUM_THREADS",
    "lr",
    "HOME",
    "",
    "NUM_PASSES",
    "COMPASS",
    "BYPASS",
    "PASS_THROUGH",
    "AUTHOR",
    "AUTHORS",
    "AUTH_TYPE",
    "SSH_AUTH_SOCK",
    "XAUTHORITY",
    "SASL_MECHANISM",
    "SASHIMI",
    "TOKENIZERS_PARALLELISM",
    "num_keypoints",
    "KEYWORDS",
    "SSL_KEY_FILE",
    "HADOOP_TOKEN_FILE_LOCATION",
]
#: Long and short ones, one with a line end, one that begins another one, one that needs quotes everywhere.
SECRETS = ["hunter22", "hunter22-long", 'pä"5&5/wörd', "first line\nsecond line"]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_names_of_other_values(name: str) -> None:
    assert not is_secret(name)


def test_a_job_can_name_more() -> None:
    assert is_secret("LICENSE", ("LICENSE",))
    assert not is_secret("LICENSE", ("LICENCE",))


def test_values_that_are_secret() -> None:
    """Numbers and words behind names of keys and tokens only if the job asks for it; of an address, its password."""
    variables = {
        "HF_TOKEN": "abcde1",
        "DB_PASS": "correcthorse",
        "DB_PASSWORD": "19283746",
        "MAX_TOKENS": "131072",
        "metric_key": "val_loss",
        "PIN": "123456",
        "DB": "pg://ann:pass-word@h/x",
        "A": "b",
    }
    found = {"abcde1", "correcthorse", "19283746", "pass-word"}
    assert find_secrets(variables) == found
    assert find_secrets(variables, ("PIN", "metric_key")) == {*found, "123456", "val_loss"}


def test_whole_secrets() -> None:
    """The longest one counts; what is too short to be told from other text stays."""
    mask = SecretMask(["hunter22", "hunter22-long", "short", "pä55wörd"])
    assert mask.hide_text("xhunter22-longx hunter22 short pä55wörd") == f"x{'*' * 13}x {'*' * 8} short {'*' * 10}"
    assert not SecretMask(["short"])


def test_each_line_of_a_secret() -> None:
    """However it is indented, and however long it is."""
    key = "-----BEGIN KEY-----\n" + "\n".join(f"{number:064}" for number in range(200)) + "\nQw==\n"
    hidden = SecretMask([key, "x" * 10_000]).hide_text(
        "".join(f"  {line}\n" for line in key.splitlines()) + "x" * 10_000
    )
    assert not set(hidden) - set(" *\nQw=")


@pytest.mark.parametrize("secret", ["hunter22-Lo?ng", 'pä"5&5/wö\\rd', "first line\nsecond line"])
def test_encoded_secrets(secret: str) -> None:
    """As JSON, repr, a part of an address, or anywhere inside of base64."""
    mask = SecretMask([secret])
    data = secret.encode()
    encoded = [
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        repr(secret),
        quote(secret),
        quote(secret, ""),
    ]
    for text in encoded:
        assert not set(mask.hide_text(text)) - set("*\"'")
    for before in range(7):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"u" * before + data + b":more").decode()
            hidden = mask.hide_text(text)
            assert hidden.count("*") >= len(data) * 4 // 3 - 3, (text, hidden)


@given(
    st.lists(st.sampled_from([*SECRETS, "hunter", "hunter22-", "h", "first l", "\n", "\r", "x"]), max_size=6),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_pieces_of_any_size(texts: list[str], cuts: list[int]) -> None:
    """A stream is masked as its whole would be, wherever it is cut; only the start of a secret waits for its rest."""
    data = "".join(texts).encode()
    mask = SecretMask(SECRETS)
    stream = MaskedStream(mask)
    places = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    passed = b"".join(stream.feed(data[begin:end]) for begin, end in pairwise(places))
    whole, _ = mask.hide_complete(data)
    assert whole.startswith(passed)
    held = data[len(passed) :]
    assert any(text.startswith(held) for secret in SECRETS for text in (secret.encode(), *secret.encode().split(b"\n")))
    last = stream.release()
    assert last == (held if len(held) < 6 else b"*" * len(held))


def test_a_secret_in_two_halves_with_a_pause() -> None:
    """What was shown because its rest did not come is still known when it comes."""
    stream = MaskedStream(SecretMask(["hunter22"]))
    holding = []
    assert stream.feed(b"a hun") == b"a "
    holding.append(stream.is_holding)
    assert stream.release() == b"hun"
    holding.append(stream.is_holding)
    assert holding == [True, False]
    assert stream.feed(b"te") + stream.release() == b"te"
    assert stream.feed(b"r") + stream.release() == b"*"
    assert stream.feed(b"22 b") == b"** b"


def test_prompts_are_not_held_back() -> None:
    """Text without a line end goes through at once; so does a progress bar."""
    stream = MaskedStream(SecretMask(["hunter22"]))
    for piece in (b"Password: ", b"\r 10 %", b"\r 11 %", b"h\r"):
        assert stream.feed(piece) == piece


@given(st.binary(max_size=300), st.lists(st.text(max_size=12), max_size=3))
def test_offsets_stay(data: bytes, known: list[str]) -> None:
    """Masked text is as long as it was, and its lines are where they were."""
    hidden, _ = SecretMask(known).hide_complete(data)
    assert len(hidden) == len(data)
    assert all(after in (before, ord("*")) for before, after in zip(data, hidden, strict=True))
