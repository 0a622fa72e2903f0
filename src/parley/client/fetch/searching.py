"""Where partitions are read from is found out: by a validation, a reset, or a look into the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from parley.client.cluster.core import Cluster
from parley.client.fetch.answers import Asked
from parley.client.fetch.flights import Flights
from parley.client.fetch.out_of_range import explain_out_of_range
from parley.client.fetch.position_requests import Found, Kept, PositionKeeper
from parley.client.fetch.positions import DataLoss
from parley.client.fetch.state import PartitionFetch
from parley.client.fetch.tasks import Tasks
from parley.client.fetch.troubles import Troubles
from parley.errors import DataLossError, KafkaError


class Settle(Protocol):
    """What follows a change of position: `Fetcher.settle`."""

    def __call__(self, part: PartitionFetch, loss: DataLoss | None = None) -> None:
        """Do that."""


class PositionSearch:
    """The questions about positions that one fetcher has. Belongs to the event loop."""

    def __init__(
        self,
        cluster: Cluster,
        keeper: PositionKeeper,
        flights: Flights,
        tasks: Tasks,
        troubles: Troubles,
        settle: Settle,
    ) -> None:
        self._cluster, self._keeper, self._flights = cluster, keeper, flights
        self._tasks, self._troubles, self._settle = tasks, troubles, settle

    def validate(self, node_id: int, lane: str, parts: Iterable[PartitionFetch]) -> None:
        """Ask a leader whether these positions lie in its log."""
        asked = self._flights.begin(parts)
        self._tasks.spawn(self._kept, self._keeper.validate, node_id, lane, asked)

    def reset(self, parts: Sequence[PartitionFetch]) -> None:
        """Look up where these are read from. Leaders of new topics are asked for first, in one
        answer for all, so that there is one request for each leader.
        """
        new = [part for part in parts if self._keeper.is_unheard_of(part)]
        if len({part.tp.topic for part in new}) > 1:
            asked = self._flights.begin(new)
            self._tasks.spawn(self._heard_of, self._keeper.hear_of, asked)
            parts = [part for part in parts if not part.busy]
        self._look_up(parts)

    def look_into_range(self, asked: Asked, error: KafkaError) -> None:
        """Find out whether a position is really gone, or the broker was only behind."""
        self._tasks.spawn(None, self._look_into_range, asked, error)

    # -- inside ------------------------------------------------------------------------------------

    def _heard_of(self, asked: Iterable[Asked]) -> None:
        self._look_up([one.part for one in asked if one.stands])

    def _look_up(self, parts: Sequence[PartitionFetch]) -> None:
        for group in self._keeper.reset_groups(parts):
            self._tasks.spawn(self._kept, self._keeper.reset, self._flights.begin(group))

    def _kept(self, kept: Iterable[tuple[Asked, Kept]]) -> None:
        """Take what the validation or the reset of positions found."""
        for asked, found in kept:
            part, loss = asked.part, None
            if not asked.stands:
                continue
            self._flights.free(part)
            if isinstance(found, KafkaError):
                self._troubles.position_failed(asked, found)
            else:
                part.succeeded()
                if isinstance(found, Found):
                    loss = part.positions.reset_to(found.asked, found.offset)
                else:
                    loss = part.positions.validated(asked.position, found)
            self._settle(part, loss)

    async def _look_into_range(self, asked: Asked, error: KafkaError) -> None:
        part, trouble = asked.part, error
        lost: DataLossError | None = None
        try:
            lost = await explain_out_of_range(
                self._cluster, part.tp, asked.position.offset, error, part.lost_range
            )
        except KafkaError as found:
            trouble = found
        if not asked.stands or self._tasks.closed:
            return
        self._flights.free(part)
        if lost is not None:
            part.positions.out_of_range(asked.position.offset, lost)
        else:
            part.positions.revalidate()
            self._troubles.position_failed(asked, trouble, passing=trouble is error)
        self._settle(part)
