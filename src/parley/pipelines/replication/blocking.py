"""The same replication for blocking code."""

from __future__ import annotations

from parley.client import ClientOptions
from parley.net.blocking import blocking, in_loop
from parley.pipelines.blocking import BlockingJob
from parley.pipelines.replication.options import ReplicationOptions
from parley.pipelines.replication.replication import AsyncReplication


class Replication(BlockingJob[AsyncReplication]):
    """`AsyncReplication` for blocking code: `run` blocks its thread, `stop` and `status` may be
    called from others.

    >>> options = ReplicationOptions(name="to-new", topics=["flights"])
    >>> def copy(source: ClientOptions, target: ClientOptions) -> None:
    ...     with Replication(source, target, options) as replication:
    ...         replication.run(until_caught_up=True)
    """

    def __init__(
        self, source: ClientOptions, target: ClientOptions, options: ReplicationOptions
    ) -> None:
        super().__init__("parley-replication", AsyncReplication(source, target, options))

    start = blocking(AsyncReplication.start)
    run = blocking(AsyncReplication.run)
    plan = blocking(AsyncReplication.plan)
    follow = blocking(AsyncReplication.follow)
    status = blocking(AsyncReplication.status)
    translate_groups = blocking(AsyncReplication.translate_groups)
    verify = blocking(AsyncReplication.verify)
    cutover = blocking(AsyncReplication.cutover)
    stop = in_loop(AsyncReplication.stop)

    @property
    def records(self) -> int:
        """Records committed by this process."""
        return self._async().records
