"""The same replay for blocking code."""

from __future__ import annotations

from parley.client import ClientOptions
from parley.net.blocking import blocking, in_loop
from parley.pipelines.blocking import BlockingJob
from parley.pipelines.replay.options import ReplayOptions
from parley.pipelines.replay.replay import AsyncReplay


class Replay(BlockingJob[AsyncReplay]):
    """`AsyncReplay` for blocking code: `run` blocks its thread, `stop` and `status` may be called
    from others.

    >>> options = ReplayOptions(name="again", topic="flights", to="flights-again")
    >>> def again(cluster: ClientOptions) -> None:
    ...     with Replay(cluster, cluster, options) as replay:
    ...         replay.run()
    """

    def __init__(
        self, source: ClientOptions | None, target: ClientOptions, options: ReplayOptions
    ) -> None:
        super().__init__("parley-replay", AsyncReplay(source, target, options))

    start = blocking(AsyncReplay.start)
    run = blocking(AsyncReplay.run)
    plan = blocking(AsyncReplay.plan)
    status = blocking(AsyncReplay.status)
    stop = in_loop(AsyncReplay.stop)

    @property
    def records(self) -> int:
        """Records committed by this process."""
        return self._async().records
