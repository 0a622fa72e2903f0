"""A pipeline's file: what it means, and what is wrong with it, by line."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from parley.errors import ConfigError
from parley.pipelines.checks import size
from parley.pipelines.declared.declaration import Compared, Declaration
from parley.pipelines.declared.keys import moment
from parley.pipelines.declared.lines import line_of
from parley.pipelines.declared.reading import document_read, read, read_text
from parley.pipelines.queries import DELTA, TOPIC, QueryOptions
from parley.pipelines.replay import ReplayOptions
from parley.pipelines.replication import ReplicationOptions

WHOLE = """
[pipeline]
name = "orders"
state = "state"

[cluster.old]
"bootstrap.servers" = "old:9092"
release = "0.9"

[cluster.new]
"bootstrap.servers" = "new:9093"
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.plain.username" = "env:ORDERS_USER"
"sasl.plain.password" = "file:SECRET"

[flow.mirror]
kind = "copy"
from = { cluster = "old", topics = "orders|payments" }
to = { cluster = "new", groups = ["billing"] }
start = "latest"
buffer = "16MiB"

[flow.again]
kind = "replay"
from = { cluster = "new", topic = "orders", since = 2026-01-01, until = 2026-01-02T00:00:00Z }
to = { topic = "orders-again", partition-by = "key" }
rate = "20MB/s"

[flow.letters]
kind = "replay"
from = { cluster = "new", topic = "orders.dlq" }
dead-letters = true

[flow.proof]
kind = "verify"
to = { flow = "mirror" }

[flow.same]
kind = "verify"
from = { cluster = "old", topics = ["a", "b"] }
to = { cluster = "new", topics = ["a", "c"] }
ignore-timestamps = true
"""


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    monkeypatch.setenv("ORDERS_USER", "amelie")
    return WHOLE.replace("SECRET", str(secret))


def read_here(text: str) -> Declaration:
    return read_text(text, Path("orders.toml"))


def test_a_file_means_what_it_says(whole: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.toml"
    path.write_text(whole)
    found = read(path)
    assert (found.name, found.state) == ("orders", tmp_path / "state" / "orders")
    assert found.clusters["old"].broker_version_hint == "0.9"
    new = found.clusters["new"]
    assert new.sasl_plain_username == "amelie"
    assert "hunter2" not in repr(found)
    flows = found.flows
    assert [name for name, flow in flows.items() if flow.auto] == ["mirror"]
    mirror, again, letters = (flows[name].options for name in ("mirror", "again", "letters"))
    assert mirror == ReplicationOptions(
        name="orders-mirror",
        topics_pattern="orders|payments",
        groups=["billing"],
        start="latest",
        buffer_bytes=16 * 2**20,
    )
    assert again == ReplayOptions(
        name="orders-again",
        topic="orders",
        to="orders-again",
        from_timestamp_ms=1_767_225_600_000,
        until_timestamp_ms=1_767_312_000_000,
        partition_by="key",
        bytes_per_second=2e7,
    )
    assert letters == ReplayOptions(name="orders-letters", topic="orders.dlq", dead_letters=True)
    assert (flows["again"].source, flows["again"].target) == ("new", "new")
    proof, same = flows["proof"].options, flows["same"].options
    assert isinstance(proof, Compared)
    assert isinstance(same, Compared)
    assert (proof.flow, dict(same.topics)) == ("mirror", {"a": "a", "b": "c"})
    assert same.options.ignore_timestamps


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("my%20state", "FOLDER/my%20state"),
        ("/data/my%20state", "/data/my%20state"),
        ("file:///data/my%20state", "/data/my state"),
        ("file:///data/%C3%BCber", "/data/über"),
        ("file:/data/100%", "/data/100%"),
    ],
)
def test_the_state_is_a_folder_beside_the_file_or_a_file_address(
    whole: str, tmp_path: Path, given: str, expected: str
) -> None:
    found = read_text(whole.replace(STATE, f'state = "{given}"'), tmp_path / "orders.toml")
    assert str(found.state) == f"{expected.replace('FOLDER', str(tmp_path))}/orders"


KIND, TOPICS = 'kind = "copy"', 'topics = "orders|payments"'
SERVERS, STATE = '"bootstrap.servers" = "old:9092"', 'state = "state"'
SECRET = '"file:SECRET"'


@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ("[pipeline]", "[pipelines]", 2, 'no key "pipelines". Did you mean "pipeline"'),
        ('name = "orders"', 'name = "or ders"', 3, "name='or ders' cannot be used"),
        ('name = "orders"', "name = 1", 3, "name=1 cannot be used"),
        ('name = "orders"', 'name = ".."', 3, "name='..' cannot be used"),
        ('name = "orders"', 'name = "."', 3, "name='.' cannot be used"),
        (STATE, 'state = "s3://bucket/x"', 4, "state='s3://bucket/x' is no folder"),
        (STATE, 'state = "file://there/x"', 4, '"file://there/x" names no folder of this machine'),
        (STATE, 'sate = "state"', 4, 'has no key "sate". Did you mean "state"'),
        (SERVERS, '"bootstrap.server" = "a:1"', 7, 'Did you mean "bootstrap.servers"'),
        (SERVERS, "", 6, '[cluster.old] has no "bootstrap.servers"'),
        ("env:ORDERS_USER", "env:NOBODY", 14, "points to the environment variable NOBODY"),
        (SECRET, '"file:/nowhere"', 15, "points to the file /nowhere"),
        (SECRET, '"hunter2"', 15, "is a secret and must not stand in the file"),
        (KIND, 'kind = "cpoy"', 18, 'Did you mean "copy"'),
        (KIND, "", 17, "kind=None is not one of copy, ingest, sql, replay, verify"),
        (TOPICS, 'toppics = "x"', 19, '[flow.mirror.from] has no key "toppics"'),
        (TOPICS, 'topics = "("', 17, "topics_pattern"),
        ('cluster = "old"', 'cluster = "odl"', 19, "cluster='odl' is not declared"),
        ('groups = ["billing"]', 'gruops = ["billing"]', 20, "[flow.mirror.to] has no key"),
        ('start = "latest"', 'start = "later"', 17, "start='later'"),
        ('buffer = "16MiB"', 'buffer = "much"', 22, '"much" is no number of bytes'),
        ("since = 2026-01-01", 'since = "soon"', 26, '"soon" is no date'),
        ('rate = "20MB/s"', 'auto = "no"', 28, "auto='no' is neither true nor false"),
        (
            ', topic = "orders.dlq"',
            "",
            30,
            "from has no place: give one of topic",
        ),
        ('flow = "mirror"', 'flow = "miror"', 37, 'Did you mean "mirror"'),
        ('flow = "mirror"', 'flow = "same"', 37, '"same" is no flow of the kind copy'),
        ('topics = ["a", "c"]', 'topics = ["a"]', 39, "from has 2 topics and to 1"),
        ('to = { flow = "mirror" }', "", 35, "from names no cluster"),
        ("[flow.mirror]", "[flow.mirror", 17, "it is no TOML"),
        ("[flow.mirror]", '[flow."a b"]', 17, '"a b" cannot be used'),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    whole: str, before: str, after: str, line: int, says: str
) -> None:
    if before == SECRET:  # the fixture has put a path there
        at = whole.index('"file:')
        before = whole[at : whole.index("\n", at)]
    assert before in whole
    with pytest.raises(ConfigError) as raised:
        read_here(whole.replace(before, after, 1))
    assert str(raised.value).startswith(f"orders.toml, line {line}: ")
    assert says in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_names_of_javas_clients_are_left_out_and_logged_with_their_line(
    whole: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = '"bootstrap.servers" = "old:9092"'
    path = tmp_path / "p.toml"
    found = read_text(whole.replace(servers, f'{servers}\n"client.dns.lookup" = "x"'), path)
    assert found.clusters["old"].servers == (("old", 9092),)
    assert caplog.messages == [f"{path}, line 8: client.dns.lookup has no effect here"]
    with pytest.raises(ConfigError, match=r"line 8: .*env:NAME"):
        read_text(whole.replace(servers, f'{servers}\n"ssl.truststore.password" = "x"'), path)


def test_a_file_without_flows_or_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="nothing is to be done"):
        read_here('[pipeline]\nname = "x"\n')
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read"):
        read("nowhere.toml")
    with pytest.raises(ConfigError, match=r"line 1: \[pipeline\] is missing"):
        read_here("[cluster.a]\n")
    with pytest.raises(ConfigError, match=r"\[flow.a\] is no table"):
        read_here('[pipeline]\nname = "x"\n[flow]\na = 1\n')


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)


leaves = st.booleans() | st.integers() | st.text(max_size=5) | st.floats()
values = st.recursive(leaves, nested, max_leaves=4)
keys = st.sampled_from(
    ["kind", "auto", "from", "to", "rate", "start", "topics", "cluster", "topic", "speed"]
)
tables = st.dictionaries(
    st.sampled_from(["name", "state", "a", "b c"]), values | st.dictionaries(keys, values)
)


@given(st.dictionaries(st.sampled_from(["pipeline", "cluster", "flow", "x"]), tables))
def test_whatever_a_file_has_is_read_or_refused(document: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        document_read("", Path("x.toml"), document)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 1),
        (("a", "b"), 2),
        (("a", "c", "d"), 3),
        (("a", "c", "nothing"), 3),
        (("a", "x y", "z"), 5),
        (("a", "e", "f"), 4),
        (("nothing",), 1),
    ],
)
def test_lines_are_found(path: tuple[str, ...], line: int) -> None:
    text = '[a]  # "b" = 1\nb = "c = 1"\nc = { d = 1 }\n\'e\'.f = 2\n[a."x y"]\nz = 3\n'
    expected = line + 1 if path == ("a", "x y", "z") else line
    assert line_of(text, path) == expected


@pytest.mark.parametrize("wrong", ["", "0", "MB", "-1", "1TB", True, None, 0, -5, [], "1,5MB"])
def test_what_is_no_size(wrong: object) -> None:
    with pytest.raises(ConfigError, match="no number of bytes"):
        size(wrong)


@pytest.mark.parametrize("wrong", ["", "soon", 5, None, "1969-12-31", True])
def test_what_is_no_moment(wrong: object) -> None:
    with pytest.raises(ConfigError, match="no date and time"):
        moment(wrong)


QUERIES = """
[pipeline]
name = "orders"

[cluster.new]
"bootstrap.servers" = "new:9093"
sasl_mechanism = "PLAIN"

[registry.main]
url = "http://registry:8081"
"basic.auth.user.info" = "env:REGISTRY_LOGIN"

[spark]
master = "local[2]"
"spark.sql.shuffle.partitions" = 8

[flow.lake]
kind = "ingest"
from.cluster = "new"
from.topics = "orders|sales"
from.value = { format = "avro", registry = "main", columns = ["a", "b"] }
select = ["value.*", "offset"]
where = "value.a > 0"
to = { delta = "lake", partition-by = ["a"], evolve = "add-columns", storage = { region = "x" } }
errors = { topic = "orders.dlq", max-per-task = 7 }
watermark = { column = "timestamp", delay = "10 minutes" }
trigger = "1 minute"

[flow.totals]
kind = "sql"
from = { cluster = "new", topics = ["orders"], start = "latest", max-bytes-per-trigger = "1MiB" }
sql = "select count(*) from input"
to = { topic = "totals", key = "city", value = { format = "json" }, delivery = "exactly-once" }

[flow.totals.test]
given = [{ topic = "orders", value = "one" }]
expect = [{ topic = "totals" }]
"""


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_LOGIN", "ann:hunter2")


@pytest.mark.usefixtures("login")
def test_queries_are_options_of_the_data_sources() -> None:
    found = read_here(QUERIES)
    assert found.spark == {"master": "local[2]", "spark.sql.shuffle.partitions": "8"}
    assert "hunter2" not in repr(found)
    lake, totals = found.flows["lake"].options, found.flows["totals"].options
    assert isinstance(lake, QueryOptions)
    assert isinstance(totals, QueryOptions)
    assert (lake.name, lake.trigger, lake.output_mode) == ("orders-lake", "1 minute", "append")
    assert lake.sql == "select value.*, offset from input where value.a > 0"
    assert lake.watermark == ("timestamp", "10 minutes")
    assert lake.checkpoint == Path(".parley/orders/lake/v1/checkpoint").resolve()
    assert lake.source == {
        "kafka.bootstrap.servers": "new:9093",
        "kafka.sasl.mechanism": "PLAIN",
        "subscribePattern": "orders|sales",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "schemaRegistryUrl": "http://registry:8081",
        "schemaRegistryBasicAuthUserInfo": "ann:hunter2",
        "valueFormat": "avro",
        "valueColumns": "a,b",
        "onSchemaError": "dead-letter",
        "deadLetterTopic": "orders.dlq",
        "deadLetterLimit": "7",
    }
    assert lake.sink.format == DELTA
    assert lake.sink.options == {
        "path": "lake", "partitionBy": "a", "mergeSchema": "true", "storage.region": "x",
    }  # fmt: skip
    assert totals.sink.format == TOPIC
    assert (totals.sink.key, totals.output_mode) == ("city", "append")
    assert totals.source["maxBytesPerTrigger"] == "1048576"
    assert totals.sink.options == {
        "kafka.bootstrap.servers": "new:9093",
        "kafka.sasl.mechanism": "PLAIN",
        "topic": "totals",
        "delivery": "exactly-once",
        "valueFormat": "json",
        "valueFraming": "none",
    }
    trial = found.flows["totals"].trial
    assert trial is not None
    assert trial.given == [{"topic": "orders", "value": "one"}]
    assert all(flow.auto for flow in found.flows.values())


@pytest.mark.usefixtures("login")
def test_all_conditions_of_a_list_hold() -> None:
    several = 'where = ["value.a > 0", "value.b or value.c"]'
    found = read_here(QUERIES.replace('where = "value.a > 0"', several)).flows["lake"].options
    assert isinstance(found, QueryOptions)
    assert found.sql.endswith(" where (value.a > 0) and (value.b or value.c)")


@pytest.mark.usefixtures("login")
@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ('"env:REGISTRY_LOGIN"', '"ann:hunter2"', 11, "is a secret and must not stand"),
        ('"http://registry', '"http://ann:hunter2@registry', 10, "url holds a login"),
        ("url =", "urls =", 9, "no option of a schema registry"),
        ("master =", "mater =", 14, '[spark] has no key "mater"'),
        ('registry = "main"', 'registry = "mian"', 17, 'Did you mean "main"'),
        ("columns =", "colums =", 21, '[flow.lake.from.value] has no key "colums"'),
        ('format = "avro", ', "", 17, "value has no format"),
        ('"avro"', '"arvo"', 17, "arvo"),
        ('topics = "orders|sales"', "topics = 1", 17, "from names no topics"),
        ('topics = "orders|sales"', 'topics = "("', 17, "subscribePattern"),
        ('delta = "lake"', 'dleta = "lake"', 24, 'Did you mean "delta"'),
        ('delta = "lake", ', "", 17, "to has no place"),
        ('delta = "lake"', 'delta = "lake", topic = "a"', 17, "to has topic and delta"),
        ('delta = "lake"', 'delta = "lake", key = "a"', 17, "to has key, which is for topics"),
        ("storage = { region", "catalog = { region", 17, "is not for delta"),
        ('"add-columns"', '"all"', 17, "evolve='all' is not one of"),
        ("max-per-task = 7", "max-per-task = -1", 17, "max-per-task=-1"),
        ('delay = "10 minutes"', "delay = 10", 17, "watermark is like"),
        ('"1 minute"', '"soon"', 17, 'trigger="soon" is neither'),
        ('trigger = "1 minute"', 'transform = "module"', 17, "names no function"),
        ('trigger = "1 minute"', 'output-mode = "update"', 17, "output-mode='update'"),
        ('select = ["value.*", "offset"]', "select = []", 22, "[] is no SQL"),
        ('sql = "select', 'sqll = "select', 32, 'has no key "sqll"'),
        ('sql = "select count(*) from input"', "", 29, "sql is missing"),
        ('key = "city"', 'storage = "x", key = "city"', 29, "which is for tables"),
        ('delivery = "exactly-once"', 'delivery = "twice"', 29, "delivery"),
        ('given = [{ topic = "orders", value', 'given = [{ topci = "orders", value', 35, "topci"),
        ('given = [{ topic = "orders", value', "given = [{ value", 35, "names no topic"),
        ("expect = [{ topic", "expect = [{ topics", 35, 'expect has no key "topics"'),
    ],
)
def test_what_is_wrong_with_queries(before: str, after: str, line: int, says: str) -> None:
    assert before in QUERIES
    with pytest.raises(ConfigError) as raised:
        read_here(QUERIES.replace(before, after, 1))
    assert f"orders.toml, line {line}: " in str(raised.value)
    assert says in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_only_queries_have_tests(whole: str) -> None:
    with pytest.raises(ConfigError, match="only flows of the kinds ingest and sql have a test"):
        read_here(whole + "\n[flow.mirror.test]\ngiven = []\n")


@pytest.mark.usefixtures("login")
@pytest.mark.parametrize(
    "name", ["lock", "drain", "spark.log", ".", "..", "totals.json", ".totals.new"]
)
def test_a_query_is_not_called_as_a_file_of_the_pipeline(name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_here(QUERIES.replace("[flow.lake]", f'[flow."{name}"]'))
    assert str(raised.value).startswith("orders.toml, line 17: ")
    assert "give the flow another name" in str(raised.value)


@pytest.mark.usefixtures("login")
def test_other_flows_may_be_called_so(whole: str) -> None:
    found = read_here(whole.replace("flow.mirror]", "flow.drain]").replace('"mirror"', '"drain"'))
    assert "drain" in found.flows
    assert "drain.json" in read_here(QUERIES.replace("flow.lake", 'flow."drain.json"')).flows
