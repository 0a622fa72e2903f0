"""Records in transactions: what became of them decides how a transaction may end."""

from __future__ import annotations

from parley.client.produce.chunk import BatchCall, RecordChunk
from parley.client.produce.record_writer import Observer
from parley.client.results import BatchAck, PartitionAck, ProduceResult
from parley.client.transactions.async_producer import AsyncTransactionProducer
from parley.errors import KafkaError


class TransactionObserver:
    """Counts each chunk as a write of the transaction, and reports how its batches fared."""

    def __init__(self, transactions: AsyncTransactionProducer, others: Observer) -> None:
        self._transactions, self._others = transactions, others

    def chunk_begun(self) -> None:
        """Count a write as running: a commit waits for it."""
        self._transactions.enter()

    def batch_ended(self, call: BatchCall, chunk: RecordChunk) -> None:
        """Let an error end the transaction's good state, or note what was written."""
        if call.error is not None:
            seen = self._transactions.contents.failure(call.error)
            if isinstance(seen, KafkaError):
                call.error = seen
        else:
            ack = BatchAck(call.base_offset, call.records, call.log_append_time_ms)
            written = PartitionAck(call.partition, (ack,))
            try:
                self._transactions.contents.wrote(ProduceResult({call.partition: written}))
            except KafkaError as error:
                self._transactions.contents.failure(error)
        self._others.batch_ended(call, chunk)

    def chunk_ended(self) -> None:
        """Count a write as over."""
        self._transactions.contents.leave()
