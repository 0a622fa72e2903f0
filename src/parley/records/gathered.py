"""Records that gather one by one until batches are made of them: see kernel/gathering.py.

`gather` is what each record costs that is sent: it is the kernel's function itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from parley.kernel import (
    GatheredBatches,
    GatheredColumns,
    KernelError,
    RecordGatherer,
    Spread,
    active,
)
from parley.records.encode import WriteOptions, unnumbered
from parley.records.failures import translate_encode
from parley.records.info import warn_if_pure

gather = active.gather
row_handle = active.row_handle


def gathered_columns(gatherer: RecordGatherer) -> GatheredColumns:
    """Return what a closed gatherer holds, and leave nothing in it."""
    return active.gathered_columns(gatherer)


def encode_gathered(
    work: Sequence[Spread], options: WriteOptions, *, hash_keys: bool
) -> list[GatheredBatches | None]:
    """Return the batches of closed gatherers, None for one whose records cannot be written so: it
    keeps them. They have no sequences yet.
    """
    warn_if_pure()
    try:
        return active.encode_gathered(work, hash_keys, unnumbered(options))
    except KernelError as error:
        raise translate_encode(error) from error
