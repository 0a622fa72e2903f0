"""What turns the datums of one writer's schema into columns: the contract that a compiled decoder
fulfils beside the reference in Python.

Rules of the contract:
1. One array comes out, as long as the input, of `columns.arrow_type` of the reader's schema. A null
   stands where a datum could not be read, and for null itself where the schema is `null|T`.
2. A damaged datum harms no other row, and is named with the reason.
3. Foreign bytes cost memory and time in proportion to their size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow

from parley.serdes.frames import Buffer


class DecodedGroup(NamedTuple):
    """Columns of a group of datums, and why some of them could not be read, by their index."""

    array: pyarrow.Array
    faults: Mapping[int, str]


class GroupDecoder(Protocol):
    """Decodes datums that were written with one schema."""

    def decode(self, datums: Sequence[Buffer]) -> DecodedGroup:
        """Return columns of all datums."""
        ...
