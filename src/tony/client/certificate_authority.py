"""The certificates of a job whose messages can leave the machine.

Every job has its own authority, whose key is discarded after signing, so that no further certificate can be issued.
`tony.protocol.hello` explains the names in the certificates.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tony.protocol.launch import AmCredentials

#: Longer than any job runs: certificates must not expire during a job, and their keys are removed at its end.
_VALIDITY = timedelta(days=3650)
#: The clock of a node may be behind the submitter's.
_CLOCK_SKEW = timedelta(days=1)


class CertificateAuthority:
    """The certificate authority of a job; its key exists only in this object."""

    def __init__(self) -> None:
        # P-256: optimised in every OpenSSL, and small on the wire.
        self._key = ec.generate_private_key(ec.SECP256R1())
        # A unique name per job: errors then say "unknown authority", not "bad signature".
        self._name = f"tony job {os.urandom(4).hex()}"
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = self._create_builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_build_key_usage(signs_certificates=True), critical=True)
        self._certificate = self._sign(builder.add_extension(self._identifier, critical=False))

    def sign(self, token: str, name: str) -> AmCredentials:
        """Create a key pair and its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_build_key_usage(signs_certificates=False), True),
            # Either side may listen, so each certificate is used for server and client authentication.
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False),
            (x509.SubjectAlternativeName([x509.DNSName(name)]), False),
            (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
            (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier), False),
        ]
        builder = self._create_builder(name, key.public_key())
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return AmCredentials(
            token=token, ca=self._certificate, certificate=self._sign(builder), key=_encode_private_key(key)
        )

    def _create_builder(self, name: str, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
            issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]),
            public_key=public_key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - _CLOCK_SKEW,
            not_valid_after=now + _VALIDITY,
        )

    def _sign(self, builder: x509.CertificateBuilder) -> str:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM).decode("ascii")


def _build_key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _encode_private_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
