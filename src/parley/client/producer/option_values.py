"""The options of a producer by name, as type checkers and editors see
them: see `options.values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from parley.client.options.values import (
    ClientOptionValues,
    Milliseconds,
    ProduceOnlyValues,
    ProduceOptionValues,
)

if TYPE_CHECKING:
    from parley.client.producer.record import Partitioner, ProducerInterceptor, Serializer


class ProducerOnlyValues(TypedDict, total=False):
    """The options of ProducerOptions that ProduceOptions does not have."""

    linger_ms: Milliseconds
    partitioner: str | Partitioner
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: Milliseconds
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    interceptors: Sequence[ProducerInterceptor]
    transactional_id: str | None
    transaction_timeout_ms: Milliseconds


class ProducerOptionValues(ProduceOptionValues, ProducerOnlyValues, total=False):
    """The options of ProducerOptions."""


class ProducerClientOptionValues(
    ClientOptionValues, ProduceOnlyValues, ProducerOnlyValues, total=False
):
    """What a producer that makes its own client is given by name."""
