"""The latest record of each key of a partition, as hashes: what compaction keeps."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from parley.pipelines.verify.results import DifferenceKind


class Latest:
    """The latest record of each key. Of a key and of a record it keeps 64-bit hashes, and of the
    record its offset: about 150 bytes for each key, however large keys and values are.
    """

    def __init__(self, *, ignore_tombstones: bool = False) -> None:
        self._ignore_tombstones = ignore_tombstones
        self._places: dict[int, int] = {}
        self._hashes, self._offsets = array("Q"), array("q")
        self._free: list[int] = []
        """Places of keys that a tombstone has taken out: used again, or churn would fill memory."""

    def __len__(self) -> int:
        return len(self._places)

    def add(
        self,
        key_hashes: Iterable[int],
        hashes: Iterable[int],
        offsets: Iterable[int],
        present: Iterable[bool],
    ) -> None:
        """Take records in the order of their offsets; `present` is False for tombstones."""
        places, drop = self._places, self._ignore_tombstones
        for key, found, offset, has_value in zip(key_hashes, hashes, offsets, present, strict=True):
            if drop and not has_value:
                if (place := places.pop(key, None)) is not None:
                    self._free.append(place)
                continue
            place = places.get(key)
            if place is None:
                place = places[key] = self._free.pop() if self._free else self._new_place()
            self._hashes[place], self._offsets[place] = found, offset

    def _new_place(self) -> int:
        self._hashes.append(0)
        self._offsets.append(0)
        return len(self._hashes) - 1

    def find(self, key: int) -> tuple[int, int] | None:
        """Return hash and offset of a key's latest record, None where there is none."""
        place = self._places.get(key)
        return None if place is None else (self._hashes[place], self._offsets[place])

    def __iter__(self) -> Iterator[int]:
        """Go through the hashes of all keys."""
        return iter(self._places)


class KeyDifference(NamedTuple):
    """The first key that differs: offsets of its latest records, -1 where a side has none; and how
    many keys differ.
    """

    kind: DifferenceKind
    left_offset: int
    right_offset: int
    keys: int


def first_key_difference(left: Latest, right: Latest) -> KeyDifference | None:
    """Return the key whose latest record comes first on the left and differs; those that only the
    right side has come last. None where all are equal.
    """
    found: KeyDifference | None = None
    count = 0
    for key in left:
        ours, theirs = left.find(key), right.find(key)
        assert ours is not None
        if theirs is not None and ours[0] == theirs[0]:
            continue
        count += 1
        if found is None or ours[1] < found.left_offset:
            kind = DifferenceKind.MISSING if theirs is None else DifferenceKind.DIFFERS
            found = KeyDifference(kind, ours[1], -1 if theirs is None else theirs[1], 0)
    for key in right:
        theirs = right.find(key)
        assert theirs is not None
        if left.find(key) is not None:
            continue
        count += 1
        if found is None or (found.left_offset < 0 and theirs[1] < found.right_offset):
            found = KeyDifference(DifferenceKind.ADDED, -1, theirs[1], 0)
    return None if found is None else found._replace(keys=count)
