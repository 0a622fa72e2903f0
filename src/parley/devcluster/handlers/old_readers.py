"""Records in the format that an old reader knows, as brokers convert them down for a Fetch.

Magic 0 for Fetch v0-1, at most magic 1 for v2-3. Records compressed with zstd are refused before
v10, and where they cannot be converted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parley.devcluster.release.behaviour import Behaviour
from parley.devcluster.state.log.batches import walk
from parley.devcluster.state.log.log import ReadResult
from parley.devcluster.state.refused import Refused
from parley.errors import CorruptRecordError, UnsupportedVersionError
from parley.errors.codes import CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE
from parley.records import convert

CODEC_ZSTD = 4
FIRST_ZSTD_VERSION = 10
FIRST_MAGIC_2_VERSION = 4
FIRST_MAGIC_1_VERSION = 2
Parts = Sequence[memoryview | bytes]


class Place(NamedTuple):
    """Where records were read: a partition, and the offset that was asked for."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class OldReader:
    """A reader of a Fetch version, at a broker of a release."""

    version: int
    behaviour: Behaviour

    def may_need_rewriting(self, codecs: Collection[int]) -> bool:
        """Return whether records of a log with these codecs may be none that it can read."""
        return self.version < FIRST_MAGIC_2_VERSION or (
            self.version < FIRST_ZSTD_VERSION and CODEC_ZSTD in codecs
        )

    def rewritten(
        self, found: ReadResult, place: Place, *, has_zstd: bool, sliced: int, most: int | None
    ) -> tuple[Parts, int]:
        """Return what this reader can read, cut to `most` bytes, and its size. Raises Refused.

        `has_zstd`: the log has such batches; `sliced` bytes are what conversion may fill. Touches
        no state: it may run in a thread.
        """
        parts: Parts = found.parts
        size = found.size
        if has_zstd and any(facts.codec == CODEC_ZSTD for part in parts for _, facts in walk(part)):
            raise Refused(UNSUPPORTED_COMPRESSION_TYPE)
        magic = 1 if self.version >= FIRST_MAGIC_1_VERSION else 0
        if self.version < FIRST_MAGIC_2_VERSION and any(
            facts.magic > magic for part in parts for _, facts in walk(part)
        ):
            parts, size = self._converted(parts, magic, place, sliced)
        if most is not None and size > most:
            parts, size = [b"".join(parts)[:most]], most
        return parts, size

    def _converted(self, parts: Parts, magic: int, place: Place, sliced: int) -> tuple[Parts, int]:
        where = (place.topic, place.partition)
        try:
            data = convert(b"".join(parts), magic, first_offset=place.offset, where=where)
            first = next(parts[0][: facts.size] for _, facts in walk(parts[0]))
            least = len(convert(first, magic, first_offset=place.offset, where=where))
        except UnsupportedVersionError as error:
            raise Refused(UNSUPPORTED_COMPRESSION_TYPE) from error
        except CorruptRecordError as error:
            raise Refused(CORRUPT_MESSAGE) from error
        # but for the first batch (LazyDownConversionRecords)
        if self.behaviour.cuts_conversion:
            data = data[: max(sliced, least)]
        return [data], len(data)
