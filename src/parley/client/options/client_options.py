"""The client's options: Java's names in snake_case, with Java's meanings and defaults.

Two defaults differ from Java's, because rows come here in bulk and not one by one: `batch_size`
(Java's 16384 bytes suit single sends) and `client_id`. Options without a Java name say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, Unpack

from parley.client.options.fields import (
    OptionRow,
    OptionSet,
    option,
    option_names,
    read_properties,
    snake_names,
)
from parley.client.options.security import SecurityOptions
from parley.errors import ConfigError
from parley.types import texts

if TYPE_CHECKING:
    from parley.client.options.values import (
        ClientOptionValues,
        FetchOptionValues,
        ProduceOptionValues,
    )
    from parley.client.shapes import BatchShape

__all__ = [
    "AllOptions",
    "ClientOptions",
    "FetchOptions",
    "OptionRow",
    "OptionSet",
    "ProduceOptions",
    "split_properties",
]

_INT32 = 2**31 - 1
READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the compression codecs; the index is Kafka's number."""


def parse_servers(servers: str | Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return (host, port) pairs of `host:port,...`; an IPv6 address stands in brackets.

    Raises ConfigError naming the entry that cannot be read.

    >>> parse_servers("a:9092, [::1]:9093")
    (('a', 9092), ('::1', 9093))
    """
    entries = servers.split(",") if isinstance(servers, str) else list(servers)
    found = []
    for entry in (entry.strip() for entry in entries):
        if not entry:
            continue
        scheme, mark, rest = entry.partition("://")
        if mark:
            raise ConfigError(
                f'bootstrap_servers: "{entry}" is not host:port: leave "{scheme}://" out '
                f'("{rest}"); TLS and logins are set by security_protocol'
            )
        host, colon, port = entry.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if (
            not colon
            or not host
            or not port.isascii()
            or not port.isdigit()
            or not 0 < int(port) < 65536
        ):
            raise ConfigError(
                f'bootstrap_servers: "{entry}" is not host:port with a port from 1 to 65535'
            )
        found.append((host, int(port)))
    if not found:
        raise ConfigError(
            'bootstrap_servers names no broker; "host:port" or "host:port,host:port" is expected'
        )
    return tuple(found)


def shown_client(client: object, options: ClientOptions, *, closed: bool) -> str:
    """Return the repr of a client, a producer or a consumer: which cluster, and whether closed."""
    state = "closed" if closed else "open"
    return f"<{type(client).__name__} of {options.bootstrap_servers}, {state}>"


def _check_versions(must_not_use: str, hint: str | None) -> None:
    # not needed by clients that leave both alone
    from parley.versions import parse_must_not_use, release

    parse_must_not_use(must_not_use)
    if hint is not None:
        release(hint)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientOptions(SecurityOptions):
    """What every operation of a client shares: where the cluster is and how long to wait."""

    bootstrap_servers: str = option(
        "localhost:9092", "brokers to begin with: host:port, separated by commas"
    )
    client_id: str = option(
        "parley", "name of this client in the brokers' logs and quotas", sent=True
    )
    request_timeout_ms: int = option(30_000, "longest wait for one answer", low=1, high=_INT32)
    default_api_timeout_ms: int = option(
        60_000, "longest time for one call, with its retries", low=1, high=_INT32
    )
    bootstrap_timeout_ms: int = option(
        0,
        "how long a client that never reached a broker goes on trying; 0: each address once "
        "(parley's own)",
        low=0,
        high=_INT32,
    )
    retry_backoff_ms: int = option(100, "first pause before a retry", low=0, high=_INT32)
    retry_backoff_max_ms: int = option(1_000, "longest pause before a retry", low=0, high=_INT32)
    reconnect_backoff_ms: int = option(
        50, "first pause before connecting again", low=0, high=_INT32
    )
    reconnect_backoff_max_ms: int = option(
        1_000, "longest pause before connecting again", low=0, high=_INT32
    )
    socket_connection_setup_timeout_ms: int = option(
        10_000, "longest time to connect", low=1, high=_INT32
    )
    metadata_max_age_ms: int = option(
        300_000, "age at which metadata is asked for again", low=0, high=_INT32
    )
    connections_max_idle_ms: int = option(
        540_000, "idle connections are closed after this time", low=-1, high=_INT32
    )
    max_frame_bytes: int = option(
        100 * 2**20, "largest frame accepted from a broker (parley's own)", low=1024, high=_INT32
    )
    broker_version_hint: str | None = option(
        None,
        "release of brokers that do not answer ApiVersions, e.g. 0.9.0.1; no probe is sent "
        "(parley's own)",
        kind=str,
    )
    must_not_use_versions: str = option(
        "",
        'versions never to be chosen though a broker has them, e.g. "Produce:12-13,Fetch:17" '
        "(parley's own)",
    )

    if TYPE_CHECKING:

        def replace(self, **changes: Unpack[ClientOptionValues]) -> Self: ...  # type: ignore[override]  # narrower: names and types

    def __post_init__(self) -> None:
        servers = self.bootstrap_servers
        if not isinstance(servers, str):
            addresses = texts("bootstrap_servers", servers, "addresses")
            object.__setattr__(self, "bootstrap_servers", ",".join(addresses))
        SecurityOptions.__post_init__(self)
        if self.must_not_use_versions or self.broker_version_hint is not None:
            _check_versions(self.must_not_use_versions, self.broker_version_hint)
        parse_servers(self.bootstrap_servers)

    @property
    def servers(self) -> tuple[tuple[str, int], ...]:
        """The (host, port) pairs of `bootstrap_servers`."""
        return parse_servers(self.bootstrap_servers)


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchOptions(OptionSet):
    """How records are read."""

    fetch_min_bytes: int = option(1, "the broker answers when it has this much", low=0, high=_INT32)
    fetch_max_bytes: int = option(50 * 2**20, "most bytes of one answer", low=0, high=_INT32)
    fetch_max_wait_ms: int = option(
        500, "longest wait of the broker for fetch_min_bytes", low=0, high=_INT32
    )
    max_partition_fetch_bytes: int = option(
        2**20, "most bytes of one partition in an answer", low=0, high=_INT32
    )
    isolation_level: str = option(
        READ_UNCOMMITTED,
        "whether records of open and aborted transactions are read",
        choices=(READ_UNCOMMITTED, READ_COMMITTED),
    )
    check_crcs: bool = option(True, "whether the checksum of each batch is checked")
    client_rack: str = option(
        "", "rack of this client, for reading from the nearest replica (KIP-392)", sent=True
    )
    max_batch_rows: int = option(
        65_536, "most rows of one RecordBatch (parley's own)", low=1, high=_INT32
    )
    max_batch_bytes: int = option(
        32 * 2**20,
        "most bytes of one RecordBatch, where record batches allow it (parley's own)",
        low=1,
    )
    prefetch_max_bytes: int = option(
        16 * 2**20, "bytes that may wait while others are decoded (parley's own)", low=0
    )
    max_decompressed_bytes: int = option(
        256 * 2**20,
        "largest size of one record batch when decompressed (parley's own)",
        low=1,
        high=_INT32,
    )
    shape: BatchShape | None = field(default=None)
    """Which columns come out, and how typed; None for all of `parley.arrow.RECORD_SCHEMA`."""
    patience_ms: int | None = field(default=None)
    """How long trouble may last before it ends a read; None for `default_api_timeout_ms`."""

    if TYPE_CHECKING:

        def replace(self, **changes: Unpack[FetchOptionValues]) -> Self: ...  # type: ignore[override]  # narrower: names and types


@dataclass(frozen=True, kw_only=True, slots=True)
class ProduceOptions(OptionSet):
    """How records are written."""

    acks: str = option(
        "all",
        "which replicas must have a batch before it counts as written",
        choices=("all", "1", "0", "-1"),
    )
    enable_idempotence: bool | None = option(
        None,
        "no duplicates through retries; None: where broker and acks allow it, true: or an error",
        kind=bool,
    )
    compression_type: str = option("none", "codec of the record batches", choices=CODECS)
    compression_level: int | None = option(
        None, "level of the codec (parley's own)", low=-131_072, high=22, kind=int
    )
    batch_size: int = option(
        256 * 1024, "bytes at which a batch is closed, before compression", low=0, high=_INT32
    )
    max_request_size: int = option(
        2**20, "most bytes of batches in one request, and of one record", low=1, high=_INT32
    )
    buffer_memory: int = option(
        32 * 2**20, "bytes of encoded batches that may wait to be sent", low=1
    )
    delivery_timeout_ms: int = option(
        120_000, "longest time from call to acknowledgement", low=1, high=_INT32
    )
    max_block_ms: int = option(
        60_000, "longest wait for metadata before anything is sent", low=1, high=_INT32
    )
    request_timeout_ms: int | None = option(
        None, "longest wait for one answer; None: the client's", low=1, high=_INT32, kind=int
    )
    max_in_flight_requests_per_connection: int = option(
        5, "requests sent ahead on one connection", low=1, high=_INT32
    )
    partitioner_ignore_keys: bool = option(
        False, "spread rows without looking at their keys (KIP-794)"
    )
    allow_auto_create_topics: bool = option(
        True, "whether the broker may create a topic that is missing"
    )

    if TYPE_CHECKING:

        def replace(self, **changes: Unpack[ProduceOptionValues]) -> Self: ...  # type: ignore[override]  # narrower: names and types

    def __post_init__(self) -> None:
        if isinstance(self.acks, int):
            object.__setattr__(self, "acks", str(self.acks))
        OptionSet.__post_init__(self)

    def _check_together(self) -> None:
        if self.acks == "-1":
            object.__setattr__(self, "acks", "all")
        if self.enable_idempotence and self.acks != "all":
            raise ConfigError(f'enable_idempotence=True needs acks="all", not acks="{self.acks}"')
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:
            given = self.max_in_flight_requests_per_connection
            raise ConfigError(
                f"enable_idempotence=True allows at most 5 requests in flight, not {given}"
            )

    @property
    def required_acks(self) -> int:
        """Kafka's number for `acks`: -1, 0 or 1."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def wants_idempotence(self) -> bool:
        """Whether idempotence is asked for, or may be used because nothing speaks against it."""
        if self.enable_idempotence is not None:
            return self.enable_idempotence
        return self.acks == "all" and self.max_in_flight_requests_per_connection <= 5


def client_options(options: object, named: ClientOptionValues) -> ClientOptions:
    """Return a client's options: given as one, by name, or as one with changes by name."""
    if options is None:
        return ClientOptions.of(named)
    if not isinstance(options, ClientOptions):
        kind = type(options).__name__
        raise ConfigError(
            f"options of type {kind} cannot be used: give ClientOptions(...), "
            'or options by name, such as bootstrap_servers="localhost:9092"'
        )
    return options.replace(**named) if named else options


class AllOptions(NamedTuple):
    """One properties file, sorted into the groups of options."""

    client: ClientOptions
    fetch: FetchOptions
    produce: ProduceOptions


def split_properties(source: Mapping[str, object] | str | Path) -> AllOptions:
    """Return the options of all groups from one mapping or file of dotted (or snake_case) names.

    An option that two groups share goes to both. Raises ConfigError for a name that neither a group
    nor Java's clients have.
    """
    groups = (ClientOptions, FetchOptions, ProduceOptions)
    values = snake_names(read_properties(source), option_names(*groups))
    made = []
    for group in groups:
        mine = set(option_names(group).values())
        made.append(group.of({name: value for name, value in values.items() if name in mine}))
    return AllOptions(*made)  # type: ignore[arg-type]  # in the order of the groups
