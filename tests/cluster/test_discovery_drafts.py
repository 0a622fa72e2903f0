"""KIP-35's drafts and options, spoken by embedded brokers and asked by
strategies on real sockets.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

from parley.cli import main
from parley.devcluster import AsyncLocalCluster
from parley.drafts import STRATEGIES, Cost, DocumentedDialect, DraftDialect, EmptyAnswerDialect, ask
from parley.drafts.messages import decode_draft_response, draft_metadata, encode_draft_request
from parley.drafts.numbering import minimal_numbers, protocol_version, wrongly_deduced
from parley.drafts.strategies import Answers, Exchange, Outcome, Steps
from parley.versions import Feature, release


@pytest.fixture
async def cluster() -> AsyncIterator[AsyncLocalCluster]:
    async with AsyncLocalCluster(1, release="0.10.0") as running:
        running.create_topic("t", 2)
        yield running


async def discover(cluster: AsyncLocalCluster, name: str) -> Cost:
    return await ask(name, STRATEGIES[name], cluster.broker(1).address)


async def draft_answer(
    cluster: AsyncLocalCluster, keys: list[int] | None, topics: list[str] | None
) -> object:
    """Send one draft Metadata v1 and return the answer."""
    request, response = draft_metadata()
    seen: list[object] = []

    def steps() -> Steps:
        asked = encode_draft_request(request(api_keys=keys, topics=topics), 1, 7, "me")
        answers: Answers = yield Exchange((asked,))
        seen.append(decode_draft_response(response, 1, answers.frames[0][4:]))
        return Outcome("asked")

    await ask("one", steps, cluster.broker(1).address)
    return seen[0]


async def test_an_empty_array_of_keys_asks_for_all_and_null_for_none(
    cluster: AsyncLocalCluster,
) -> None:
    cluster.broker(1).dialect = DraftDialect("0.10.0")
    everything = await draft_answer(cluster, [], None)
    assert len(everything.api_versions) == len(release("0.10.0").ranges)
    assert everything.topic_metadata == []
    some = await draft_answer(cluster, [1, 3, 999], None)
    assert [(e.api_key, e.min_version, e.max_version) for e in some.api_versions] == [
        (1, 0, 2),
        (3, 0, 1),
    ]
    none = await draft_answer(cluster, None, ["t"])
    assert none.api_versions == []
    assert [(t.topic, len(t.partition_metadata)) for t in none.topic_metadata] == [("t", 2)]
    assert [b.port for b in none.brokers] == [cluster.broker(1).address.port]


async def test_the_draft_steps_up_and_option_2_steps_down(cluster: AsyncLocalCluster) -> None:
    """A broker that has dropped v1 costs the draft a second connection; one that
    lacks v2 costs it option 2.
    """
    cluster.broker(1).dialect = DraftDialect("0.10.0", (2, 2))
    up, down = await discover(cluster, "draft-30"), await discover(cluster, "option-2")
    assert (up.connections, up.outcome.summary) == (2, "Metadata v2")
    assert (down.connections, down.outcome.summary) == (1, "Metadata v2")
    cluster.broker(1).dialect = DraftDialect("0.10.0", (1, 1))
    up, down = await discover(cluster, "draft-30"), await discover(cluster, "option-2")
    assert (up.connections, up.outcome.summary) == (1, "Metadata v1")
    assert (down.connections, down.outcome.summary) == (2, "Metadata v1")
    assert down.outcome.ranges[0] == (0, 2)


async def test_a_closed_connection_leaves_the_client_guessing() -> None:
    """The page's own objection, point 6: was it the version, or something else?
    Kafka 4.3 closes on both.
    """
    async with AsyncLocalCluster(1, release="4.3") as cluster:
        cluster.broker(1).dialect = DraftDialect("4.3", (3, 3))
        up, down = await discover(cluster, "draft-30"), await discover(cluster, "option-2")
        assert "something else" in up.outcome.summary
        assert not up.outcome.ranges
        assert "v0 carries no versions" in down.outcome.summary


async def test_option_3_deduces_the_ranges_from_the_release_page(
    cluster: AsyncLocalCluster,
) -> None:
    cluster.broker(1).dialect = DocumentedDialect("0.10.0.1")
    cost = await discover(cluster, "option-3")
    assert cost.outcome.summary == "protocol version 4"
    assert cost.outcome.ranges == dict(release("0.10.0.1").ranges)
    assert cost.round_trips == 1


async def test_option_3_helps_nobody_with_a_newer_broker(
    cluster: AsyncLocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.drafts.dialects.protocol_version", lambda name: 99)
    cluster.broker(1).dialect = DocumentedDialect("0.10.0.1")
    cost = await discover(cluster, "option-3")
    assert not cost.outcome.ranges


def test_option_3_minimal_numbers_are_wrong_where_a_release_lost_apis() -> None:
    """KRaft 3.3.2 lost APIs that 3.0.2 had: a minimal number cannot say so,
    which is why ranges won.
    """
    assert Feature.SCRAM_USERS in wrongly_deduced(protocol_version("3.3.2"))
    assert wrongly_deduced(protocol_version("2.4.1")) == []
    assert minimal_numbers()[Feature.RECORD_TIMESTAMPS] == 4


async def test_empty_answers_keep_the_connection(cluster: AsyncLocalCluster) -> None:
    """0.10.0 knows ApiVersions v0 only: four empty answers of 8 bytes, all on one connection."""
    cluster.broker(1).dialect = EmptyAnswerDialect("0.10.0")
    cost = await discover(cluster, "empty-answers")
    assert (cost.round_trips, cost.connections, cost.outcome.summary) == (5, 1, "ApiVersions v0")
    without = AsyncLocalCluster(1, release="0.9")
    async with without:
        silent = await ask(
            "empty-answers", STRATEGIES["empty-answers"], without.broker(1).address, silence_ms=100
        )
        assert "silent" in silent.outcome.summary
        without.broker(1).dialect = EmptyAnswerDialect("0.9")
        reported = await ask(
            "empty-answers", STRATEGIES["empty-answers"], without.broker(1).address
        )
        assert reported.outcome.summary == "ApiVersions is not supported by the server"


def test_the_command_compares_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["discovery", "compare", "--format", "json"]) == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)["rows"]
    assert {row["strategy"] for row in rows} == set(STRATEGIES)
    assert all(row["apis"] for row in rows if row["strategy"] == "accepted")
    assert re.search(r"accepted: \d+ APIs in common", printed.err)
