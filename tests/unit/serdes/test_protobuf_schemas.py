"""Texts of .proto files: the descriptors that protoc makes of them, and nothing but SchemaError."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import google.type
import pytest
from google.protobuf import descriptor_pb2 as pb
from hypothesis import given, settings, strategies as st

from parley.errors import SchemaError
from parley.serdes import NamedSchema, Schema
from parley.serdes.protobuf.files import (
    compile_schema,
    file_protos,
    indexes_of,
    message_named,
    message_of,
)
from parley.serdes.protobuf.printing import print_proto

from ...support.protoc import INCLUDES, protoc_files

GOOGLE = Path(next(iter(google.type.__path__))).parent.parent

PROTO2 = r"""
/* what only proto2 has */ syntax = "proto2"; // and a comment
package shop.old;
import "google/protobuf/descriptor.proto";
option java_package = "org.shop"; option optimize_for = SPEED;
option (own) = { text: "a" list: [1, 2] inner < x: 3 > };
extend google.protobuf.FileOptions { optional Own own = 50001; }
message Own {
  optional string text = 1; repeated int32 list = 2; optional Own inner = 3; optional int32 x = 4;
}
message Old {
  required int32 id = 1 [default = -0x10];
  optional uint64 big = 2 [default = 18446744073709551615, deprecated = true];
  optional string text = 3 [default = "a\"\n\x41\101\u00fc" 'b'];
  optional bytes raw = 4 [default = "\000\xff\"x"];
  optional float small = 5 [default = -inf]; optional double wide = 6 [default = 1.5e3];
  optional double none = 7 [default = nan]; optional bool yes = 8 [default = true];
  optional Color color = 9 [default = RED];
  repeated sint32 packed = 10 [packed = true];
  optional group Part = 11 {
    optional string name = 1; repeated group Deep = 2 { optional int32 x = 1; }
  }
  oneof choice { string left = 12; group Right = 13 { optional int32 y = 1; } }
  map<string, Old> others = 14;
  enum Color {
    option allow_alias = true; RED = 0; CRIMSON = 0; BLUE = -1 [deprecated = true];
    reserved 5, 7 to 9, 100 to max; reserved "GREEN";
  }
  message Inner {
    optional Old.Inner self = 1; optional .shop.old.Old outer = 2; optional Color color = 3;
  }
  optional Inner inner = 15 [json_name = "theInner", (hidden) = true, jstype = JS_NORMAL];
  extensions 100 to 199, 500, 1000 to max;
  reserved 16, 17 to 20; reserved "gone", "away";
  extend Old { optional int32 nested_extension = 100; }
}
extend google.protobuf.FieldOptions { optional bool hidden = 50002; }
extend Old { repeated int32 added = 101; }
message Odd {
  optional int32 message = 1; optional string optional = 2; optional bool reserved = 3;
  optional int32 map = 4;
}
service Shop {
  option deprecated = true; rpc Buy(Old) returns (stream Old.Inner);
  rpc Many(stream Old) returns (.shop.old.Old) { option idempotency_level = IDEMPOTENT; }
}
"""
PROTO3 = """
syntax = "proto3";
package shop.v1;
import public "other.proto"; import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; optional string note = 2; optional Status status = 3; string _odd__name_1 = 4;
  map<int32, Line> lines_by_number = 5; map<string, Status> states = 6;
  repeated Line lines = 7; other.Thing thing = 8; google.protobuf.Timestamp made = 9;
  oneof payment { string card = 10; Cash cash = 11; }
  message Cash { double amount = 1; message Coin { int32 cents = 1; } repeated Coin coins = 2; }
  message Second { Cash.Coin coin = 1; shop.v1.Order order = 2; v1.Order again = 3; }
  optional int32 card_number_ = 12; bytes raw = 13; repeated fixed64 numbers = 14 [packed = false];
}
message Line { string what = 1; float much = 2; }
enum Status { UNKNOWN = 0; PAID = 1; }
message Empty {}
"""
OTHER = 'syntax = "proto3"; package other; message Thing { string name = 1; }'
EDITION = """
edition = "2023";
package shop.ed;
option features.field_presence = IMPLICIT;
message Ed {
  int32 id = 1 [features.field_presence = LEGACY_REQUIRED];
  string name = 2 [features = { field_presence: EXPLICIT }];
  repeated int32 loose = 3 [features.repeated_field_encoding = EXPANDED];
  Sub sub = 4 [features.message_encoding = DELIMITED];
  message Sub { int32 x = 1; }
  reserved gone, away;
}
enum Closed { option features.enum_type = CLOSED; A = 1; B = 5; }
"""
CASES = {"proto2": PROTO2, "proto3": PROTO3, "edition": EDITION}
CORPUS = sorted(
    str(one.relative_to(root))
    for root, folder in ((INCLUDES, "google/protobuf"), (GOOGLE, "google"))
    for one in (root / folder).rglob("*.proto")
    if "gapic" not in str(one)
)


def plain(made: pb.FileDescriptorProto) -> pb.FileDescriptorProto:
    """Return a descriptor without what is read over: options that a text defines itself."""
    found = pb.FileDescriptorProto.FromString(made.SerializeToString())
    for one in (found, *found.message_type, *found.enum_type, *found.extension, *found.service):
        _without_own(one)
    found.ClearField("name")
    if found.syntax == "proto2":
        found.ClearField("syntax")
    return found


def _without_own(made: object) -> None:
    options = getattr(made, "options", None)
    if options is not None:
        options.DiscardUnknownFields()
        for field, _ in options.ListFields():
            if field.is_extension:
                options.ClearExtension(field)
        if not options.ListFields() and not isinstance(made, pb.MethodDescriptorProto):
            made.ClearField("options")  # type: ignore[attr-defined]  # a descriptor
    for name in ("field", "nested_type", "enum_type", "extension", "oneof_decl", "value", "method",
                 "extension_range"):  # fmt: skip
        for inner in getattr(made, name, ()):
            _without_own(inner)


def compiled(text: str, *references: NamedSchema) -> pb.FileDescriptorProto:
    schema = Schema(text, "PROTOBUF")
    compile_schema(schema, references)
    return list(file_protos(schema, references).values())[-1]


def reference(name: str, text: str) -> NamedSchema:
    return NamedSchema(name, Schema(text, "PROTOBUF"))


@pytest.mark.parametrize("case", CASES)
def test_descriptors_are_those_of_protoc(case: str) -> None:
    theirs = protoc_files({"main.proto": CASES[case], "other.proto": OTHER})["main.proto"]
    ours = compiled(CASES[case], reference("other.proto", OTHER))
    assert plain(ours) == plain(theirs)
    printed = print_proto(ours)
    again = compiled(printed, reference("other.proto", OTHER))
    assert by_number(plain(again)) == by_number(plain(ours)), printed


@pytest.mark.parametrize("name", CORPUS)
def test_the_files_of_others_are_read_as_protoc_does(name: str) -> None:
    files = protoc_files({}, GOOGLE, main=name)
    texts = {one: source(one) for one in files}
    ours = compiled(
        texts[name], *(reference(one, text) for one, text in texts.items() if one != name)
    )
    assert plain(ours) == plain(files[name])
    again = compiled(
        print_proto(ours), *(reference(one, text) for one, text in texts.items() if one != name)
    )
    assert by_number(plain(again)) == by_number(plain(ours))


def source(name: str) -> str:
    ours, theirs = INCLUDES / name, GOOGLE / name
    return (ours if ours.exists() else theirs).read_text(encoding="utf-8")


def by_number(made: pb.FileDescriptorProto) -> pb.FileDescriptorProto:
    """Return a descriptor with its fields in the order of their numbers: a oneof's stand together
    in a text.
    """

    def order(messages: Iterable[pb.DescriptorProto]) -> None:
        for one in messages:
            one.field.sort(key=lambda field: field.number)
            order(one.nested_type)

    order(made.message_type)
    return made


def test_a_descriptor_in_base64_is_a_schema() -> None:
    theirs = protoc_files({"main.proto": PROTO3, "other.proto": OTHER})["main.proto"]
    text = base64.b64encode(theirs.SerializeToString()).decode()
    assert plain(compiled(text, reference("other.proto", OTHER))) == plain(theirs)


def test_messages_are_found_by_name_and_by_indexes() -> None:
    file = compile_schema(Schema(PROTO3, "PROTOBUF"), [reference("other.proto", OTHER)])
    for name, indexes in (
        ("shop.v1.Order", (0,)),
        ("shop.v1.Line", (1,)),
        ("shop.v1.Order.Cash", (0, 0)),  # the messages of maps before it do not count
        ("shop.v1.Order.Cash.Coin", (0, 0, 0)),
        ("shop.v1.Order.Second", (0, 1)),
    ):
        assert indexes_of(message_named(file, name)) == indexes
        assert message_of(file, indexes).full_name == name
    assert message_named(file, None).full_name == "shop.v1.Order"
    with pytest.raises(SchemaError, match=r"no message shop\.v1\.Ordr.*shop\.v1\.Order"):
        message_named(file, "shop.v1.Ordr")
    with pytest.raises(SchemaError, match="no message at the indexes 0, 7"):
        message_of(file, (0, 7))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message A {", r"line 1, column 12: .* is expected, the end of the text is there"),
        ('syntax = "proto4";', 'line 1, column 10: "proto2" or "proto3" is expected'),
        ("message A {\n  optional Strin a = 1;\n}", "no type is named Strin; is an import missing"),
        ("message A { optional int32 a = 0; }", "0 is not from 1 to 536870911"),
        ("message A { optional int32 a = 1; optional int32 b = 1; }", "1"),
        ("message A { optional int32 a = 1; optional int32 a = 2; }", "a"),
        ('import "gone.proto"; message A {}', "gone.proto is imported and is not among"),
        ("message A { optional int32 a = 1 [default = 3000000000]; }", "3000000000 is not from"),
        ("message A { optional int32 a = 1 [packed = maybe]; }", "true or false is expected"),
        ("message A { optional int32 a = 1 [paked = true]; }", "there is no option paked"),
        ("/* never closed", "no part of a .proto text"),
        ("message A { optional string a = 1 [default = \"\\uD800\"]; }", "none of a text's"),
        ("message A; " * 3, "is expected"),
        ("message A {" * 40 + "}" * 40, "deep"),
        ('{"type": "string"}', "message, enum, import"),
        ("", "no message"),
        ("AAAA", "neither a .proto text nor"),
    ],
)  # fmt: skip
def test_texts_that_are_none(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        message_named(compile_schema(Schema(text, "PROTOBUF")), None)


def test_imports_in_a_circle_and_too_deep() -> None:
    circle = [
        reference("a.proto", 'import "b.proto"; message A {}'),
        reference("b.proto", 'import "a.proto"; message B {}'),
    ]
    with pytest.raises(SchemaError, match="imports itself"):
        compiled('import "a.proto"; message C {}', *circle)
    chain = [reference(f"{one}.proto", f'import "{one + 1}.proto";') for one in range(500)]
    with pytest.raises(SchemaError, match="too many files"):
        compiled('import "0.proto"; message C {}', *chain)


@settings(max_examples=150)
@given(data=st.data(), case=st.sampled_from(sorted(CASES)))
def test_a_damaged_text_is_an_error_or_a_schema(data: st.DataObject, case: str) -> None:
    text = CASES[case]
    at = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.integers(0, 8))
    added = data.draw(st.text("{}[]();=.\"'\\/*<>0-9aé\ud800 ", max_size=4))
    with suppress(SchemaError):  # and nothing else
        compiled(text[:at] + added + text[at + cut :], reference("other.proto", OTHER))


@settings(max_examples=100)
@given(raw=st.binary(max_size=60), data=st.data())
def test_a_damaged_descriptor_is_an_error_or_a_schema(raw: bytes, data: st.DataObject) -> None:
    whole = compiled(OTHER).SerializeToString()
    at = data.draw(st.integers(0, len(whole) - 1))
    for one in (raw, whole[:at] + raw[:2] + whole[at + 1 :]):
        if one:
            with suppress(SchemaError):  # and nothing else
                compiled(base64.b64encode(one).decode())
