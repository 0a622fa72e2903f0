"""Which release a broker looks like: by its ranges, then by its features, and no
surer than its answer allows.
"""

from __future__ import annotations

import pytest

from parley.client.cluster.survey import looks_like
from parley.versions import BrokerVersions, releases


@pytest.mark.parametrize("name", list(releases()))
def test_each_measured_release_looks_like_itself(name: str) -> None:
    found = looks_like(BrokerVersions.from_release(name))
    assert (found.names, found.exactly) == ((name,), True)


def test_releases_with_equal_ranges_are_kept_apart_by_their_features() -> None:
    """3.3 and 3.4 have the same APIs; their metadata.version differs."""
    older, newer = releases()["3.3.2"], releases()["3.4.1"]
    assert older.ranges == newer.ranges
    assert str(looks_like(BrokerVersions.from_release("3.3"))) == "3.3.2"
    assert str(looks_like(BrokerVersions.from_release("3.4"))) == "3.4.1"


def test_without_features_both_are_named_and_neither_is_claimed_exactly() -> None:
    """A broker with ZooKeeper, or an answer before v3, names no features."""
    found = looks_like(BrokerVersions(releases()["3.4.1"].ranges))
    assert str(found) == "3.4.1 or 3.3.2"
    assert not found.exactly


def test_a_broker_that_lacks_an_api_is_described_by_what_differs() -> None:
    ranges = {key: span for key, span in releases()["2.4.1"].ranges.items() if key != 18}
    found = looks_like(BrokerVersions(ranges))
    assert (str(found), found.exactly) == ("2.4.1 (1 missing)", False)
