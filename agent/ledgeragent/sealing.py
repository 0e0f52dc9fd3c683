"""Seals texts for the holder of a private key: HPKE (RFC 9180) as the `cryptography` package does it.

Who seals needs the public key only and cannot open what was sealed: a host that is broken into gives away no old
records. `cryptography` is the extra `encrypted`; nothing is imported of it before a key is loaded or made.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any, Final

from ledgeragent.errors import BadInput

_INFO: Final = b"ledgeragent.record/1 "
_MISSING: Final = "encrypted records need the package `cryptography`: install ledgeragent[encrypted]"


class PublicKey:
    """Seals."""

    def __init__(self, key: Any) -> None:
        self._key = key
        self.id = _id(key)

    @classmethod
    def load(cls, path: Path) -> PublicKey:
        """Read a public key (PEM, X25519).

        Raises:
            BadInput: when there is none, or `cryptography` is not installed.
        """
        key = _loaded(path, private=False)
        return cls(key)

    def seal(self, text: str, *, about: str) -> str:
        """The sealed text, in base64; another one each time.

        Args:
            text: the text.
            about: what it is bound to; it opens only with the very same.
        """
        sealed: bytes = _suite().encrypt(text.encode(), self._key, info=_INFO + about.encode())
        return base64.b64encode(sealed).decode("ascii")


class PrivateKey:
    """Opens what was sealed for it."""

    def __init__(self, key: Any) -> None:
        self._key = key
        self.id = _id(key.public_key())

    @classmethod
    def load(cls, path: Path) -> PrivateKey:
        """Read a private key (PEM, X25519, not encrypted itself).

        Raises:
            BadInput: when there is none, or `cryptography` is not installed.
        """
        return cls(_loaded(path, private=True))

    def open(self, sealed: str, *, about: str) -> str:
        """The text that was sealed.

        Raises:
            BadInput: when it was sealed for another key or bound to something else, or was damaged.
        """
        from cryptography.exceptions import InvalidTag

        try:
            raw = base64.b64decode(sealed, validate=True)
            text: bytes = _suite().decrypt(raw, self._key, info=_INFO + about.encode())
            return text.decode()
        except (InvalidTag, ValueError):
            raise BadInput(
                f"a sealed record does not open with the key {self.id}: it is another key's, or was changed since"
            ) from None


def make_keys(private: Path, public: Path) -> str:
    """Make a pair of keys and write both as PEM; the private one readable by its owner only.

    Returns:
        The id that records sealed for it will carry.

    Raises:
        BadInput: when one of the files is there already, or cannot be written.
    """
    serialization, x25519 = _modules()
    key = x25519.X25519PrivateKey.generate()
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    texts = {
        private: key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain),
        public: key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo),
    }
    for path, text in texts.items():
        try:
            path.touch(mode=0o600 if path == private else 0o644, exist_ok=False)
            path.write_bytes(text)
        except OSError as error:
            raise BadInput(f"the key cannot be written to {path}: {error.strerror}") from None
    return PrivateKey(key).id


def _loaded(path: Path, *, private: bool) -> Any:
    serialization, x25519 = _modules()
    try:
        text = path.read_bytes()
        key = serialization.load_pem_private_key(text, None) if private else serialization.load_pem_public_key(text)
    except OSError as error:
        raise BadInput(f"the key {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError):
        key = None
    wanted = x25519.X25519PrivateKey if private else x25519.X25519PublicKey
    if not isinstance(key, wanted):
        kind = "private" if private else "public"
        raise BadInput(f"{path} holds no {kind} X25519 key in PEM; `ledgeragent records keys` makes a pair")
    return key


def _id(public: Any) -> str:
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]


def _suite() -> Any:
    from cryptography.hazmat.primitives import hpke

    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


def _modules() -> tuple[Any, Any]:
    try:
        return _imported()
    except ImportError:
        raise BadInput(_MISSING) from None


def _imported() -> tuple[Any, Any]:
    from cryptography.hazmat.primitives import hpke, serialization
    from cryptography.hazmat.primitives.asymmetric import x25519

    # Older versions have the keys and lack HPKE.
    assert hpke is not None
    return serialization, x25519
