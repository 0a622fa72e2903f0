"""Addresses and options: what can be used, and what the refusal of the rest says."""

from __future__ import annotations

import ssl
import tempfile

import pytest

from parley.errors import ConfigError
from parley.net import Address, ConnectOptions, parse_address, parse_bootstrap
from parley.net.tls import client_tls
from parley.types import Secret


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:9092", "localhost", 9092),
        (" 10.0.0.1:1 ", "10.0.0.1", 1),
        ("[::1]:65535", "::1", 65535),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)
    assert str(parse_address(text)) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":9092", "host:0", "host:65536", "host:-1", "host:９", "a:b"]
)
def test_texts_that_are_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="host:port"):
        parse_address(text)


def test_an_ipv6_address_needs_brackets() -> None:
    with pytest.raises(ConfigError, match="brackets"):
        parse_address("::1:9092")


def test_bootstrap_servers() -> None:
    assert parse_bootstrap("a:1, b:2 ,a:1,") == (Address("a", 1), Address("b", 2))
    assert parse_bootstrap(["a:1", "b:2"]) == (Address("a", 1), Address("b", 2))
    with pytest.raises(ConfigError, match="names no broker"):
        parse_bootstrap(" , ")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"request_timeout_ms": 0}, "request_timeout_ms=0 .* from 1"),
        ({"socket_connection_setup_timeout_ms": "5"}, "socket_connection_setup_timeout_ms='5'"),
        ({"max_frame_bytes": True}, "max_frame_bytes=True"),
        ({"max_frame_bytes": 2**31}, "max_frame_bytes"),
        ({"bootstrap_servers": "nowhere"}, "nowhere"),
        ({"client_id": "x" * 40_000}, "client_id"),
        ({"security_protocol": "ssl"}, 'Did you mean "SSL"'),
        ({"security_protocol": "PLAINTXT"}, 'Did you mean "PLAINTEXT"'),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile is given but security_protocol=PLAINTEXT"),
    ],
)
def test_values_that_cannot_be_used(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ConnectOptions(**wrong)  # type: ignore[arg-type]


def test_secrets_do_not_show() -> None:
    options = ConnectOptions(security_protocol="SSL", ssl_key_password=Secret("hunter2"))
    assert "hunter2" not in repr(options)


def test_tls_verifies_by_default() -> None:
    context = client_tls(ConnectOptions(security_protocol="SSL"))
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert client_tls(ConnectOptions()) is None


def test_a_given_context_is_used_as_it_is() -> None:
    own = ssl.create_default_context()
    assert client_tls(ConnectOptions(security_protocol="SSL", ssl_context=own)) is own


def test_switching_the_name_check_off_is_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    context = client_tls(ConnectOptions(security_protocol="SSL", ssl_check_hostname=False))
    assert context is not None
    assert not context.check_hostname
    assert "ssl_check_hostname=False" in caplog.text


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_certfile"])
def test_files_that_cannot_be_used_are_named(name: str) -> None:
    with pytest.raises(ConfigError, match=rf'{name}="/nowhere/x.pem"'):
        client_tls(ConnectOptions(security_protocol="SSL", **{name: "/nowhere/x.pem"}))  # type: ignore[arg-type]


def test_a_key_is_named_with_its_certificate() -> None:
    files = {"ssl_certfile": "/nowhere/x.pem", "ssl_keyfile": "/nowhere/x.key"}
    with pytest.raises(ConfigError, match=r'ssl_keyfile="/nowhere/x\.key" cannot be used'):
        client_tls(ConnectOptions(security_protocol="SSL", **files))  # type: ignore[arg-type]


def test_texts_need_a_place_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    with pytest.raises(ConfigError, match=r"TMPDIR points to .*No space left"):
        client_tls(ConnectOptions(security_protocol="SSL", ssl_keystore_certificate_chain="text"))


def test_a_key_without_a_certificate_is_refused() -> None:
    with pytest.raises(ConfigError, match="without ssl_certfile"):
        client_tls(ConnectOptions(security_protocol="SSL", ssl_keyfile="/nowhere/x.key"))
