"""Spark jobs that log in with tokens: options cannot carry a function, so the
token server's address does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parley.client import LATEST, Client, NewTopic, TopicPartition
from parley.devcluster import LocalCluster, Security

from ..token_server import CLIENT_ID, CLIENT_SECRET, TokenServer, jwt

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_batches_are_written_and_read_with_tokens_of_an_endpoint_or_a_file(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        TokenServer() as server,
        LocalCluster(
            brokers=2, security=Security("SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"])
        ) as cluster,
    ):
        login = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
        }
        by_server = login | {
            "kafka.sasl.oauthbearer.token.endpoint.url": server.url,
            "kafka.sasl.jaas.config": f'{MODULE} required clientId="{CLIENT_ID}" '
            f'clientSecret="{CLIENT_SECRET}";',
            "kafka.sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
            ),
        }
        file = tmp_path / "token"
        file.write_text(jwt(CLIENT_ID))
        by_file = login | {"kafka.sasl.oauthbearer.token.endpoint.url": file.as_uri()}
        with Client(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=lambda: jwt(CLIENT_ID),
        ) as client:
            client.create_topics([NewTopic("tokens", num_partitions=2)])
            rows = spark.range(100).selectExpr("cast(id as string) as value")
            rows.write.format("parley").options(**by_server, topic="tokens").mode("append").save()
            ends = client.list_offsets({TopicPartition("tokens", n): LATEST for n in range(2)})
            assert sum(found.offset for found in ends.values()) == 100
        assert server.requests
        for options in (by_server, by_file):
            frame = spark.read.format("parley").options(**options, subscribe="tokens").load()
            assert frame.count() == 100
        shown = [frame._jdf.queryExecution().toString(), repr(frame)]
        wrong = by_server | {
            "kafka.sasl.jaas.config": by_server["kafka.sasl.jaas.config"].replace(
                "reader", "nobody"
            )
        }
        with pytest.raises(Exception, match="invalid_client") as refused:
            spark.read.format("parley").options(**wrong, subscribe="tokens").load().count()
        shown += [str(refused.value), *capfd.readouterr()]
    assert not [text for text in shown if CLIENT_SECRET in text or "canary" in text]
