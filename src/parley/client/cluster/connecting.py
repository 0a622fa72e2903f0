"""The part of the client's options that concerns connections."""

from __future__ import annotations

from parley.client.options.client_options import ClientOptions
from parley.client.options.security_arguments import security_arguments
from parley.net import ConnectOptions
from parley.versions import parse_must_not_use


def connect_options(options: ClientOptions) -> ConnectOptions:
    """Return the part of the client's options that concerns connections.

    Raises ConfigError where security options are missing or contradict each other.
    """
    return ConnectOptions(
        bootstrap_servers=options.bootstrap_servers,
        client_id=options.client_id,
        request_timeout_ms=options.request_timeout_ms,
        socket_connection_setup_timeout_ms=options.socket_connection_setup_timeout_ms,
        reconnect_backoff_ms=options.reconnect_backoff_ms,
        reconnect_backoff_max_ms=options.reconnect_backoff_max_ms,
        max_frame_bytes=options.max_frame_bytes,
        release=options.broker_version_hint,
        must_not_use=parse_must_not_use(options.must_not_use_versions),
        connections_max_idle_ms=options.connections_max_idle_ms,
        **security_arguments(options),
    )
