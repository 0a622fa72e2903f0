"""The members of a classic group, and what they are answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from parley.devcluster.state.groups.classic.parked import Parked

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member supports, its first choice first, with its metadata for each."""

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a member that has never been in a generation may wait for one."""


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request. Times in milliseconds."""

    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    protocol_type: str = "consumer"
    protocols: Protocols = ()
    requires_id: bool = False
    """A newcomer is given its id first and joins with that (JoinGroup v4, KIP-394)."""
    skips_assignment: bool = False
    """A static leader that returns learns of all members and need not assign
    (JoinGroup v9, KIP-814).
    """


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """What a member is answered: its generation, the leader and, if it leads, the
    members with their metadata.
    """

    member_id: str
    error_code: int = 0
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """A member's assignment, or why there is none."""

    error_code: int = 0
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(slots=True)
class Member:
    """One member: what it supports, its assignment, and what it waits for."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = True
    joining: Parked[JoinAnswer] | None = None
    syncing: Parked[SyncAnswer] | None = None
    due_ms: int = 0
    """When its session ends, or its wait for the first generation."""
    supported: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.supported = frozenset(name for name, _ in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Return its metadata for a protocol, nothing for one that it does not support."""
        return dict(self.protocols).get(protocol or "", b"")

    def update(self, join: Join) -> None:
        """Take over what it says when it joins again."""
        self.protocols = join.protocols
        self.supported = frozenset(name for name, _ in join.protocols)
        self.session_timeout_ms, self.rebalance_timeout_ms = (
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
        )
        self.client_id, self.client_host = join.client_id, join.client_host

    def beat(self, now_ms: int) -> None:
        """Let its session begin again."""
        self.due_ms = now_ms + self.session_timeout_ms

    @property
    def waits(self) -> bool:
        """Whether the coordinator owes it an answer; its session does not end then."""
        return self.joining is not None or self.syncing is not None


def vote(members: list[Member]) -> str | None:
    """Return the protocol of a generation: of those that all support, the one that most prefer
    (G32).

    >>> first = Member("a", None, "", "", 1, 1, (("range", b""), ("sticky", b"")))
    >>> vote([first, Member("b", None, "", "", 1, 1, (("sticky", b""),))])
    'sticky'
    """
    if not members:
        return None
    common = frozenset.intersection(*(member.supported for member in members))
    votes = [next(name for name, _ in member.protocols if name in common) for member in members]
    return max(dict.fromkeys(votes), key=votes.count)
