"""The settings of topics and brokers as a broker describes them: each with the places that it may
come from.

A topic's own setting comes before the broker's that it inherits; a broker's dynamic one before that
of all brokers, before server.properties, before Kafka's default. DescribeConfigs shows all of them
as synonyms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from parley.devcluster.handlers.base import Call
from parley.devcluster.release.configs import BROKER, GROUP, TOPIC, Config, configs_of
from parley.devcluster.security.listeners import listener_texts
from parley.devcluster.state.topics import INHERITED, TopicSettings

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT, DYNAMIC_GROUP = 1, 2, 3, 4, 5, 8
"""Where a value comes from (ConfigSource)."""
ELIGIBLE_LEADERS = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
RETENTION_MS = "retention.ms"
RETENTION_BY_UNIT = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
"""What a topic's retention.ms inherits: the finest unit that is set. Here the first
always is (static_configs).
"""


class Place(NamedTuple):
    """A value at one place."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class Described:
    """A setting and the places that have a value for it, the one that counts first."""

    config: Config
    places: tuple[Place, ...]
    inherits: bool = True
    """Whether a broker's setting stands behind it; the bare default of a
    topic's setting is no synonym.
    """

    @property
    def synonyms(self) -> tuple[Place, ...]:
        """The places that have a value."""
        return tuple(
            p for p in self.places if p.value is not None and (self.inherits or p.source != DEFAULT)
        )

    @property
    def value(self) -> str | None:
        """The value that counts; sensitive ones are never shown."""
        return None if self.config.sensitive else self.places[0].value

    @property
    def source(self) -> int:
        """Where it comes from."""
        return self.places[0].source


def topic_configs(call: Call, own: Mapping[str, str]) -> Iterator[Described]:
    """Yield every setting of a topic whose own ones are these."""
    brokers = _BrokerPlaces(call)
    for config in configs_of(call.profile.release, TOPIC).values():
        places = [Place(config.name, own[config.name], DYNAMIC_TOPIC)] if config.name in own else []
        inherited = _inherited(call, config, brokers)
        if not places and not inherited:
            places = [Place(config.name, config.default, DEFAULT)]
        yield Described(config, (*places, *inherited), bool(inherited))


def _inherited(call: Call, config: Config, brokers: _BrokerPlaces) -> list[Place]:
    """Return the places of the brokers' settings that stand behind one of a topic's."""
    if config.name == RETENTION_MS:
        of_brokers = configs_of(call.profile.release, BROKER)
        found = [
            place
            for name in RETENTION_BY_UNIT
            for place in brokers.places(name, of_brokers[name].default)
        ]
    else:
        found = [] if config.inherits is None else brokers.places(config.inherits, config.default)
    if call.profile.behaviour.alters_brokers:
        return found
    # before 1.1 what a topic does not set is a default
    return [place._replace(source=DEFAULT) for place in found]


def group_configs(call: Call, name: str) -> Iterator[Described]:
    """Yield every setting of a group: its own, or the brokers' that stands behind it."""
    own, of_brokers = call.cluster.configs.of_group(name), configs_of(call.profile.release, BROKER)
    set_here = group_defaults(call)
    for config in configs_of(call.profile.release, GROUP).values():
        behind = f"group.{config.name}"
        places = [Place(config.name, own[config.name], DYNAMIC_GROUP)] if config.name in own else []
        if config.name in set_here:
            places.append(Place(behind, set_here[config.name], STATIC))
        name_of_default = behind if behind in of_brokers else config.name
        places.append(Place(name_of_default, config.default, DEFAULT))
        yield Described(config, tuple(places))


def group_defaults(call: Call) -> dict[str, str]:
    """Return what would stand in server.properties about share groups, by
    the groups' names for it.
    """
    wanted, usual = call.cluster.settings, type(call.cluster.settings)()
    found: dict[str, str] = {}
    for name in configs_of(call.profile.release, GROUP):
        field = f"group_{name.replace('.', '_')}"
        value = getattr(wanted, field, None)
        if value is not None and value != getattr(usual, field):
            found[name] = str(value)
    return found


def broker_configs(call: Call) -> Iterator[Described]:
    """Yield every setting of the broker that is asked."""
    brokers = _BrokerPlaces(call)
    table = configs_of(call.profile.release, BROKER)
    for config in table.values():
        places = brokers.places(config.name, config.default) or [Place(config.name, None, DEFAULT)]
        yield Described(config, tuple(places))
    # Kafka takes names that it does not know
    for name in {*brokers.own, *brokers.shared} - table.keys():
        unknown = Config(name, "-", dynamic=True, sensitive=True, inherits=None, default=None)
        yield Described(unknown, tuple(brokers.places(name, None)))


def shared_configs(call: Call) -> Iterator[Described]:
    """Yield the dynamic settings of all brokers."""
    table = configs_of(call.profile.release, BROKER)
    for name, value in _BrokerPlaces(call).shared.items():
        config = table.get(
            name, Config(name, "-", dynamic=True, sensitive=True, inherits=None, default=None)
        )
        yield Described(config, (Place(name, value, DYNAMIC_DEFAULT),))


class _BrokerPlaces:
    """Where the broker that is asked has values."""

    def __init__(self, call: Call) -> None:
        self.own = call.cluster.configs.of_broker(str(call.broker.id))
        self.shared = dict(call.cluster.configs.of_broker(""))
        if has_eligible_leaders(call):
            # With KIP-966 on, the controller itself sets what was only a default before (seen from
            # 4.1 on).
            self.shared.setdefault(MIN_ISR, "1")
        self.static = static_configs(call)

    def places(self, name: str, default: str | None) -> list[Place]:
        """Return the places of one of the broker's settings."""
        layers = ((self.own, DYNAMIC_BROKER), (self.shared, DYNAMIC_DEFAULT), (self.static, STATIC))
        found = [Place(name, layer[name], source) for layer, source in layers if name in layer]
        return found if default is None else [*found, Place(name, default, DEFAULT)]


def has_eligible_leaders(call: Call) -> bool:
    """Whether KIP-966 is on: min.insync.replicas is the cluster's then."""
    return call.profile.release.finalized_features.get(ELIGIBLE_LEADERS, 0) > 0


def static_configs(call: Call) -> dict[str, str]:
    """Return what would stand in this broker's server.properties."""
    settings, broker = call.cluster.settings, call.image.brokers.get(call.broker.id)
    place = call.cluster.directory_of(call.broker.id)
    listeners = "" if broker is None else listener_texts(broker.endpoints)
    found = {
        "advertised.listeners": listeners,
        "auto.create.topics.enable": str(settings.auto_create_topics).lower(),
        "broker.id": str(call.broker.id),
        "default.replication.factor": str(settings.default_replication_factor),
        "listeners": listeners,
        "log.dirs": "memory" if place is None else str(place),
        "log.retention.ms": "-1",  # nothing is lost unless somebody limits it (state/retention.py)
        "node.id": str(call.broker.id),
        "num.partitions": str(settings.num_partitions),
    }
    usual_settings = type(settings)()
    if settings.transaction_max_timeout_ms != usual_settings.transaction_max_timeout_ms:
        found["transaction.max.timeout.ms"] = str(settings.transaction_max_timeout_ms)
    if settings.transactional_id_expiration_ms != usual_settings.transactional_id_expiration_ms:
        found["transactional.id.expiration.ms"] = str(settings.transactional_id_expiration_ms)
    if settings.offsets_retention_minutes is not None:
        found["offsets.retention.minutes"] = str(settings.offsets_retention_minutes)
    if (
        settings.offsets_retention_check_interval_ms
        != usual_settings.offsets_retention_check_interval_ms
    ):
        found["offsets.retention.check.interval.ms"] = str(
            settings.offsets_retention_check_interval_ms
        )
    if settings.group_consumer_migration_policy != usual_settings.group_consumer_migration_policy:
        found["group.consumer.migration.policy"] = settings.group_consumer_migration_policy
    kept, usual = settings.topic_defaults, TopicSettings()
    for name, value in kept.as_configs().items():
        if value != usual.as_configs().get(name):
            found[INHERITED[name]] = value
    return found
