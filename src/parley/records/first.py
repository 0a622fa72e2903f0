"""The first records of many small fetches, decoded in one call of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from parley.kernel import Buffer, RecordCursor, active
from parley.records.decode import ReadOptions
from parley.records.info import warn_if_pure


class RecordBytes(NamedTuple):
    """Bytes of one partition and the position to read them from.

    `place` is topic, partition, and the epochs: pairs of the position after the last record of an
    epoch, and the epoch.
    """

    data: Buffer
    position: int
    place: tuple[str, int, Sequence[tuple[int, int]]]


def first_records(
    fetches: Sequence[RecordBytes], options: ReadOptions
) -> Sequence[RecordCursor | None]:
    """Return the first records of each, as far as `options` go; None where `decode_columns` has to
    say what is there: nothing whole, nothing to show, or damage.

    The list ends early with the one that makes it `max_rows` records altogether. Transactions that
    were aborted are not left out.
    """
    warn_if_pure()
    return active.first_records(fetches, options.of_kernel())
