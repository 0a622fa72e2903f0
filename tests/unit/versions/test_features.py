"""The feature table against the measured releases."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.errors import ConfigError, UnsupportedVersionError
from parley.versions import CLIENT_RANGES, FEATURES, BrokerVersions, Feature, release, releases
from parley.versions.releases import release_number
from parley.versions.view import require


@pytest.mark.parametrize("feature", list(Feature), ids=lambda feature: feature.value)
def test_each_feature_appears_with_its_first_release(feature: Feature) -> None:
    """No measured release before `first_release` has it, and
    the first one from then on that has it is the next one.

    Some APIs came with ZooKeeper and went missing in the first KRaft releases, so later gaps are
    allowed.
    """
    since = release_number(FEATURES[feature].first_release)
    having = [
        found
        for found in releases().values()
        if BrokerVersions.from_release(found.name).supports(feature)
    ]
    assert having, "no measured release has it"
    first = having[0]
    later = [found for found in releases().values() if found.number >= since]
    # 3.4 and 2.3-ish thresholds fall between measured releases: the next measured one must have it
    assert first.number >= since
    assert first == later[0]


def test_every_row_asks_for_versions_that_parley_speaks() -> None:
    for feature, need in FEATURES.items():
        for api, version in need.apis:
            assert version in CLIENT_RANGES[api], feature
        assert need.otherwise
        assert need.kip


def comparisons(tree: ast.AST) -> Iterator[ast.Compare]:
    """Comparisons of something called a version with a number; with 0 only signs are looked at."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            numbers = [one.value for one in sides if isinstance(one, ast.Constant)]
            if any(isinstance(number, int) and number > 0 for number in numbers) and any(
                ast.unparse(one).lower().endswith("version") for one in sides
            ):
                yield node


@pytest.mark.parametrize("layer", ["client", "net", "protocol", "records", "spark", "cli"])
def test_nobody_compares_the_version_of_an_api_with_a_number(layer: str) -> None:
    """Which version has what stands in the notation files and in FEATURES;
    elsewhere a name says it.
    """
    layers = Path(__file__).parents[3] / "src" / "parley"
    found = [
        f"{path.relative_to(layers)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted((layers / layer).rglob("*.py"))
        for node in comparisons(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "ask a Feature, or give the number a name"


def test_each_feature_has_a_row() -> None:
    assert set(FEATURES) == set(Feature)


def test_names_are_forgiving_and_errors_name_the_nearest() -> None:
    assert Feature.named(" Exactly_Once ") is Feature.EXACTLY_ONCE
    with pytest.raises(ConfigError, match='Did you mean "exactly-once"'):
        Feature.named("exactly-one")


def test_requiring_names_the_broker_and_the_release() -> None:
    brokers = {
        1: BrokerVersions.from_release("3.9", broker="1"),
        2: BrokerVersions.from_release("2.4", broker="2"),
    }
    require(brokers, (Feature.EXACTLY_ONCE,))
    with pytest.raises(UnsupportedVersionError) as caught:
        require(brokers, (Feature.EXACTLY_ONCE, Feature.TOPIC_IDS))
    error = caught.value
    assert (error.broker, error.feature, error.first_release, error.api) == (
        "2",
        "topic-ids",
        "2.8",
        "Metadata",
    )
    assert error.client_range == (10, 13)
    assert error.broker_range == (0, 9)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("3.9", "3.9.1"),
        ("0.9", "0.9.0.1"),
        ("0.10", "0.10.2.2"),
        ("4", "4.3.0"),
        ("2.4.1", "2.4.1"),
    ],
)
def test_short_names_mean_the_newest_measured_release(name: str, found: str) -> None:
    assert release(name).name == found


@pytest.mark.parametrize("name", ["2.10", "3.10", "5.0", "", "3.9.1.1", "latest", "-1"])
def test_unknown_releases_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        release(name)


def test_releases_stand_in_their_order() -> None:
    numbers = [found.number for found in releases().values()]
    assert numbers == sorted(numbers)
    minors = [(0, minor) for minor in (9, 10, 11)] + [(1, 0), (1, 1)]
    minors += (
        [(2, minor) for minor in range(9)]
        + [(3, minor) for minor in range(10)]
        + [(4, n) for n in range(4)]
    )
    assert sorted({number[:2] for number in numbers}) == minors, (
        "a minor release of Kafka cannot be named"
    )
    assert not release("0.9.0.1").answers_api_versions
