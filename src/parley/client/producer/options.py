"""How a producer for applications gathers, spreads and sends records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, Unpack

from parley.client.options.client_options import ProduceOptions
from parley.client.options.fields import option
from parley.client.producer.record import Partitioner, ProducerInterceptor, Serializer
from parley.errors import ConfigError, nearest_hint
from parley.serdes import Serializer as SchemaSerializer
from parley.types import shown

if TYPE_CHECKING:
    from parley.client.producer.option_values import ProducerOptionValues

PARTITIONERS = (
    "murmur2",
    "murmur2_random",
    "consistent",
    "consistent_random",
    "fnv1a",
    "fnv1a_random",
    "random",
)
_INT32 = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerOptions(ProduceOptions):
    """How a producer gathers, spreads and sends records."""

    linger_ms: int = option(
        5, "how long a batch waits for more records, from its first one on", low=0, high=_INT32
    )
    partitioner: str | Partitioner = option(  # noqa: RUF009  # a field, as all others
        "murmur2",
        "where keys go: murmur2 as Java, or librdkafka's consistent_random (its default), "
        "consistent, murmur2_random, fnv1a, fnv1a_random, random; or a function of "
        "(topic, key, partitions, available)",
        kind=tuple,
    )
    partitioner_adaptive_partitioning_enable: bool = option(
        True, "spread fewer records without a key to partitions whose queues are long (KIP-794)"
    )
    partitioner_availability_timeout_ms: int = option(
        0,
        "spread nothing to partitions whose batches wait for so long; 0: look at no time",
        low=0,
        high=_INT32,
    )
    transactional_id: str | None = option(
        None,
        "name of this producer across restarts; with it records are sent in transactions "
        "(Kafka 0.11)",
        kind=str,
        sent=True,
    )
    transaction_timeout_ms: int = option(
        60_000, "after so long without an end a transaction is aborted", low=1, high=_INT32
    )
    key_serializer: Serializer | None = field(default=None)
    """Makes bytes of each key that is not None: a function, or a `parley.serdes.Serializer` with
    is_key=True, which asks its registry when the producer starts."""
    value_serializer: Serializer | None = field(default=None)
    """The same for values."""
    interceptors: Sequence[ProducerInterceptor] = ()
    """Called in this order with each record, and with what became of it (KIP-42)."""

    if TYPE_CHECKING:

        def replace(self, **changes: Unpack[ProducerOptionValues]) -> Self: ...  # type: ignore[override]

    def _check_together(self) -> None:
        ProduceOptions._check_together(self)
        named = self.partitioner
        if not callable(named) and named not in PARTITIONERS:
            raise ConfigError(
                f"partitioner={shown(named)} is not one of {', '.join(PARTITIONERS)}, and cannot "
                f"be called.{nearest_hint(str(named), PARTITIONERS)}"
            )
        for name in ("key_serializer", "value_serializer"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(
                    f"{name}={shown(getattr(self, name))} cannot be called: give a function that "
                    "makes bytes of what is sent"
                )
            given, is_key = getattr(self, name), name.startswith("key")
            if isinstance(given, SchemaSerializer) and given.is_key is not is_key:
                raise ConfigError(f"{name}: make the Serializer with is_key={is_key}")
        if self.delivery_timeout_ms < self.linger_ms:
            raise ConfigError(
                f"delivery_timeout_ms={self.delivery_timeout_ms} is shorter than "
                f"linger_ms={self.linger_ms}: every record would be too late"
            )
        if self.transactional_id is not None and self.enable_idempotence is False:
            raise ConfigError("transactional_id needs idempotence; leave enable_idempotence away")
        if self.transactional_id is not None and self.acks != "all":
            raise ConfigError(f'transactional_id needs acks="all", not acks="{self.acks}"')
