"""The conversation before the first call, without a socket: in turn, out of turn, and garbage."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hadoop.ipc.echo import TOKEN, TOKENS
from tests.support.hadoop.digest_server import DigestServer
from tony.address import Address
from tony.errors import InfraError
from tony.hadoop.errors import IpcProtocolError, LoginError
from tony.hadoop.ipc.login import LoginIdentity, Negotiation
from tony.hadoop.wire.proto import decode, read_delimited
from tony.hadoop.wire.rpc import RpcSasl, SaslAuth, SaslState

HERE = Address(host="rm1.example.com", port=8032)
KERBEROS = LoginIdentity(server_principal="rm/rm1.example.com@EXAMPLE.COM")


def _new(login: LoginIdentity | None = None) -> Negotiation:
    made = Negotiation(login or LoginIdentity(token=TOKEN), HERE)
    made.begin()
    return made


def _sent(frame: bytes) -> RpcSasl:
    _, offset = read_delimited(frame, 4)
    return decode(RpcSasl, read_delimited(frame, offset)[0])


def _offer(*auths: SaslAuth) -> RpcSasl:
    return RpcSasl(state=SaslState.NEGOTIATE, auths=auths)


def _token_auth(server: DigestServer) -> SaslAuth:
    return SaslAuth(
        method="TOKEN", mechanism="DIGEST-MD5", protocol="", server_id="default", challenge=server.challenge()
    )


def test_the_choice_is_returned_unchanged() -> None:
    """But for the challenge: the daemon compares it with its own, byte for byte."""
    server = DigestServer(TOKENS.get)
    negotiation = _new()
    kerberos = SaslAuth(method="KERBEROS", mechanism="GSSAPI", protocol="rm", server_id="rm1.example.com")
    sent = _sent(negotiation.receive(_offer(kerberos, _token_auth(server))))
    assert SaslState.INITIATE is sent.state
    assert (SaslAuth(method="TOKEN", mechanism="DIGEST-MD5", protocol="", server_id="default"),) == sent.auths
    proof = server.evaluate(sent.token or b"")
    assert b"" == negotiation.receive(RpcSasl(state=SaslState.SUCCESS, token=proof))
    assert negotiation.done
    assert negotiation.layer is None


def test_an_impostor_without_the_password() -> None:
    """It may say SUCCESS; it has no proof."""
    for token in (None, b"", b"rspauth=00000000000000000000000000000000", b"\xff", b"x" * 100_000):
        negotiation = _new()
        negotiation.receive(_offer(_token_auth(DigestServer(TOKENS.get))))
        with pytest.raises(LoginError):
            negotiation.receive(RpcSasl(state=SaslState.SUCCESS, token=token))
        assert not negotiation.done


def test_an_offer_twice() -> None:
    """A daemon that does not take our choice would continue offering for ever."""
    negotiation = _new()
    offer = _offer(_token_auth(DigestServer(TOKENS.get)))
    negotiation.receive(offer)
    with pytest.raises(LoginError, match=f"{HERE}.*offered"):
        negotiation.receive(offer)


@pytest.mark.parametrize("state", [SaslState.INITIATE, SaslState.RESPONSE, SaslState.WRAP, SaslState.CHALLENGE])
def test_out_of_turn(state: SaslState) -> None:
    with pytest.raises(IpcProtocolError, match=f"{HERE}.*{state.name}"):
        _new().receive(RpcSasl(state=state, token=b"x"))


def test_after_the_end() -> None:
    negotiation = _new(LoginIdentity(token=TOKEN, fallback_to_simple=True))
    negotiation.receive(RpcSasl(state=SaslState.SUCCESS))
    with pytest.raises(IpcProtocolError, match=str(HERE)):
        negotiation.receive(RpcSasl(state=SaslState.SUCCESS))


def test_a_login_without_end() -> None:
    """A daemon cannot keep a client busy with challenges for ever."""
    negotiation = _new(KERBEROS)
    negotiation._gssapi = SimpleNamespace(step=lambda token: b"x")  # type: ignore[assignment]
    challenge = RpcSasl(state=SaslState.CHALLENGE, token=b"x")
    for _ in range(12):
        negotiation.receive(challenge)
    with pytest.raises(IpcProtocolError, match=f"{HERE}.*12"):
        negotiation.receive(challenge)
    assert not negotiation.done


def test_another_mechanism_for_tokens() -> None:
    """Hadoop 3.5 lets sites bring their own; the error names it."""
    with pytest.raises(LoginError, match=f"{HERE}.*SCRAM-SHA-256.*TOKEN"):
        _new().receive(_offer(SaslAuth(method="TOKEN", mechanism="SCRAM-SHA-256")))


def test_no_way_in_common() -> None:
    """The error names what the daemon takes."""
    with pytest.raises(LoginError, match=f"{HERE}.*KERBEROS, PLAIN.*TOKEN"):
        _new().receive(
            _offer(SaslAuth(method="KERBEROS", mechanism="GSSAPI"), SaslAuth(method="PLAIN", mechanism="PLAIN"))
        )


def test_the_daemons_principal_must_be_the_expected_one() -> None:
    """Before anything is asked of the KDC."""
    auth = SaslAuth(method="KERBEROS", mechanism="GSSAPI", protocol="mallory", server_id="evil.example.com")
    with pytest.raises(LoginError, match=r"mallory/evil\.example\.com.*rm/rm1\.example\.com@EXAMPLE\.COM"):
        _new(KERBEROS).receive(_offer(auth))


@pytest.mark.parametrize("number", ["192.0.2.1", "2001:db8::1", "2001:DB8:0:0:0:0:0:1"])
def test_a_number_stands_for_the_name_that_it_has(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    """A principal of the number is another one; it is expected only where the DNS has no name."""

    def expected() -> str:
        auth = SaslAuth(method="KERBEROS", mechanism="GSSAPI", protocol="mallory", server_id=number)
        login = LoginIdentity(server_principal="rm/_HOST@EXAMPLE.COM")
        with pytest.raises(LoginError) as caught:
            Negotiation(login, Address(host=number, port=8032)).receive(_offer(auth))
        return str(caught.value).partition(", but ")[2].partition(" is expected")[0]

    def find_none(host: str) -> tuple[str, list[str], list[str]]:
        raise socket.herror(1, "Unknown host")

    monkeypatch.setattr(socket, "gethostbyaddr", lambda host: ("RM1.example.com", [], [host]))
    assert expected() == "rm/rm1.example.com@EXAMPLE.COM"
    monkeypatch.setattr(socket, "gethostbyaddr", find_none)
    assert expected() == f"rm/{number.lower()}@EXAMPLE.COM"


_texts = st.none() | st.text(max_size=20)
_auths = st.builds(
    SaslAuth,
    method=st.sampled_from(["TOKEN", "KERBEROS", "SIMPLE", "\x1b[31m"]) | st.text(max_size=10),
    mechanism=st.sampled_from(["DIGEST-MD5", "GSSAPI", ""]) | st.text(max_size=10),
    protocol=_texts,
    server_id=_texts,
    challenge=st.none()
    | st.binary(max_size=100)
    | st.sampled_from([b'realm="x",nonce="y",algorithm=md5-sess', b'nonce="y",qop="auth-conf",algorithm=md5-sess']),
)
_messages = st.builds(
    RpcSasl,
    state=st.sampled_from(SaslState),
    token=st.none() | st.binary(max_size=50),
    auths=st.lists(_auths, max_size=3).map(tuple),
)


@given(st.lists(_messages, max_size=6), st.booleans())
def test_nonsense(messages: list[RpcSasl], fallback: bool) -> None:
    """Whatever a daemon says, it is answered or refused; never believed without proof."""
    negotiation = _new(LoginIdentity(token=TOKEN, fallback_to_simple=fallback))
    said = ""
    try:
        for message in messages:
            negotiation.receive(message)
    except InfraError as error:
        said = str(error)
    assert "\x1b" not in said
    assert fallback or not negotiation.done
