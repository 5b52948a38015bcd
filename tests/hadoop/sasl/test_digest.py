"""DIGEST-MD5: golden values accepted by Hadoop, both sides against each other, and garbage."""

from __future__ import annotations

from binascii import a2b_base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hadoop.digest_server import DigestServer
from tony.hadoop.sasl import digest_layers
from tony.hadoop.sasl.digest import DigestClient, Secrets, parse_challenge, parse_directives
from tony.hadoop.sasl.digest_layers import (
    Protection,
    Rc4,
    SaslExchangeError,
    SecurityLayer,
    find_usable_ciphers,
    make_layer,
    parse_protections,
    select_protection,
)

PASSWORD = bytes.fromhex("c29191fa03fac490b5a5138230100852f246f7d7")
NONCE = "kbIGkt8jD8TapKL3luItJ2aX2pAW13B8QzqucmJ0"
CNONCE = "M+KwIJq5Y9n9QFrnHjbYfxyKj/M++idcdw9gD8ZW"
USER = "Cg0KCQgqEIDQlf+8MRABEAU="


def test_a_recorded_login_of_hadoop() -> None:
    """From Hadoop 3.4.1."""
    client = DigestClient(a2b_base64(USER), PASSWORD, cnonce=CNONCE)
    challenge = f'realm="default",nonce="{NONCE}",qop="auth",charset=utf-8,algorithm=md5-sess'
    said = parse_directives(client.answer(challenge.encode()))
    assert "10cb2d950e048c66f3fe5478209efc2a" == said["response"]
    assert (USER, "default", "/default", "00000001", "auth") == tuple(
        said[name] for name in ("username", "realm", "digest-uri", "nc", "qop")
    )
    client.confirm(b"rspauth=8d43c1fc9f256d8bc032ebc030cccd66")
    assert client.complete
    assert client.create_layer() is None


def test_the_proof_of_the_server_is_looked_at() -> None:
    """An impostor cannot make one."""
    client = DigestClient(b"id", b"password")
    client.answer(f'realm="default",nonce="{NONCE}",qop="auth",algorithm=md5-sess'.encode())
    for wrong in (b"", b"rspauth=", b"rspauth=8d43c1fc9f256d8bc032ebc030cccd66", b"nothing"):
        with pytest.raises(SaslExchangeError):
            client.confirm(wrong)
    with pytest.raises(SaslExchangeError, match="not complete"):
        client.create_layer()


def test_a_challenge_as_java_writes_it() -> None:
    """Commas in quotation marks are no ends."""
    heard = parse_challenge(
        b'realm="default",nonce="a\\"b",qop="auth-conf,auth",charset=utf-8,'
        b'cipher="3des,rc4,des,rc4-56,rc4-40",algorithm=md5-sess,maxbuf=1000'
    )
    assert (Protection.PRIVACY, Protection.AUTHENTICATION) == heard.protections
    assert ("3des", "rc4", "des", "rc4-56", "rc4-40") == heard.ciphers
    assert ('a"b', 1000) == (heard.nonce, heard.max_buffer)


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (b"", "no nonce"),
        (b"nonce=x", "md5-sess"),
        (b'nonce="x', "no list"),
        (b"x" * 10_000, "10000 bytes"),
        (b"nonce=\xff", "no text"),
        (b"nonce", "no list"),
        (b"nonce=x,algorithm=md5-sess,maxbuf=\xd9\xa1", "no number"),
        (b"nonce=x,algorithm=md5-sess,qop=auth-fancy", "nothing that we know"),
        (b"nonce=x,algorithm=md5-sess,qop=auth-conf,cipher=aes", "no cipher that both sides have"),
    ],
)
def test_challenges_that_are_refused(challenge: bytes, said: str) -> None:
    with pytest.raises(SaslExchangeError, match=said):
        DigestClient(b"id", b"password").answer(challenge)


@given(st.binary(max_size=200) | st.text(alphabet='abc=",\\ nonce-md5', max_size=100).map(str.encode))
def test_garbage(data: bytes) -> None:
    """A challenge that is none is refused, and nothing else happens."""
    for use in (parse_directives, parse_challenge, DigestClient(b"id", b"password").answer):
        try:
            use(data)
        except SaslExchangeError:
            pass


@given(st.binary(max_size=100), st.binary(max_size=100), st.sampled_from(Protection))
def test_both_sides_agree(identifier: bytes, password: bytes, protection: Protection) -> None:
    """Any identifier, any password, of any length."""
    server = DigestServer({identifier: password}.get, (protection,))
    client = DigestClient(identifier, password)
    client.confirm(server.evaluate(client.answer(server.challenge())))
    assert identifier == server.identifier
    ours, theirs = client.create_layer(), server.layer()
    assert (protection is Protection.AUTHENTICATION) == (ours is None) == (theirs is None)


def _pair(protection: Protection, cipher: str = "") -> tuple[SecurityLayer, SecurityLayer]:
    a1 = bytes(range(16))
    pair = tuple(make_layer(protection, a1, cipher, limit=65504, client=side) for side in (True, False))
    assert pair[0] is not None
    assert pair[1] is not None
    return pair[0], pair[1]


KINDS = [(Protection.INTEGRITY, ""), *((Protection.PRIVACY, cipher) for cipher in find_usable_ciphers())]


@pytest.mark.parametrize(("protection", "cipher"), KINDS)
@given(messages=st.lists(st.binary(max_size=100), max_size=6))
def test_layers(protection: Protection, cipher: str, messages: list[bytes]) -> None:
    """What one side seals the other opens, in order and in both directions at once."""
    ours, theirs = _pair(protection, cipher)
    for message in messages:
        assert message == theirs.unwrap(ours.wrap(message))
        assert message == ours.unwrap(theirs.wrap(message))


@pytest.mark.parametrize(("protection", "cipher"), KINDS)
@given(message=st.binary(max_size=40), data=st.data())
def test_damage(protection: Protection, cipher: str, message: bytes, data: st.DataObject) -> None:
    """One bit of a sealed message changed, and it is refused."""
    ours, theirs = _pair(protection, cipher)
    sealed = bytearray(ours.wrap(message))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(SaslExchangeError):
        theirs.unwrap(bytes(sealed))


@pytest.mark.parametrize(("protection", "cipher"), KINDS)
@given(data=st.binary(max_size=60))
def test_nonsense_instead_of_a_sealed_message(protection: Protection, cipher: str, data: bytes) -> None:
    _, theirs = _pair(protection, cipher)
    with pytest.raises(SaslExchangeError):
        theirs.unwrap(data + b"\x00\x01\x00\x00\x00\x00")


@pytest.mark.parametrize(("protection", "cipher"), KINDS)
def test_replay_and_reflection(protection: Protection, cipher: str) -> None:
    """A message twice, one left out, and our own sent back."""
    ours, theirs = _pair(protection, cipher)
    first, second = ours.wrap(b"one"), ours.wrap(b"two")
    assert b"one" == theirs.unwrap(first)
    with pytest.raises(SaslExchangeError, match="out of order"):
        theirs.unwrap(first)
    ours, theirs = _pair(protection, cipher)
    with pytest.raises(SaslExchangeError, match="out of order"):
        theirs.unwrap(second)
    with pytest.raises(SaslExchangeError):
        ours.unwrap(first)


def test_rc4() -> None:
    assert "bbf316e8d940af0ad3" == Rc4(b"Key").crypt(b"Plaintext").hex()
    assert "1021bf0420" == Rc4(b"Wiki").crypt(b"pedia").hex()
    assert "45a01f645fc35b383552544b9bf5" == Rc4(b"Secret").crypt(b"Attack at dawn").hex()
    stream = Rc4(b"Key")
    assert "bbf316e8d940af0ad3" == (stream.crypt(b"Plain") + stream.crypt(b"") + stream.crypt(b"text")).hex()


def test_the_example_of_the_rfc() -> None:
    """RFC 2831, section 4: user chris at elwood.innosoft.com."""
    secrets = Secrets(
        user="chris",
        password="secret",
        realm="elwood.innosoft.com",
        nonce="OA6MG9tEQGm2hh",
        cnonce="OA6MHXh6VqTrRk",
        uri="imap/elwood.innosoft.com",
        protection=Protection.AUTHENTICATION,
    )
    assert "d388dad90d4bbd760a152321f2143af7" == secrets.compute_proof(of_server=False)
    assert "ea40f60335c427b5527b84dbabcdfffd" == secrets.compute_proof(of_server=True)
    assert "secret'" not in repr(secrets)


def test_md5_where_fips_forbids_it() -> None:
    """It is requested as what it is: not for security."""
    assert digest_layers.md5.keywords == {"usedforsecurity": False}


def test_without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    """RC4 needs no package; who has only 3DES to offer is told what to install."""
    monkeypatch.setattr(digest_layers, "find_spec", lambda name: None)
    challenge = b'nonce="x",algorithm=md5-sess,qop="auth-conf",cipher="3des%s"'
    assert b'cipher="rc4"' in DigestClient(b"id", b"password").answer(challenge % b",rc4,rc4-40")
    with pytest.raises(SaslExchangeError, match="3des needs the Python package cryptography"):
        DigestClient(b"id", b"password").answer(challenge % b"")


def test_protections() -> None:
    assert (Protection.PRIVACY, Protection.AUTHENTICATION) == parse_protections("privacy, authentication,privacy")
    assert () == parse_protections("")
    with pytest.raises(ValueError, match="write authentication, integrity or privacy"):
        parse_protections("secrecy")
    assert Protection.INTEGRITY is select_protection((), (Protection.INTEGRITY, Protection.PRIVACY))
    assert Protection.PRIVACY is select_protection((Protection.PRIVACY,), (Protection.INTEGRITY, Protection.PRIVACY))
