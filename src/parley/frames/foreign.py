"""Other protocols' first bytes, so that a wrong port is named instead of called a huge frame.

    first bytes      read as a frame size     what it is
    15 03 0x         about 352 MB             TLS alert: a TLS listener refuses plaintext
    16 03 0x         about 369 MB             TLS handshake: a TLS client at a plaintext port
    "HTTP", "GET "   1.2 to 1.4 GB            HTTP answer or request
    "SSH-"           1.4 GB                   an SSH server

KAFKA-4090 and KIP-498: a Java client ran out of memory on the first of them.
"""

from __future__ import annotations

_TLS_HINT = (
    "use security_protocol=SSL or SASL_SSL for this listener, or connect to its plaintext port"
)
_HTTP_VERBS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ")


def describe_foreign(prefix: bytes) -> str | None:
    """Return what the four bytes at a frame's start are if they are another protocol's, else None.

    >>> describe_foreign(b"HTTP")
    'an HTTP answer: an HTTP server listens on this port; check host and port of the broker'
    """
    if prefix[0] in (0x15, 0x16) and prefix[1] == 3 and prefix[2] <= 4:
        kind = "alert" if prefix[0] == 0x15 else "handshake"
        return f"a TLS {kind} where a Kafka frame was expected: {_TLS_HINT}"
    if prefix == b"HTTP":
        return (
            "an HTTP answer: an HTTP server listens on this port; check host and port of the broker"
        )
    if prefix in _HTTP_VERBS:
        return "an HTTP request: this port speaks Kafka's protocol only"
    if prefix == b"SSH-":
        return (
            "an SSH greeting: an SSH server listens on this port; check host and port of the broker"
        )
    return None
