"""Why a connection failed, as one clause for a person."""

from __future__ import annotations

import errno
import re
import ssl

from veilsum.net.proxies import ProxyError

# What OpenSSL found about a certificate, by its number.
_CERTIFICATE = {
    9: "its certificate is not valid yet: is a clock wrong?",
    10: "its certificate has expired",
    18: "its certificate is not a member's",
    19: "its certificate is not a member's",
    20: "its certificate is not a member's",
    21: "its certificate is not a member's",
}
# What OpenSSL says about a handshake, by a part of the name it gives.
_HANDSHAKE = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate",
    "ALERT_CERTIFICATE_EXPIRED": "it says that this party's certificate has expired",
    "ALERT_UNKNOWN_CA": "it does not know this party's certificate",
    "ALERT_CERTIFICATE": "it does not accept this party's certificate",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "ALERT_PROTOCOL_VERSION": "it does not speak TLS 1.3",
    "VERSION_TOO_LOW": "it does not speak TLS 1.3",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
    "NOT_TLS": "it does not speak TLS",
}
HUNG_UP = "it hung up before the connection was made; its log says why"
_SYSTEM = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no way to that host",
    errno.ENETUNREACH: "no way to that network",
    errno.ETIMEDOUT: "no answer in time",
}


def call_failure(error: BaseException, place: str) -> str:
    """Say why a call to a place failed, and whether that was on the way there."""
    if isinstance(error, ProxyError):
        return str(error)
    return f"{failure(error)} at {place}"


def failure(error: BaseException) -> str:
    """Say why a call or a handshake failed; nothing that the other end chose."""
    if isinstance(error, ssl.SSLCertVerificationError):
        found = error.verify_code
        return _CERTIFICATE.get(found, f"its certificate is no good (code {found})")
    if isinstance(error, ssl.SSLError):
        return _handshake(error.reason or "")
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return "no answer in time"
    if isinstance(error, ConnectionResetError | BrokenPipeError | EOFError):
        return HUNG_UP
    return _system(error)


def _handshake(reason: str) -> str:
    for part, words in _HANDSHAKE.items():
        if part in reason:
            return words
    return f"TLS failed ({reason.lower().replace('_', ' ') or 'no reason given'})"


def _system(error: BaseException) -> str:
    """Say what the operating system or the library said, without what was received."""
    if not isinstance(error, OSError):
        return f"what answers is no party of a run ({type(error).__name__})"
    for one in getattr(error, "exceptions", ()):  # several addresses of one host
        return failure(one)
    number = _number(error)
    if type(error).__name__ == "gaierror":
        return "no such host"
    return _SYSTEM.get(number, (error.strerror or str(error)).lower())


def _number(error: OSError) -> int:
    """Return the system's number; of several addresses of one host, the first's."""
    if error.errno is not None:
        return error.errno
    # What asyncio raises for several has their numbers in its text only.
    found = re.search(r"\[Errno (\d+)\]", str(error))
    return 0 if found is None else int(found[1])
