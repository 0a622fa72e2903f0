"""The options of a transactional producer, under Java's names."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.client.options import arguments
from parley.client.options.client_options import ProduceOptions
from parley.errors import ConfigError
from parley.types import text

_INT32 = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionOptions:
    """How a transactional producer behaves. Raises ConfigError for what cannot be used.

    `transaction_timeout_ms`: after so long without an end the coordinator aborts a transaction; the
    broker allows transaction.max.timeout.ms at most (15 minutes). `max_generation` 1 keeps to the
    protocol of Kafka 0.11 to 3.9 (Produce up to v11, EndTxn up to v4) on every broker, 2 uses
    KIP-890's where it is finalized.
    """

    transactional_id: str
    transaction_timeout_ms: int = 60_000
    max_generation: int = 2
    produce: ProduceOptions = field(default_factory=ProduceOptions)

    def __post_init__(self) -> None:
        text("transactional_id", self.transactional_id)
        timeout = self.transaction_timeout_ms
        if isinstance(timeout, bool) or not isinstance(timeout, int) or not 1 <= timeout <= _INT32:
            raise ConfigError(
                f"transaction_timeout_ms={timeout!r} cannot be used: 1 to {_INT32} is expected"
            )
        if self.max_generation not in (1, 2):
            raise ConfigError(
                f"max_generation={self.max_generation!r} cannot be used: 1 or 2 is expected"
            )
        arguments.instance("options", self.produce, ProduceOptions)
        object.__setattr__(self, "produce", self.for_rows(self.produce))

    def for_rows(self, options: ProduceOptions | None) -> ProduceOptions:
        """Return a produce call's options. Raises ConfigError without what transactions need."""
        if options is None:
            return self.produce
        arguments.instance("options", options, ProduceOptions)
        if options.acks != "all":
            raise ConfigError(f'a transaction needs acks="all", not acks="{options.acks}"')
        if options.enable_idempotence is False:
            raise ConfigError("a transaction needs idempotence; leave enable_idempotence away")
        return options if options.enable_idempotence else options.replace(enable_idempotence=True)
