"""Pytest fixtures that start embedded Kafka clusters; entry point `parley` of group `pytest11`.

    @pytest.mark.kafka(versions=["2.0", "3.9", "4.3"], topics={"orders": 6})
    def test_orders(kafka_cluster):
        client(kafka_cluster.bootstrap_servers)

`kafka_cluster` is new for each test, `kafka_cluster_session` one for the whole run (each xdist
worker has its own), and `kafka_cluster_factory` starts as many as a test asks for.
`kafka_cluster_options` is a fixture to override: what it returns holds for all of them, and the
marker's keywords come before it. Without either: three brokers of the newest release, in memory.

The module is imported by every pytest run of an environment that has parley: nothing but pytest is
imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from parley.devcluster import LocalCluster

OPTIONS = (
    "brokers",
    "release",
    "versions",
    "releases",
    "topics",
    "security",
    "data_dir",
    "settings",
    "seed",
    "schema_registry",
)
"""What the marker, `kafka_cluster_options` and `kafka_cluster_factory` take."""

MARKER = (
    "kafka(brokers=3, release=..., versions=[...], releases={...}, topics=..., "
    "security=..., data_dir=True, settings={...}, seed=..., schema_registry=True): "
    "the embedded cluster that `kafka_cluster` starts. `versions` gives each broker's release, "
    "from broker 1 on; `topics` are names, or names and numbers of partitions"
)

_BROKERS = {"brokers", "versions", "releases"}


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a marker that would change nothing: the session's cluster is not made for one test."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        marked = any(marker.name == "kafka" for marker in item.own_markers)
        if marked and "kafka_cluster_session" in names and "kafka_cluster" not in names:
            raise pytest.UsageError(
                f"{item.nodeid}: @pytest.mark.kafka is for kafka_cluster; what "
                "kafka_cluster_session starts is said by a fixture kafka_cluster_options"
            )


def marker_options(marker: pytest.Mark) -> dict[str, object]:
    """Return the keywords of a marker. Raises UsageError for arguments without a name."""
    if marker.args:
        raise pytest.UsageError(f"@pytest.mark.kafka takes keywords only, got {marker.args}")
    return dict(marker.kwargs)


def merged(options: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Return the options with others laid over them; how many brokers there are and what
    each speaks is one choice.
    """
    hidden = _BROKERS if _BROKERS & over.keys() else set()
    return {**{name: value for name, value in options.items() if name not in hidden}, **over}


def cluster_arguments(options: Mapping[str, object]) -> dict[str, Any]:
    """Return LocalCluster's arguments for options. Raises UsageError for what it does not know."""
    unknown = options.keys() - set(OPTIONS)
    if unknown:
        raise pytest.UsageError(
            f"parley's fixtures do not know {', '.join(sorted(unknown))}; the marker is {MARKER}"
        )
    given: dict[str, Any] = {
        name: value for name, value in options.items() if value is not None and name != "topics"
    }
    versions = given.pop("versions", None)
    if versions is not None:
        if isinstance(versions, str) or "releases" in given:
            raise pytest.UsageError(
                "versions is a list with a release for each broker, and excludes releases"
            )
        given.setdefault("brokers", len(versions))
        if len(versions) > given["brokers"]:
            raise pytest.UsageError(
                f"there are {len(versions)} versions for {given['brokers']} brokers"
            )
        given["releases"] = dict(enumerate(versions, start=1))
    from parley.devcluster import ClusterSettings, Security

    if isinstance(given.get("security"), str):
        given["security"] = Security(given["security"])
    if isinstance(given.get("schema_registry"), str):
        given["schema_registry"] = Security(given["schema_registry"])
    if isinstance(given.get("settings"), Mapping):
        _check_settings(given["settings"], ClusterSettings)
        given["settings"] = ClusterSettings(**given["settings"])
    return given


def _check_settings(given: Mapping[str, object], settings: type) -> None:
    """Raise UsageError for a name that is no setting of a cluster."""
    from dataclasses import fields

    from parley.errors import nearest_hint

    known = [field.name for field in fields(settings)]
    for name in given:
        if name not in known:
            raise pytest.UsageError(f"settings has no {name!r}.{nearest_hint(str(name), known)}")


def topic_arguments(topics: object) -> dict[str, dict[str, Any]]:
    """Return create_topic's arguments by topic. Raises UsageError for other shapes."""
    if topics is None:
        return {}
    if isinstance(topics, str):
        raise pytest.UsageError(f"topics is a list of names or a table, not one text: [{topics!r}]")
    if not isinstance(topics, Mapping):
        if not isinstance(topics, Iterable):
            raise pytest.UsageError(f"topics is a list of names or a table, not {topics!r}")
        return {name: {} for name in topics}
    return {
        name: dict(how) if isinstance(how, Mapping) else {"partitions": how}
        for name, how in topics.items()
    }


def _start(
    options: Mapping[str, object], paths: pytest.TempPathFactory, open_clusters: ExitStack
) -> LocalCluster:
    """Start a cluster with its topics; it is closed with the stack."""
    from parley.devcluster import LocalCluster

    arguments = cluster_arguments(options)
    data_dir = arguments.pop("data_dir", None)
    if data_dir is True:
        arguments["data_dir"] = paths.mktemp("kafka")
    elif data_dir:
        arguments["data_dir"] = data_dir
    topics = topic_arguments(options.get("topics"))
    cluster = open_clusters.enter_context(LocalCluster(**arguments))
    for name, how in topics.items():
        cluster.create_topic(name, **how)
    return cluster


@pytest.fixture(scope="session")
def kafka_cluster_options() -> Mapping[str, object]:
    """Return the options of all the clusters here. Override it in a conftest.py, with
    the scope of the session.
    """
    return {}


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest,
    kafka_cluster_options: Mapping[str, object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LocalCluster]:
    """Return a running embedded Kafka cluster for this test; `@pytest.mark.kafka` says which."""
    options = kafka_cluster_options
    for marker in reversed(list(request.node.iter_markers("kafka"))):  # the test's own comes last
        options = merged(options, marker_options(marker))
    with ExitStack() as open_clusters:
        yield _start(options, tmp_path_factory, open_clusters)


@pytest.fixture(scope="session")
def kafka_cluster_session(
    kafka_cluster_options: Mapping[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Return an embedded Kafka cluster that runs for the whole session. Use topics of your own."""
    with ExitStack() as open_clusters:
        yield _start(kafka_cluster_options, tmp_path_factory, open_clusters)


@pytest.fixture
def kafka_cluster_factory(
    kafka_cluster_options: Mapping[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., LocalCluster]]:
    """Return a function that starts clusters by options; all are closed after the test."""
    with ExitStack() as open_clusters:

        def start(**options: object) -> LocalCluster:
            return _start(merged(kafka_cluster_options, options), tmp_path_factory, open_clusters)

        yield start
