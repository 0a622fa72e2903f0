"""Other protocols' first bytes, so that a wrong port is named instead of called a huge frame.

    first bytes      read as a frame size     what it is
    15 03 0x         about 352 MB             TLS alert: a TLS listener refuses plaintext
    16 03 0x         about 369 MB             TLS handshake: a TLS client at a plaintext port
    "HTTP", "GET "   1.2 to 1.4 GB            HTTP answer or request
    "<!DO", "<htm"   1.0 GB                   HTTP 0.9: a page without a status line
    "SSH-"           1.4 GB                   an SSH server
    "220 ", "-ERR"   0.5 to 2.1 GB            some server that speaks in lines of text

KAFKA-4090 and KIP-498: a Java client ran out of memory on the first of them.
"""

from __future__ import annotations

_TLS_HINT = (
    "use security_protocol=SSL or SASL_SSL for this listener, or connect to its plaintext port"
)
_PAGES = (b"<!DO", b"<!do", b"<HTM", b"<htm", b"<hea", b"<?xm")
_HTTP_VERBS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ")


def describe_foreign(prefix: bytes) -> str | None:
    """Return what the four bytes at a frame's start are if they are another protocol's, else None.

    >>> describe_foreign(b"HTTP")
    'an HTTP answer: an HTTP server listens on this port; check host and port of the broker'
    """
    if prefix[0] in (0x15, 0x16) and prefix[1] == 3 and prefix[2] <= 4:
        kind = "alert" if prefix[0] == 0x15 else "handshake"
        return f"a TLS {kind} where a Kafka frame was expected: {_TLS_HINT}"
    if prefix == b"HTTP" or prefix in _PAGES:
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


def describe_text(prefix: bytes) -> str | None:
    """Return what the four bytes at a frame's start are if they are printable text, else None. Only
    for frames that are too large: as a size they are more than 512 MB.

    >>> describe_text(b"220 ")
    'text ("220 ..."): a server of another protocol listens on this port; check host and port'
    """
    if not all(0x20 <= byte < 0x7F for byte in prefix):
        return None
    return (
        f'text ("{prefix.decode("ascii")}..."): a server of another protocol listens on this port; '
        "check host and port"
    )
