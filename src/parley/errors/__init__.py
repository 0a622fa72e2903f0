"""Every exception that parley raises, and the table of Kafka's error codes.

Two questions decide what a caller does with an error: whose fault was it (the class), and may the
same request be sent again (`retriable`, `refresh_metadata`).

    KafkaError
      LocalProtocolError      a bug or a misuse on this side; nothing was sent
      RemoteProtocolError     the peer's bytes break the protocol; the connection is dropped
        CorruptRecordError    stored records are damaged; names topic, partition and offset
        FramingError          a message does not say which schema it has as its framing would
        SchemaDecodeError     a message cannot be decoded; names its offset
      UnsupportedVersionError the broker cannot do it (KIP-97), decided locally or by its code 35
      BrokerError             the broker answered with an error code
        NotLeaderOrFollowerError, UnknownTopicOrPartitionError, ...: one for each code of Kafka
        UnknownBrokerError    a code that this release of parley has no name for
      NetworkError            no connection, a lost one, or a deadline passed
        RequestTimedOut, BrokersUnreachable, RegistryUnreachable
      AuthenticationError     credentials refused; never retried in a loop
      ConfigError             an option or argument is wrong; names the nearest known one
        NotInstalledError     a part of parley that an extra brings; also a ModuleNotFoundError
        SchemaError           a schema that cannot be parsed or used; names the field
        SchemaEncodeError     a value that does not fit its schema; names field and row
      BufferExhaustedError    a record found no room in buffer_memory; it was not taken
      DataLossError           records that were promised are gone
        LogTruncationError    the log was cut below a position (KIP-320); names where it diverges
        TopicRecreatedError   another topic stands under the name (KIP-516)
      CommitFailedError       offsets or acknowledgements that a group did not take, by partition
      TransactionError        what became of a transaction; `transactions` lists the kinds
      RegistryError           a schema registry refused; `schemas` lists the kinds
      LakeError               a table could not be opened, or did not take a batch
      AlreadyRunningError     another process runs this pipeline
      DiskFullError           the disk that a job's output lies on is full
      JobError                a streaming query of Spark ended by itself
      RecordDeserializationError a consumer's deserializer raised; names topic, partition, offset

Map: `tree` has the classes, `transactions` those about what became of one, `groups` those of a
member, `schemas` those of registries and frames, `lakes` those of tables, `jobs` those of
pipelines, `broker` one for each code of codes.txt, `codes` the codes by name, `rights` what a
user lacks where one says so.
"""

from typing import TYPE_CHECKING

from parley.errors.broker import (
    BrokerError,
    ErrorCode,
    UnknownBrokerError,
    broker_error,
    error_name,
    named,
)
from parley.errors.groups import CommitFailedError
from parley.errors.jobs import AlreadyRunningError, DiskFullError, JobError
from parley.errors.lakes import LakeError
from parley.errors.schemas import (
    FramingError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    RecordDeserializationError,
    RegistryAuthenticationError,
    RegistryError,
    RegistryUnreachable,
    SchemaDecodeError,
    SchemaEncodeError,
    SchemaError,
    SchemaNotFoundError,
)
from parley.errors.transactions import (
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionError,
    TransactionFatalError,
    TransactionForgottenError,
)
from parley.errors.tree import (
    AuthenticationError,
    BrokersUnreachable,
    BufferExhaustedError,
    ConfigError,
    CorruptRecordError,
    DataLossError,
    KafkaError,
    LocalProtocolError,
    LogTruncationError,
    NetworkError,
    NotInstalledError,
    RemoteProtocolError,
    RequestTimedOut,
    TopicRecreatedError,
    UnsupportedVersionError,
    nearest_hint,
    own_copy,
    printable,
)

__all__ = [
    "AlreadyRunningError",
    "AuthenticationError",
    "BrokerError",
    "BrokersUnreachable",
    "BufferExhaustedError",
    "CommitFailedError",
    "ConfigError",
    "CorruptRecordError",
    "DataLossError",
    "DiskFullError",
    "ErrorCode",
    "FramingError",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "JobError",
    "KafkaError",
    "LakeError",
    "LocalProtocolError",
    "LogTruncationError",
    "NetworkError",
    "NotInstalledError",
    "ProducerFencedError",
    "RecordDeserializationError",
    "RegistryAuthenticationError",
    "RegistryError",
    "RegistryUnreachable",
    "RemoteProtocolError",
    "RequestTimedOut",
    "SchemaDecodeError",
    "SchemaEncodeError",
    "SchemaError",
    "SchemaNotFoundError",
    "TopicRecreatedError",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionCommittedError",
    "TransactionError",
    "TransactionFatalError",
    "TransactionForgottenError",
    "UnknownBrokerError",
    "UnsupportedVersionError",
    "broker_error",
    "error_name",
    "nearest_hint",
    "own_copy",
    "printable",
]

if TYPE_CHECKING:
    from parley.errors.codes import *
else:

    def __getattr__(name: str) -> int | type[BrokerError]:
        found = globals()[name] = named(__name__, name)
        return found
