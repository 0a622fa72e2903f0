"""Who hears whom inside the cluster: the links that tests cut, slow down and restore.

Rules of this file:
1. It only keeps what was asked for; `replication` asks it before anything passes between brokers.
2. A stale broker hears of no new image and still copies records. An isolated one hears nothing at
   all: neither the controller nor its leaders and followers.
3. A follower that is held back copies nothing (EVERYTHING), or stays so many records behind.
"""

from __future__ import annotations

EVERYTHING = -1
ANY_LEADER = -1


class Links:
    """The links that are cut or slow; at first none."""

    def __init__(self) -> None:
        self.stale: set[int] = set()
        self.isolated: set[int] = set()
        self.lagging: set[int] = set()
        self._behind: dict[tuple[int, int], int] = {}

    def hears_controller(self, broker: int) -> bool:
        """Whether a broker is handed new images."""
        return broker not in self.stale and broker not in self.isolated

    def hold_back(self, follower: int, records: int = EVERYTHING, leader: int = ANY_LEADER) -> None:
        """Let a follower stay behind one leader, or all of them."""
        self._behind[leader, follower] = records

    def let_go(self, follower: int | None = None, leader: int | None = None) -> None:
        """Let a follower (None: all) copy from one leader (None: all) without delay again."""
        kept = {
            (of, who): records
            for (of, who), records in self._behind.items()
            if (follower is not None and who != follower) or (leader is not None and of != leader)
        }
        self._behind = kept
        if leader is None:
            self.lagging -= set(self.lagging) if follower is None else {follower}

    def held_back(self, leader: int, follower: int) -> int:
        """Return how many records a follower stays behind: 0, a number, or EVERYTHING."""
        if not self._behind and not self.lagging and not self.isolated:
            return 0
        if follower in self.lagging or follower in self.isolated or leader in self.isolated:
            return EVERYTHING
        found = self._behind.get((leader, follower))
        return self._behind.get((ANY_LEADER, follower), 0) if found is None else found

    def is_slow(self, follower: int) -> bool:
        """Whether a follower is held back behind some leader."""
        return follower in self.lagging or any(who == follower for _, who in self._behind)
