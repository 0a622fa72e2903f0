"""What a release makes of the settings of a topic."""

from __future__ import annotations

from parley.devcluster.release.configs import TOPIC, configs_of
from parley.devcluster.state.log.appending import NO_BOUND
from parley.devcluster.state.topics import TopicSettings
from parley.versions.releases import Release


def timestamp_bounds(release: Release, settings: TopicSettings) -> tuple[int, int]:
    """Return how many milliseconds before and after the leader's time a record's may be.

    Where a release has the older setting for both, it holds where the newer one is not set.

    >>> from parley.versions import release
    >>> timestamp_bounds(release("4.3"), TopicSettings())[1]
    3600000
    """
    known = configs_of(release, TOPIC)

    def bound(which: str, set_ms: int | None) -> int:
        config = known.get(f"message.timestamp.{which}.max.ms")
        if config is None:
            return NO_BOUND
        return int(config.default or NO_BOUND) if set_ms is None else set_ms

    difference = bound("difference", settings.timestamp_difference_max_ms)
    before = bound("before", settings.timestamp_before_max_ms)
    after = bound("after", settings.timestamp_after_max_ms)
    return (
        difference if before == NO_BOUND else before,
        difference if after == NO_BOUND else after,
    )
