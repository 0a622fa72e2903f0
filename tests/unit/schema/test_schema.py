"""The notation: what a file says is what the model holds, and a bad file is refused by its line."""

from __future__ import annotations

import pytest

from parley.schema import (
    ApiKey,
    Fresh,
    NotationError,
    Parser,
    VersionRange,
    data_names,
    load,
    load_data,
    load_header,
    load_record,
    record_names,
)

SAMPLE = """
# a comment
api 1 Fetch
listeners broker controller

request 0-9 flexible=6+ deprecated=0-3 unstable=9
  name        string     0-5  null=2+ default=null ignorable   # another
  timeoutMs   int32      1+   default=0x7fffffff kafka=timeoutMs
  enabled     bool       7+   tag=3 default=true
  ratio       float64    0+   default=0.5
  items       []Item     0+
    id        uuid       0+   key
    parts     []Part     3+   null
    one       Part       4+
    other     Part       4    null default=null
  secret_key  bytes      0+   secret
  numbers     []int64    0+
  struct Part
    index     int32      0+   default=-1

response 0-9
"""


def parse(text: str) -> object:
    return Parser("01_fetch.api", text).api()


def test_every_part_of_the_notation() -> None:
    schema = Parser("01_fetch.api", SAMPLE).api()
    request = schema.request
    assert (schema.key, schema.name, schema.listeners) == (
        ApiKey.FETCH,
        "Fetch",
        ("broker", "controller"),
    )
    assert (request.name, request.kind, request.valid_versions) == (
        "FetchRequest",
        "request",
        (0, 9),
    )
    assert (request.flexible_versions, request.deprecated_versions, request.unstable_versions) == (
        (6, 9),
        (0, 3),
        (9, 9),
    )
    assert [request.is_flexible(version) for version in (5, 6)] == [False, True]
    name, timeout, enabled, ratio, items, secret_key, numbers = request.fields
    assert (name.kafka_name, name.versions, name.nullable, name.default) == (
        "Name",
        (0, 5),
        (2, 5),
        None,
    )
    assert (name.ignorable, name.tag, name.map_key) == (True, None, False)
    assert (timeout.kafka_name, timeout.default, timeout.versions) == (
        "timeoutMs",
        0x7FFFFFFF,
        (1, 9),
    )
    assert (enabled.tag, enabled.default, ratio.default) == (3, True, 0.5)
    assert (items.type, items.is_array, items.default) == ("Item", True, Fresh.LIST)
    assert (secret_key.secret, secret_key.default, numbers.type, numbers.is_array) == (
        True,
        b"",
        "int64",
        True,
    )
    assert items.struct is not None
    identity, parts, one, other = items.struct.fields
    assert (identity.map_key, identity.default) == (True, bytes(16))
    assert parts.struct == one.struct == other.struct
    assert one.default is Fresh.STRUCT
    assert (other.default, other.versions, other.nullable) == (None, (4, 4), (4, 4))
    assert schema.response.fields == ()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("api 1 Fetch", "api one Fetch", "line 3: expected"),
        ("api 1 Fetch", "api 999 Fetch", "line 3: key 999"),
        ("listeners", "listens", "the lines api, listeners"),
        ("flexible=6+", "flexible=six", 'line 6: "six" is not a range'),
        ("flexible=6+", "flexy=6+", 'line 6: "flexy=6\\+" is not one of'),
        ("request 0-9", "request", "line 6"),
        ("request 0-9", "request 9-0", 'line 6: "9-0"'),
        ("0-5  null", "0-12  null", "line 7: the versions 0-12 reach beyond 9"),
        ("int32      1+", "int33      1+", 'line 8: the type "int33"'),
        ("0x7fffffff", "many", 'line 8: "many" is not a default of the type int32'),
        ("default=true", "default=maybe", 'line 9: "maybe"'),
        ("tag=3", "tag=x", 'line 9: "tag=x" is not an option'),
        ("  ratio  ", "   ratio  ", "line 10: indented"),
        ("  ratio  ", "      ratio  ", "line 10: indented"),
        ("  ratio       float64    0+   default=0.5", "  ratio", "line 10: a field needs"),
        ("  ratio  ", "  name  ", 'line 10: a second field "name"'),
        (
            "secret_key  bytes      0+   secret",
            "secret_key  bytes      0+   hidden",
            'line 16: "hidden"',
        ),
        (
            "    index     int32      0+   default=-1",
            "    index     Part       0+",
            'line 19: the type "Part"',
        ),
        ("    index     int32      0+   default=-1", "", 'line 13: the type "Part"'),
        (
            "numbers     []int64    0+",
            "numbers     []int64    0+\n    inner int8 0+",
            "line 18: fields below",
        ),
        ("response 0-9", "response 0-8", "line 21: the response has other versions"),
    ],
)
def test_bad_notation_names_file_and_line(old: str, new: str, problem: str) -> None:
    assert old in SAMPLE
    with pytest.raises(NotationError, match=f"01_fetch.api.*{problem}"):
        parse(SAMPLE.replace(old, new, 1))


@pytest.mark.parametrize("text", ["", "header OnlyName", "api 1 Fetch", "data A 0\ndata B 0"])
def test_message_files_hold_one_message(text: str) -> None:
    with pytest.raises(NotationError, match=r"x\.api"):
        Parser("x.api", text).message()


def test_all_files_parse_and_say_their_own_key() -> None:
    for key in ApiKey:
        schema = load(key)
        assert (schema.key, schema.name) == (key, key.api_name)
    assert load_header("RequestHeader").valid_versions == (0, 2)
    assert load_header("ResponseHeader").valid_versions == (0, 1)
    for name in data_names():
        assert load_data(name).name == name
    for name in record_names():
        assert load_record(name).name == name
    with pytest.raises(KeyError):
        load_data("NoSuchMessage")


def test_ranges() -> None:
    assert VersionRange(0, 5).intersect(VersionRange(3, 9)) == (3, 5)
    assert VersionRange(0, 5).intersect((5, 5)) == (5, 5)
    assert VersionRange(0, 5).intersect((6, 9)) is None
    assert list(VersionRange(2, 4).versions()) == [2, 3, 4]
    assert [str(VersionRange(0, 5)), str(VersionRange(2, 2))] == ["0-5", "2"]
    assert [version in VersionRange(1, 3) for version in (0, 1, 3, 4)] == [False, True, True, False]
    assert [VersionRange.parse("3"), VersionRange.parse("0-5"), VersionRange.parse("2+", 4)] == [
        (3, 3),
        (0, 5),
        (2, 4),
    ]
    for text in ("", "x", "5-3", "2+", "-1", "1-2-3"):
        with pytest.raises(ValueError):
            VersionRange.parse(text)
