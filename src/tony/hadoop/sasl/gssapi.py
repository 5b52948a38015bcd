"""Kerberos through the system's GSSAPI library, loaded on first use; needs no compiler and no package.

A few functions of libgssapi_krb5 through ctypes (RFC 2744), and the SASL mechanism on top of them (RFC 4752). A step
may block on a request to the KDC: call it in a thread.
"""

from __future__ import annotations

import ctypes
import os
import threading
from fnmatch import fnmatchcase
from typing import Any

from tony.control_characters import escape_line
from tony.hadoop.sasl.digest_layers import Protection, SaslExchangeError, select_protection

_LIBRARIES = ("libgssapi_krb5.so.2", "libgssapi_krb5.so", "libgssapi.so.3", "libgssapi_krb5.dylib")
#: Mutual, replay detection, sequence detection, confidentiality, integrity.
_FLAGS = 2 | 4 | 8 | 16 | 32
_MUTUAL = 2
_CONTINUE_NEEDED = 1
_ERRORS = 0xFFFF0000
#: Routine errors, shifted: no credentials; credentials expired.
_NO_CREDENTIALS = 7 << 16
_EXPIRED = 11 << 16
#: Maximum bytes of a sealed message that the client announces. Daemons seal longer responses nevertheless.
_MAX_BUFFER = 65536
#: Bytes that sealing adds at most: the header, checksum and padding of RFC 4121 stay below it.
_OVERHEAD = 256
#: The bits of RFC 4752.
_LAYERS = {1: Protection.AUTHENTICATION, 2: Protection.INTEGRITY, 4: Protection.PRIVACY}

_KRB5 = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
_KRB5_NAME = _KRB5 + b"\x01"
_HOSTBASED_SERVICE = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04"


class _Buffer(ctypes.Structure):
    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("elements", ctypes.c_char_p))


class _Library:
    """The functions, with the types that ctypes must know."""

    def __init__(self) -> None:
        self.gss = _load()
        number, pointer = ctypes.POINTER(ctypes.c_uint32), ctypes.c_void_p
        types: dict[str, list[Any]] = {
            "gss_import_name": [number, ctypes.POINTER(_Buffer), ctypes.POINTER(_Oid), pointer],
            "gss_init_sec_context": [
                *(number, pointer, pointer, pointer, ctypes.POINTER(_Oid), ctypes.c_uint32, ctypes.c_uint32, pointer),
                *(ctypes.POINTER(_Buffer), pointer, ctypes.POINTER(_Buffer), number, number),
            ],
            "gss_wrap": [
                *(number, pointer, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_Buffer)),
                *(ctypes.POINTER(ctypes.c_int), ctypes.POINTER(_Buffer)),
            ],
            "gss_unwrap": [
                *(number, pointer, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer)),
                *(ctypes.POINTER(ctypes.c_int), number),
            ],
            "gss_inquire_context": [number, pointer, pointer, pointer, number, pointer, number, pointer, pointer],
            "gss_inquire_cred": [number, pointer, pointer, number, pointer, pointer],
            "gss_display_name": [number, pointer, ctypes.POINTER(_Buffer), pointer],
            "gss_display_status": [
                *(number, ctypes.c_uint32, ctypes.c_int, ctypes.POINTER(_Oid), number, ctypes.POINTER(_Buffer)),
            ],
            "gss_release_buffer": [number, ctypes.POINTER(_Buffer)],
            "gss_release_name": [number, pointer],
            "gss_delete_sec_context": [number, pointer, pointer],
        }
        for name, arguments in types.items():
            function = getattr(self.gss, name)
            function.argtypes, function.restype = arguments, ctypes.c_uint32

    def take_bytes(self, buffer: _Buffer) -> bytes:
        """Return the bytes of a buffer that the library filled, and free it."""
        data = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
        self.gss.gss_release_buffer(ctypes.byref(ctypes.c_uint32()), ctypes.byref(buffer))
        return data

    def import_name(self, name: str, kind: bytes) -> ctypes.c_void_p:
        made, minor = ctypes.c_void_p(), ctypes.c_uint32()
        major = self.gss.gss_import_name(
            ctypes.byref(minor),
            ctypes.byref(_make_buffer(name.encode())),
            ctypes.byref(_make_oid(kind)),
            ctypes.byref(made),
        )
        self.check(major, minor, f"cannot use the name {escape_line(name)}")
        return made

    def display_name(self, name: ctypes.c_void_p) -> str:
        minor, text = ctypes.c_uint32(), _Buffer()
        major = self.gss.gss_display_name(ctypes.byref(minor), name, ctypes.byref(text), None)
        self.check(major, minor, "cannot read a principal")
        return self.take_bytes(text).rstrip(b"\0").decode("utf-8", "replace")

    def release(self, name: ctypes.c_void_p) -> None:
        if name:
            self.gss.gss_release_name(ctypes.byref(ctypes.c_uint32()), ctypes.byref(name))

    def check(self, major: int, minor: ctypes.c_uint32, what: str) -> None:
        if not major & _ERRORS:
            return
        # The mechanism's own words say more than GSSAPI's, if there are any.
        messages = [
            text
            for text in (self._describe_status(minor.value, 2), self._describe_status(major, 1))
            if text not in ("", "Success")
        ]
        reason = escape_line(": ".join(messages[:1]) or f"GSSAPI error {major:#x}")
        raise SaslExchangeError(f"{what}: {reason}.{_format_advice(major, reason)}")

    def _describe_status(self, status: int, kind: int) -> str:
        minor, more, text = ctypes.c_uint32(), ctypes.c_uint32(), _Buffer()
        major = self.gss.gss_display_status(
            ctypes.byref(minor), status, kind, ctypes.byref(_make_oid(_KRB5)), ctypes.byref(more), ctypes.byref(text)
        )
        return "" if major & _ERRORS or not status else self.take_bytes(text).decode("utf-8", "replace").strip(". \0")


_library: _Library | None = None


def _get_library() -> _Library:
    global _library
    if _library is None:
        _library = _Library()
    return _library


def _load() -> Any:
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SaslExchangeError(
        "this cluster wants Kerberos, and the library for it (libgssapi_krb5.so.2) is not on this machine. "
        "Install it: libgssapi-krb5-2 on Debian and Ubuntu, krb5-libs on Fedora and RHEL."
    )


def _make_buffer(data: bytes) -> _Buffer:
    buffer = _Buffer(len(data), ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p))
    buffer.keep = data  # the library reads it later: it must live as long
    return buffer


def _make_oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), elements)


def _format_advice(major: int, reason: str) -> str:
    cache = os.environ.get("KRB5CCNAME")
    where = f" (KRB5CCNAME={escape_line(cache, 200)})" if cache else ""
    if (
        major & _ERRORS in (_NO_CREDENTIALS, _EXPIRED)
        or "expired" in reason.lower()
        or "no credentials" in reason.lower()
    ):
        return f" Get a ticket with kinit{where}."
    if "not found in kerberos database" in reason.lower():
        return (
            " Look at the daemon's principal in the settings, and at rdns and dns_canonicalize_hostname in krb5.conf."
        )
    return ""


def find_ticket_holder() -> str | None:
    """Return the principal of the ticket that a login would use; None without a ticket, or without Kerberos here."""
    try:
        library = _get_library()
        minor, name = ctypes.c_uint32(), ctypes.c_void_p()
        major = library.gss.gss_inquire_cred(ctypes.byref(minor), None, ctypes.byref(name), None, None, None)
        library.check(major, minor, "no ticket")
        try:
            return library.display_name(name)
        finally:
            library.release(name)
    except SaslExchangeError:
        return None


class GssapiClient:
    """Our side of the conversation: `step` until it is complete, then `layer`.

    Args:
        service: first part of the daemon's principal, `rm`.
        host: second part of it.
        expected: globs of principals that the daemon may be; empty: any.
        preferred: protections in order of preference; empty: what the daemon offers, the weakest first as Java does.
    """

    def __init__(
        self, service: str, host: str, *, expected: tuple[str, ...] = (), preferred: tuple[Protection, ...] = ()
    ) -> None:
        self._service, self._host = service, host
        self._expected, self._preferred = expected, preferred
        self._lib = _get_library()
        self._in_use = threading.Lock()
        self._is_closed = False
        self._context = ctypes.c_void_p()
        self._target = self._import_target_name()
        self._established = False
        self._protection = Protection.AUTHENTICATION
        self._limit = _MAX_BUFFER
        self.complete = False

    def step(self, token: bytes) -> bytes:
        """Return the next token to send; the first step takes an empty token. May query the KDC.

        Raises:
            SaslExchangeError: no ticket, an impostor, a broken conversation, no common protection.
        """
        try:
            with self._in_use:
                if self.complete or self._is_closed:
                    raise SaslExchangeError("the daemon sent another token after the login completed or was closed")
                return self._choose_layer(token) if self._established else self._exchange(token)
        finally:
            if self._is_closed:
                self.close()

    def create_layer(self) -> GssapiLayer | None:
        """Return the layer that wraps later traffic; None without one."""
        if not self.complete:
            raise SaslExchangeError("the login is not complete")
        if self._protection is Protection.AUTHENTICATION:
            return None
        return GssapiLayer(self, private=self._protection is Protection.PRIVACY, limit=self._limit)

    def close(self) -> None:
        """Return back what the library holds; nothing can be wrapped after it. A step in another thread ends first."""
        self._is_closed = True
        if not self._in_use.acquire(blocking=False):
            return  # the step does it
        try:
            if self._context:
                self._lib.gss.gss_delete_sec_context(ctypes.byref(ctypes.c_uint32()), ctypes.byref(self._context), None)
            self._lib.release(self._target)
        finally:
            self._in_use.release()

    def wrap(self, data: bytes, *, private: bool) -> bytes:
        """Seal data."""
        minor, sealed = ctypes.c_uint32(), _Buffer()
        conf = ctypes.c_int()
        major = self._lib.gss.gss_wrap(
            *(ctypes.byref(minor), self._context, int(private), 0, ctypes.byref(_make_buffer(data))),
            *(ctypes.byref(conf), ctypes.byref(sealed)),
        )
        self._lib.check(major, minor, "cannot seal a message")
        if private and not conf.value:
            raise SaslExchangeError("the ticket's cipher cannot encrypt, and the cluster wants privacy")
        return self._lib.take_bytes(sealed)

    def unwrap(self, data: bytes, *, private: bool) -> bytes:
        """Open what the daemon sealed."""
        minor, plain = ctypes.c_uint32(), _Buffer()
        conf, qop = ctypes.c_int(), ctypes.c_uint32()
        major = self._lib.gss.gss_unwrap(
            *(ctypes.byref(minor), self._context, ctypes.byref(_make_buffer(data)), ctypes.byref(plain)),
            *(ctypes.byref(conf), ctypes.byref(qop)),
        )
        self._lib.check(major, minor, "cannot open a sealed message")
        opened = self._lib.take_bytes(plain)
        # The upper half tells of repetitions and gaps: bits 1 to 4 of the supplementary information.
        if major & 0x1E:
            raise SaslExchangeError("a sealed message out of order, or sent twice")
        if private and not conf.value:
            raise SaslExchangeError("a sealed message that is not encrypted, though privacy was agreed on")
        return opened

    def _import_target_name(self) -> ctypes.c_void_p:
        principal = f"{self._service}/{self._host}"
        for glob in self._expected:
            name, at, realm = glob.rpartition("@")
            if at and realm and not any(char in realm for char in "*?[") and matches(principal, (name,)):
                return self._lib.import_name(
                    f"{principal}@{realm}", _KRB5_NAME
                )  # nothing to look up: no DNS has a say in it
        return self._lib.import_name(f"{self._service}@{self._host}", _HOSTBASED_SERVICE)

    def _exchange(self, token: bytes) -> bytes:
        minor, flags, answer = ctypes.c_uint32(), ctypes.c_uint32(), _Buffer()
        major = self._lib.gss.gss_init_sec_context(
            *(ctypes.byref(minor), None, ctypes.byref(self._context), self._target, ctypes.byref(_make_oid(_KRB5))),
            *(
                _FLAGS,
                0,
                None,
                ctypes.byref(_make_buffer(token)),
                None,
                ctypes.byref(answer),
                ctypes.byref(flags),
                None,
            ),
        )
        output = self._lib.take_bytes(answer)
        self._lib.check(major, minor, f"no Kerberos login at {escape_line(self._service)}/{escape_line(self._host)}")
        if not major & _CONTINUE_NEEDED:
            if not flags.value & _MUTUAL:
                raise SaslExchangeError("the daemon did not prove its identity")
            self._check_target()
            self._established = True
        return output

    def _check_target(self) -> None:
        """Check that the authenticated principal is an expected one: DNS may have changed the host."""
        if not self._expected:
            return
        minor, target = ctypes.c_uint32(), ctypes.c_void_p()
        major = self._lib.gss.gss_inquire_context(
            *(ctypes.byref(minor), self._context, None, ctypes.byref(target), None, None, None, None, None)
        )
        self._lib.check(major, minor, "cannot ask who the daemon is")
        try:
            principal = self._lib.display_name(target)
        finally:
            self._lib.release(target)
        if not matches(principal, self._expected):
            raise SaslExchangeError(
                f"the daemon is {escape_line(principal)}, and {', '.join(self._expected)} is expected"
            )

    def _choose_layer(self, token: bytes) -> bytes:
        word = self.unwrap(token, private=False)
        if len(word) != 4:
            raise SaslExchangeError(f"the daemon offers its protections in {len(word)} bytes; 4 are the rule")
        offered = [protection for bit, protection in _LAYERS.items() if word[0] & bit]
        self._protection = select_protection(self._preferred, offered)
        bit = next(bit for bit, protection in _LAYERS.items() if protection is self._protection)
        self._limit = max(64, int.from_bytes(word[1:], "big") - _OVERHEAD)
        offered_size = 0 if self._protection is Protection.AUTHENTICATION else _MAX_BUFFER
        answer = self.wrap(bytes((bit,)) + offered_size.to_bytes(3, "big"), private=False)
        self.complete = True
        return answer


class GssapiLayer:
    """Seals with the keys of the ticket's session."""

    def __init__(self, client: GssapiClient, *, private: bool, limit: int) -> None:
        self._client = client
        self._private = private
        self.limit = limit

    def wrap(self, data: bytes) -> bytes:
        """Return outgoing data, sealed."""
        return self._client.wrap(data, private=self._private)

    def unwrap(self, data: bytes) -> bytes:
        """Return incoming data, unsealed."""
        return self._client.unwrap(data, private=self._private)


def matches(principal: str, expected: tuple[str, ...]) -> bool:
    """Return True if a principal is an expected one: by name alone if either has no realm. Case is ignored.

    A target named by its host has no realm here: the KDC chose it.
    """
    name, at, realm = principal.rpartition("@")
    if not at:
        name, realm = principal, ""
    for glob in expected:
        name_pattern, at, realm_pattern = glob.rpartition("@")
        if not at:
            name_pattern, realm_pattern = glob, ""
        is_realm = not realm or not realm_pattern or fnmatchcase(realm.lower(), realm_pattern.lower())
        if is_realm and fnmatchcase(name.lower(), name_pattern.lower()):
            return True
    return False
