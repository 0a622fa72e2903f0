"""The options by name, as type checkers and editors see them: misspelt ones are errors there.

What options mean, and their defaults, stands at the dataclasses; a test compares names and types.
Where an option is read from more than its own type, as all are from texts, the wider type stands
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from parley.types import Names, Secret

if TYPE_CHECKING:
    import ssl

    from parley.client.shapes import BatchShape
    from parley.net.options import TokenProvider
    from parley.registry import RegistryOptions, SchemaRegistryClient
    from parley.serdes import Schema

Milliseconds: TypeAlias = int | timedelta


class SecurityOptionValues(TypedDict, total=False):
    """The options of SecurityOptions."""

    security_protocol: str
    ssl_context: ssl.SSLContext | None
    ssl_cafile: str | None
    ssl_truststore_certificates: str | None
    ssl_truststore_type: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: Secret | str | None
    ssl_keystore_type: str | None
    ssl_password: Secret | str | None
    ssl_check_hostname: bool
    ssl_endpoint_identification_algorithm: str | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: Secret | str | None
    sasl_oauth_token_provider: TokenProvider | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: Secret | str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_login_callback_handler_class: str | None
    sasl_login_connect_timeout_ms: Milliseconds | None
    sasl_login_read_timeout_ms: Milliseconds | None
    sasl_login_retry_backoff_ms: Milliseconds
    sasl_login_retry_backoff_max_ms: Milliseconds
    sasl_jaas_config: Secret | str | None
    allow_plaintext_password: bool


class ClientOptionValues(SecurityOptionValues, total=False):
    """The options of ClientOptions."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: Milliseconds
    default_api_timeout_ms: Milliseconds
    retry_backoff_ms: Milliseconds
    retry_backoff_max_ms: Milliseconds
    reconnect_backoff_ms: Milliseconds
    reconnect_backoff_max_ms: Milliseconds
    socket_connection_setup_timeout_ms: Milliseconds
    bootstrap_timeout_ms: Milliseconds
    metadata_max_age_ms: Milliseconds
    connections_max_idle_ms: Milliseconds
    max_frame_bytes: int
    broker_version_hint: str | None
    must_not_use_versions: str


class FetchOptionValues(TypedDict, total=False):
    """The options of FetchOptions."""

    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: Milliseconds
    max_partition_fetch_bytes: int
    isolation_level: str
    check_crcs: bool
    client_rack: str
    max_batch_rows: int
    max_batch_bytes: int
    prefetch_max_bytes: int
    max_decompressed_bytes: int
    patience_ms: Milliseconds | None
    shape: BatchShape | None


class SchemaOptionValues(TypedDict, total=False):
    """The options of SchemaOptions."""

    value_format: str | None
    key_format: str | None
    schema_registry_url: str | None
    value_subject: str | None
    key_subject: str | None
    value_message: str | None
    key_message: str | None
    value_framing: str
    key_framing: str
    on_schema_error: str
    value_schema: Schema | str
    key_schema: Schema | str
    value_columns: Names | None
    key_columns: Names | None
    schema_registry: SchemaRegistryClient | RegistryOptions | Mapping[str, object] | None


class ProduceOnlyValues(TypedDict, total=False):
    """The options of ProduceOptions that ClientOptions does not have."""

    acks: str | int
    enable_idempotence: bool | None
    compression_type: str
    compression_level: int | None
    batch_size: int
    max_request_size: int
    buffer_memory: int
    delivery_timeout_ms: Milliseconds
    max_block_ms: Milliseconds
    max_in_flight_requests_per_connection: int
    partitioner_ignore_keys: bool
    allow_auto_create_topics: bool


class ProduceOptionValues(ProduceOnlyValues, total=False):
    """The options of ProduceOptions."""

    request_timeout_ms: Milliseconds | None
