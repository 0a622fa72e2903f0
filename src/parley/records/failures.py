"""How kernel errors become parley's errors: whose fault, which partition and offset, what to do."""

from __future__ import annotations

from parley.errors import CorruptRecordError, KafkaError, LocalProtocolError
from parley.kernel import KernelError, KernelErrorKind


def corrupt(why: str, offset: int, where: tuple[str, int] | None = None) -> CorruptRecordError:
    """Return the error for stored bytes that cannot be read from `offset` on."""
    place = f"{where[0]}-{where[1]}, offset {offset}" if where else f"offset {offset}"
    return CorruptRecordError(
        f"corrupt records at {place}: {why}. The position stays there; seek past it, or "
        "repair the log.",
        topic=where[0] if where else None,
        partition=where[1] if where else None,
        offset=offset,
    )


def translate_decode(error: KernelError, offset: int, where: tuple[str, int] | None) -> KafkaError:
    """Return parley's error for a kernel error on foreign bytes."""
    if error.kind is KernelErrorKind.ARGUMENT:
        return LocalProtocolError(f"the record kernel was called wrongly: {error.detail}")
    record = f", record {error.record} of its batch" if error.record >= 0 else ""
    remedy = ""
    if error.kind is KernelErrorKind.TOO_LARGE:
        remedy = " (raise max_batch_bytes if such batches are meant to be)"
    return corrupt(f"{error.kind.value}: {error.detail}{record}{remedy}", offset, where)


def translate_encode(error: KernelError) -> LocalProtocolError:
    """Return parley's error for columns or options that cannot be written."""
    row = f" (row {error.record})" if error.record >= 0 else ""
    return LocalProtocolError(f"records cannot be encoded: {error.detail}{row}. Nothing was sent.")


def kind_of(error: CorruptRecordError) -> KernelErrorKind | None:
    """Return what the kernel found wrong, or None where it was not the kernel that found it."""
    cause = error.__cause__
    return cause.kind if isinstance(cause, KernelError) else None
