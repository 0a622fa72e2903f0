"""Rights as a real broker's authorizer has them: asked for, and in plans (KIP-430)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parley.client import AclOperation, Client, ClientOptions, NewTopic
from parley.errors import ConfigError
from parley.messages import CreateAclsRequest
from parley.pipelines.replay import AsyncReplay, ReplayOptions
from parley.testing.realbroker import RealCluster

from ..support import eventually
from .test_sasl_real import LISTENER, PLAIN_JAAS, PREFIX

KRAFT = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER = "kafka.security.authorizer.AclAuthorizer"
TOPIC, LITERAL, ALLOW = 2, 3, 3
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


@pytest.fixture(params=[pytest.param("2.4.1", marks=pytest.mark.long), "4.3.0"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Whoever does not log in may do everything, alice what ACLs say."""
    properties = {
        f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}.plain.sasl.jaas.config": PLAIN_JAAS,
        "authorizer.class.name": ZOOKEEPER if request.param == "2.4.1" else KRAFT,
        "super.users": "User:ANONYMOUS",
    }
    with RealCluster(request.param, extra_listeners=[LISTENER], properties=properties) as started:
        yield started


def alice(cluster: RealCluster) -> ClientOptions:
    return ClientOptions(
        bootstrap_servers=cluster.bootstrap(LISTENER),
        security_protocol=LISTENER,
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="wonder",
        allow_plaintext_password=True,
    )


def allow(client: Client, topic: str, *operations: AclOperation) -> None:
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=TOPIC, resource_name=topic, resource_pattern_type=LITERAL,
            principal="User:alice", host="*", operation=one, permission_type=ALLOW,
        )
        for one in operations
    ]  # fmt: skip
    answer = client.request(None, CreateAclsRequest(creations=creations))
    assert [found.error_code for found in answer.results] == [0] * len(operations)


async def test_what_a_user_may_do_is_asked_and_planned_with(cluster: RealCluster) -> None:
    with (
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
        Client(alice(cluster)) as asking,
    ):
        client.create_topics([NewTopic(name) for name in ("flights", "archive", "hidden")])
        allow(client, "flights", READ)
        allow(client, "archive", DESCRIBE)
        names = ["flights", "archive", "hidden", "absent"]
        wanted = {
            "flights": {READ, DESCRIBE},  # who may read may describe
            "archive": {DESCRIBE},
            "hidden": set(),
            "absent": set(),  # not even that it is not there
        }
        eventually(lambda: asking.authorized_operations(names) == wanted)
        assert set(client.authorized_operations(names)) == {"flights", "archive", "hidden"}

        options = ReplayOptions(
            name="again", topic="flights", to="archive", delivery="at-least-once"
        )
        async with AsyncReplay(alice(cluster), alice(cluster), options) as replay:
            assert [(one.topic, one.stops) for one in (await replay.plan()).rights] == [
                ("flights", False),
                ("archive", True),
            ]
            with pytest.raises(ConfigError, match=r"archive: .* may not Write it"):
                await replay.run()
        allow(client, "archive", WRITE)
        archive = {"archive": {WRITE, DESCRIBE}}
        eventually(lambda: asking.authorized_operations(["archive"]) == archive)
        async with AsyncReplay(alice(cluster), alice(cluster), options) as replay:
            assert not any(one.stops for one in (await replay.plan()).rights)
