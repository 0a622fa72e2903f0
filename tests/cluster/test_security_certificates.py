"""Certificates of listeners with TLS: a broker's before a client, a client's before a broker."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import trustme

from parley.client import Client, ClientOptions
from parley.devcluster import LocalCluster, Security
from parley.errors import NetworkError
from parley.net.tls import trusting_context

from ..support import GENEROUS_MS


class TestCertificates:
    """What a client makes of a broker's certificate, and a broker of a client's."""

    ca = trustme.CA()

    def own_context(self, *hosts: str, **how: Any) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*hosts, **how).configure_cert(context)
        return context

    def connect(self, context: ssl.SSLContext, tmp_path: Path, **changes: Any) -> None:
        file = tmp_path / "ca.pem"
        self.ca.cert_pem.write_to_path(str(file))
        with LocalCluster(brokers=1, security=Security("SSL", ssl_context=context)) as cluster:
            options = {
                "bootstrap_servers": cluster.bootstrap_servers,
                "security_protocol": "SSL",
                **changes,
            }
            with Client(
                ClientOptions.from_properties({"ssl_cafile": str(file), **options})
            ) as client:
                client.metadata()

    @pytest.mark.parametrize("host", ["127.0.0.1"])
    def test_an_address_in_the_certificate(self, host: str, tmp_path: Path) -> None:
        self.connect(self.own_context(host), tmp_path)

    def test_an_authority_that_is_no_root_is_trusted_if_it_is_given(self, tmp_path: Path) -> None:
        between = self.ca.create_child_ca()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        between.issue_cert("127.0.0.1").configure_cert(context)
        file = tmp_path / "between.pem"
        between.cert_pem.write_to_path(str(file))
        self.connect(context, tmp_path, ssl_cafile=str(file))
        assert not trusting_context().verify_flags & ssl.VERIFY_X509_STRICT  # of Python 3.13

    def test_another_host(self, tmp_path: Path) -> None:
        begun = time.monotonic()
        with pytest.raises(
            NetworkError, match=r"IP address mismatch.*a name that the certificate holds"
        ):
            self.connect(self.own_context("broker.example.org"), tmp_path)
        assert time.monotonic() - begun < 25  # far from a request's time-out of 30 s

    def test_another_host_and_nobody_minds(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        context = self.own_context("broker.example.org")
        self.connect(context, tmp_path, **{"ssl.endpoint.identification.algorithm": ""})
        assert "can pose as the broker" in caplog.text

    def test_a_common_name_does_not_count(self, tmp_path: Path) -> None:
        with pytest.raises(NetworkError, match="not trusted"):
            self.connect(self.own_context("broker.example.org", common_name="127.0.0.1"), tmp_path)

    def test_expired(self, tmp_path: Path) -> None:
        yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        context = self.own_context(
            "127.0.0.1", not_after=yesterday, not_before=yesterday - datetime.timedelta(days=1)
        )
        begun = time.monotonic()
        with pytest.raises(NetworkError, match="certificate has expired; the broker needs a new"):
            self.connect(context, tmp_path)
        assert time.monotonic() - begun < 25  # far from a request's time-out of 30 s

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    @pytest.mark.parametrize("wanted", ["none", "requested", "required"])
    @pytest.mark.parametrize("given", ["none", "own", "foreign"])
    def test_client_certificates(
        self, wanted: str, given: str, version: ssl.TLSVersion, tmp_path: Path
    ) -> None:
        with LocalCluster(brokers=1, security=Security("SSL", client_auth=wanted)) as cluster:
            context = ssl.create_default_context(cadata=cluster.ca_pem)
            context.minimum_version = context.maximum_version = version
            if given == "own":
                file = tmp_path / "own.pem"
                file.write_text(cluster.client_certificate("alice").pem.reveal())
                context.load_cert_chain(file)
            elif given == "foreign":
                self.ca.issue_cert("client@example.org").configure_cert(context)
            fine = wanted == "none" or given == "own" or (wanted == "requested" and given == "none")
            options = ClientOptions(
                bootstrap_servers=cluster.bootstrap_servers, security_protocol="SSL",
                ssl_context=context, default_api_timeout_ms=GENEROUS_MS if fine else 800,
            )  # fmt: skip
            if fine:
                with Client(options) as client:
                    client.metadata()
            else:
                with pytest.raises(NetworkError, match=r"ssl_certfile"), Client(options) as client:
                    client.metadata()

    def test_client_certificates_as_properties(self) -> None:
        security = Security("SSL", client_auth="required")
        with LocalCluster(brokers=1, security=security) as cluster:
            options = ClientOptions.from_properties(cluster.client_properties())
            with Client(options) as client:
                client.metadata()

    def test_older_tls_is_refused(self) -> None:
        with LocalCluster(brokers=1, security=Security("SSL")) as cluster:
            context = ssl.create_default_context(cadata=cluster.ca_pem)
            context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                context.maximum_version = ssl.TLSVersion.TLSv1_1
            host, _, port = cluster.bootstrap_servers.partition(":")

            async def connect() -> None:
                await asyncio.open_connection(host, int(port), ssl=context)

            with pytest.raises((ssl.SSLError, ConnectionError)):
                asyncio.run(connect())
