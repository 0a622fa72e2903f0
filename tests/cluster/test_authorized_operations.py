"""What a client's user may do, asked of embedded brokers of several releases (KIP-430)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parley.client import AclOperation, Client
from parley.client.admin.rights import operations
from parley.devcluster import LocalCluster
from parley.errors import ConfigError

OF_TOPICS = frozenset(AclOperation) - {
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
    AclOperation.CREATE_TOKENS,
    AclOperation.DESCRIBE_TOKENS,
}


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of a broker of the release that a test names, with a topic."""
    with (
        LocalCluster(1, request.param) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as started,
    ):
        cluster.create_topic("flights")
        yield started


@pytest.mark.parametrize("client", ["2.3", "2.8", "4.3"], indirect=True)
def test_a_broker_without_authorizer_allows_all_on_topics_that_are_there(client: Client) -> None:
    found = client.authorized_operations(["flights", "absent", "flights"])
    assert found == {"flights": OF_TOPICS}
    assert client.authorized_operations([]) == {}
    assert "absent" not in client.metadata().topics
    with pytest.raises(ConfigError, match="topics"):
        client.authorized_operations("flights")  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("client", ["0.9", "1.1", "2.2"], indirect=True)
def test_an_older_broker_does_not_say(client: Client) -> None:
    assert client.authorized_operations(["flights"]) == {"flights": None}


@pytest.mark.parametrize(
    ("bits", "means"),
    [
        (-(2**31), None),  # not asked for
        (0, None),  # a broker that has the field and no idea
        (1 << 8, {AclOperation.DESCRIBE}),
        (1 << 3 | 1 << 8 | 1 << 30, {AclOperation.READ, AclOperation.DESCRIBE}),  # and a newer one
    ],
)
def test_bits_that_say_nothing_forbid_nothing(bits: int, means: set[AclOperation] | None) -> None:
    assert operations(bits) == means
