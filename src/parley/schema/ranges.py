"""A range of versions, both ends included."""

from __future__ import annotations

from typing import NamedTuple


class VersionRange(NamedTuple):
    """The versions from `min` to `max`, both included.

    It is a pair, so it compares with and unpacks like one; `in` asks for a version.

    >>> str(VersionRange(0, 5)), 3 in VersionRange(0, 5), VersionRange(2, 2) == (2, 2)
    ('0-5', True, True)
    """

    min: int
    max: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self[0] <= version <= self[1]

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min}-{self.max}"

    def intersect(self, other: VersionRange | tuple[int, int]) -> VersionRange | None:
        """Return the versions that both ranges hold, or None when there are none."""
        low, high = max(self.min, other[0]), min(self.max, other[1])
        return VersionRange(low, high) if low <= high else None

    def versions(self) -> range:
        """Return the versions themselves, ascending."""
        return range(self.min, self.max + 1)

    @classmethod
    def parse(cls, text: str, end: int | None = None) -> VersionRange:
        """Return the range that "3", "0-5" or, with an `end`, "2+" names. Raises ValueError.

        >>> VersionRange.parse("2+", end=9)
        VersionRange(min=2, max=9)
        """
        low, separator, high = text.partition("-")
        if text.endswith("+") and end is not None:
            parsed = cls(int(text[:-1]), end)
        else:
            parsed = cls(int(low), int(high) if separator else int(low))
        if not 0 <= parsed.min <= parsed.max:
            raise ValueError(f'"{text}" is not a range of versions')
        return parsed
