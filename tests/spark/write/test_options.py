"""Options of a write: what is refused before a broker is asked, and what a query is called."""

from __future__ import annotations

import pickle

import pytest

from parley.errors import ConfigError
from parley.spark.options.texts import Use
from parley.spark.write.options import DEFAULT_TIMEOUT_MS, read_sink_options
from parley.spark.write.prefix import checkpoint_prefix

SERVERS = {"kafka.bootstrap.servers": "a:9092"}
ONCE = {**SERVERS, "delivery": "exactly-once"}


def test_at_least_once_is_the_default_and_uses_no_transactions() -> None:
    assert read_sink_options(SERVERS, Use.STREAM_WRITE).transactions is None
    assert (
        read_sink_options({**SERVERS, "delivery": "At-Least-Once"}, Use.BATCH_WRITE).transactions
        is None
    )


def test_a_query_is_named_after_its_checkpoint_however_that_is_spelt() -> None:
    found = read_sink_options(
        {**ONCE, "checkpointLocation": "/data/q"}, Use.STREAM_WRITE
    ).transactions
    assert found is not None
    assert found.prefix == checkpoint_prefix("/data/q")
    assert found.journal == f"{found.prefix}-journal"
    assert found.timeout_ms == DEFAULT_TIMEOUT_MS
    assert (
        len(
            {
                checkpoint_prefix(text)
                for text in (
                    "/data/q",
                    "/data/q/",
                    "file:/data/q",
                    "file:///data/q",
                    "/data//q",
                    "//data/q",
                    "/data/./q",
                    "/data/x/../q",
                    "file:///data/x/..//./q//",
                )
            }
        )
        == 1
    )
    assert checkpoint_prefix("/data/q") != checkpoint_prefix("s3://data/q")
    store = checkpoint_prefix("s3://data/q")
    for text in ("s3://data//q", "s3://data/./q/", "s3://data/x/../q"):
        assert checkpoint_prefix(text) == store


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("/data/q", "parley-aaefe77bba594546"),
        ("s3a://lake/q", "parley-7ec84d0488d7c2d9"),
        ("hdfs://h:9000/q", "parley-4f2aadaec332fbea"),
        ("q/r", "parley-c933b022112447b4"),
        ("s3a://lake", "parley-9e676cf6770b86a0"),
    ],
)
def test_the_name_of_a_query_is_that_of_earlier_releases(location: str, name: str) -> None:
    """Under another one a query that goes on does not find what it has written."""
    assert checkpoint_prefix(location) == name


def test_a_prefix_of_the_users_own_goes_before() -> None:
    options = {**ONCE, "checkpointLocation": "/data/q", "transactionalIdPrefix": "flights"}
    found = read_sink_options(options, Use.STREAM_WRITE).transactions
    assert found is not None
    assert found.journal == "flights-journal"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {},
            "needs a name for the query that stays over restarts: set the option "
            "checkpointLocation",
        ),
        (
            {"transactionalIdPrefix": "a b"},
            'transactionalIdPrefix="a b" cannot be used: 1 to 200 letters',
        ),
        ({"transactionalIdPrefix": "x" * 201}, "cannot be used: 1 to 200 letters"),
        ({"transactionalIdPrefix": "q", "kafka.acks": "1"}, "needs kafka.acks=all"),
        ({"transactionalIdPrefix": "q", "kafka.enable.idempotence": "false"}, "needs idempotence"),
        (
            {"transactionalIdPrefix": "q", "kafka.transaction.timeout.ms": "soon"},
            "milliseconds from 1 to",
        ),
        (
            {"transactionalIdPrefix": "q", "kafka.transaction.timeout.ms": "0"},
            "milliseconds from 1 to",
        ),
        ({"transactionalIdPrefix": "q", "lostTransactions": "skip"}, "fail or continue"),
        (
            {"delivery": "exactly once"},
            'at-least-once or exactly-once .*Did you mean "exactly-once"',
        ),
        (
            {"kafka.transactional.id": "x"},
            'tasks need ids of their own; set delivery to "exactly-once"',
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_sink_options({**ONCE, **options}, Use.STREAM_WRITE)


def test_the_time_out_is_the_users() -> None:
    options = {**ONCE, "transactionalIdPrefix": "q", "kafka.transaction.timeout.ms": "60000"}
    found = read_sink_options(options, Use.STREAM_WRITE).transactions
    assert found is not None
    assert found.timeout_ms == 60_000


def test_a_batch_needs_no_checkpoint() -> None:
    assert read_sink_options(ONCE, Use.BATCH_WRITE).transactions is not None


def test_settings_travel_to_tasks_and_show_no_secret() -> None:
    options = {
        **ONCE,
        "transactionalIdPrefix": "q",
        "kafka.sasl.username": "u",
        "kafka.sasl.password": "hunter2",
    }
    options |= {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    found = read_sink_options(options, Use.STREAM_WRITE)
    assert pickle.loads(pickle.dumps(found)) == found
    assert "hunter2" not in repr(found)


def test_include_headers_is_accepted_as_sparks_own_sink_does() -> None:
    read_sink_options({**SERVERS, "includeHeaders": "true"}, Use.STREAM_WRITE)
