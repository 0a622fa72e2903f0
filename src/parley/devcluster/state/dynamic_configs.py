"""The settings of brokers and groups that were altered while they ran, and what topics inherit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from parley.devcluster.state.journal import Entry
from parley.devcluster.state.log_settings import LogSettings
from parley.devcluster.state.persistence import (
    Administered,
    broker_configs_entry,
    group_configs_entry,
)
from parley.devcluster.state.topics import TopicSettings, inherited


class DynamicConfigs:
    """Dynamic settings by broker and by group. Mutates: `administered`, kept first by `keep`."""

    def __init__(
        self, defaults: TopicSettings, administered: Administered, keep: Callable[[Entry], None]
    ) -> None:
        self._defaults = defaults
        self._brokers, self._groups = administered.broker_configs, administered.group_configs
        self._keep = keep
        self.on_broker_altered: Callable[[], None] = lambda: None

    # -- topics --------------------------------------------------------------------------------

    def topic_settings(
        self, configs: Mapping[str, str], broker_id: int | None = None
    ) -> TopicSettings:
        """Return the settings that hold for a topic with these configs, on a broker if named."""
        return TopicSettings.of({**self.inherited_by_topics(broker_id), **configs}, self._defaults)

    def log_settings(self, configs: Mapping[str, str], broker_id: int | None = None) -> LogSettings:
        """Return those of them that are about segments and cleaning."""
        compacts = self._defaults.compacted
        return LogSettings.of({**self.inherited_by_topics(broker_id), **configs}, compacts=compacts)

    def check(self, configs: Mapping[str, str]) -> None:
        """Raise Refused (INVALID_CONFIG) where a topic cannot have these settings."""
        self.topic_settings(configs)
        self.log_settings(configs)

    def inherited_by_topics(self, broker_id: int | None) -> dict[str, str]:
        """Return what brokers' dynamic settings mean for topics: one's own come before all's."""
        own = {} if broker_id is None else self.of_broker(str(broker_id))
        return {**inherited(self.of_broker("")), **inherited(own)}

    # -- brokers and groups --------------------------------------------------------------------

    def of_broker(self, broker: str) -> Mapping[str, str]:
        """Return the dynamic settings of a broker by id as text; of all brokers for ""."""
        return self._brokers.get(broker, {})

    def alter_broker(self, broker: str, configs: Mapping[str, str]) -> None:
        """Replace a broker's dynamic settings. Raises Refused (40), OSError for a full disk."""
        of_topics = inherited(configs)
        TopicSettings.of(of_topics)
        LogSettings.of(of_topics)
        self._keep(broker_configs_entry(broker, configs))
        self._brokers[broker] = dict(configs)
        self.on_broker_altered()

    def of_group(self, group: str) -> Mapping[str, str]:
        """Return the settings of a group's own."""
        return self._groups.get(group, {})

    def alter_group(self, group: str, configs: Mapping[str, str]) -> None:
        """Replace the settings of a group. Raises OSError when the disk is full."""
        self._keep(group_configs_entry(group, configs))
        self._groups[group] = dict(configs)

    def configured_groups(self) -> list[str]:
        """Return the groups that have settings of their own."""
        return sorted(name for name, own in self._groups.items() if own)
