"""Which groups a cluster has, and the end of those that nobody needs: ListGroups, DeleteGroups."""

from __future__ import annotations

from dataclasses import dataclass

from parley.client.admin.calls import Begin
from parley.client.admin.outcomes import for_each, group_error
from parley.client.cluster.coordinators import KeyType
from parley.client.cluster.refusals import refusal
from parley.client.cluster.routing import at_all, at_coordinator, find_coordinators
from parley.client.options import arguments
from parley.errors import ConfigError, NetworkError, nearest_hint
from parley.errors.codes import GROUP_ID_NOT_FOUND
from parley.messages import DeleteGroupsRequest, ListGroupsRequest, ListGroupsResponse
from parley.net import BrokerConnection
from parley.types import Names, texts
from parley.versions import VersionRange

STATES_VERSION, TYPES_VERSION = 4, 5
"""First ListGroups versions with a filter by state (KIP-518) and by type (KIP-848)."""
_MAX_VERSION = 2**15 - 1
STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead", "Assigning",
    "Reconciling", "NotReady",
)  # fmt: skip
"""What a group may be, in Kafka 4.3."""
TYPES = ("classic", "consumer", "share", "streams")


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group that a broker coordinates.

    `protocol_type` is "consumer" for consumers of either protocol, "connect" and others for other
    kinds, and empty for a group of which only offsets are known. `state` is None where the broker
    does not say (before Kafka 2.6), and so is `type` (before 3.8): "classic", "consumer" (KIP-848),
    "share" or "streams".
    """

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None
    coordinator: int
    """The broker's id."""


Listed = tuple[ListGroupsResponse.ListedGroup, int]
"""What a broker says of a group, and in which version."""


async def list_groups(
    begin: Begin, states: Names = (), types: Names = (), *, timeout_ms: int | None = None
) -> list[GroupListing]:
    """Return the groups of the cluster, by name: every broker is asked for those it coordinates.

    `states` and `types` leave the others out; capitals do not matter. Raises ConfigError for a
    state or type that Kafka does not have, UnsupportedVersionError, before anything is sent to it,
    where a broker cannot filter (states: Kafka 2.6, types: 3.8), and the error of a broker that
    cannot be asked until the deadline. Kafka 0.9 lists only groups that have members.
    """
    wanted_states = _known("states", states, STATES)
    wanted_types = _known("types", types, TYPES)
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)
    low = TYPES_VERSION if wanted_types else STATES_VERSION if wanted_states else 0
    allowed = VersionRange(low, _MAX_VERSION)
    message = ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)

    async def attempt(conn: BrokerConnection) -> list[Listed]:
        reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline), allowed)
        if reply.message.error_code:
            raise refusal(reply, reply.message.error_code, conn=conn)
        return [(one, reply.version) for one in reply.message.groups]

    answers = await at_all(cluster, "listing groups", deadline, attempt)
    found = {
        group.group_id: _listing(group, version, node)
        for node in answers
        for group, version in answers[node]
    }
    return [found[name] for name in sorted(found)]


async def delete_groups(begin: Begin, group_ids: Names, *, timeout_ms: int | None = None) -> None:
    """Delete groups without members, with their committed offsets (DeleteGroups, Kafka 1.1).

    Raises the first group's error, noting the others: NonEmptyGroupError while it has members,
    GroupIdNotFoundError where there is none. Groups without an error are deleted then.
    """
    wanted = texts("group_ids", group_ids, "groups")
    arguments.timeout(timeout_ms)
    cluster, deadline = await begin(timeout_ms)

    async def delete(group_id: str) -> None:
        unanswered = False

        async def attempt(conn: BrokerConnection) -> None:
            nonlocal unanswered
            message = DeleteGroupsRequest(groups_names=[group_id])
            try:
                reply = await cluster.ask(conn, message, cluster.request_timeout_ms(deadline))
            except NetworkError:
                unanswered = True
                raise
            for result in reply.message.results:
                # what an attempt without an answer has deleted is not there any more
                done = unanswered and result.error_code == GROUP_ID_NOT_FOUND
                if result.error_code and not done:
                    raise group_error(result.error_code, group_id, conn, reply)

        await at_coordinator(
            cluster, KeyType.GROUP, group_id, f"deleting group {group_id}", deadline, attempt
        )

    await find_coordinators(cluster, KeyType.GROUP, wanted, deadline)
    await for_each(wanted, delete, changed="deleted")


def _known(what: str, values: Names, known: tuple[str, ...]) -> list[str]:
    by_lower = {name.lower(): name for name in known}
    found = []
    for value in texts(what, values, what):
        name = by_lower.get(value.lower())
        if name is None:
            hint = nearest_hint(value, known) or f" There are {', '.join(known)}."
            raise ConfigError(f'{what}: no group has "{value}".{hint}')
        found.append(name)
    return found


def _listing(group: ListGroupsResponse.ListedGroup, version: int, coordinator: int) -> GroupListing:
    state = group.group_state if version >= STATES_VERSION else None
    kind = group.group_type if version >= TYPES_VERSION else None
    return GroupListing(group.group_id, group.protocol_type, state, kind, coordinator)
