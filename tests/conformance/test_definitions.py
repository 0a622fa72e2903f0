"""parley's notation says of every message in every version what the kafka-clients jars say."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from parley.messages.plan import make_plan
from parley.schema import ApiKey, data_names, load
from parley.versions import releases

APIS = Path(__file__).parents[2] / "src" / "parley" / "schema" / "apis"


@pytest.mark.jars
def test_every_field_in_every_version_equals_the_jars(
    clients_jars: dict[str, Path], tools: dict[str, ModuleType]
) -> None:
    assert list(tools["compare_definitions"].compare(list(clients_jars.values()))) == []


@pytest.mark.jars
def test_notation_files_are_what_the_import_writes(
    clients_jars: dict[str, Path], tools: dict[str, ModuleType]
) -> None:
    """Nobody edits a notation file by hand and loses it at the next import.

    Those of records are not in these jars: `tests/golden/groups` has real brokers' bytes of them.
    """
    written = tools["import_definitions"].files(tools["definitions"].merged(clients_jars.values()))
    known = [path for path in APIS.glob("*.api") if not path.name.startswith("record_")]
    assert {path.name: path.read_text(encoding="utf-8") for path in known} == written


@pytest.mark.jars
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("01_fetch.api", "max_wait_ms               int32", "max_wait_ms               int16"),
        ("03_metadata.api", "flexible=9+", "flexible=10+"),
        ("18_api_versions.api", "tag=1 default=-1", "tag=1 default=-2"),
        ("01_fetch.api", "7+    default=-1 ignorable", "7+    default=-1"),
        ("19_create_topics.api", "  key\n", "\n"),
        ("00_produce.api", "null default=null", "default=null"),
    ],
)
def test_comparison_sees_a_wrong_fact(
    file: str, old: str, new: str, clients_jars: dict[str, Path], tools: dict[str, ModuleType]
) -> None:
    from parley.schema import Parser

    compare = tools["compare_definitions"]
    text = (APIS / file).read_text(encoding="utf-8")
    assert old in text
    schema = Parser(file, text.replace(old, new, 1)).api()
    found = []
    for definition in tools["definitions"].read_jar(clients_jars["4.3.0"]):
        facts = tools["definitions"].message_facts(definition)
        if facts is not None:
            for mine in (schema.request, schema.response):
                if mine.name == facts.name:
                    found += compare.compare_message(mine, facts, set(), set())
    assert found


def test_only_the_leader_hints_of_kip_951_are_read_earlier_than_the_jars_write_them() -> None:
    """The one exception: the KIP's page has them in Produce 9+ and Fetch 12+,
    the jars from 10 and 16 on.
    """
    early = {
        (load(key).response.name, version, step.name)
        for key in ApiKey
        for version in load(key).response.valid_versions.versions()
        for schema in (load(key).request, load(key).response)
        for step in set(make_plan(schema, version, reading=True).walk())
        - set(make_plan(schema, version).walk())
        if step.field.tag is not None
    }
    assert early == {
        ("ProduceResponse", 9, "current_leader"),
        ("ProduceResponse", 9, "node_endpoints"),
        *(("FetchResponse", version, "node_endpoints") for version in range(12, 16)),
    }


def test_every_version_that_a_release_advertises_is_described() -> None:
    missing = [
        (name, key, versions)
        for name, release in releases().items()
        for key, versions in release.ranges.items()
        if load(ApiKey(key)).request.valid_versions.intersect(versions) != versions
    ]
    assert missing == []


def test_every_api_begins_at_version_0_and_has_one_range() -> None:
    for key in ApiKey:
        assert load(key).request.valid_versions.min == 0
        assert load(key).request.valid_versions == load(key).response.valid_versions
    assert [int(key) for key in ApiKey] == list(range(93))
    assert len(data_names()) == 10
