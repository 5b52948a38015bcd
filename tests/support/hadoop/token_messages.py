"""Tokens in messages, as Hadoop's daemons send them."""

from tony.hadoop.tokens.token import HadoopToken
from tony.hadoop.wire import rpc


def to_message(token: HadoopToken) -> rpc.Token:
    """Return a token as messages carry it."""
    return rpc.Token(identifier=token.identifier, password=token.password, kind=token.kind, service=token.service)
