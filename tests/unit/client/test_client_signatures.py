"""What a type checker and the calls themselves refuse where several names are wanted: one text.

Every public signature is walked: those of the client, the consumers and producers, the embedded
cluster and Spark.
"""

from __future__ import annotations

import collections.abc as abc
import inspect
import re
import ssl
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pytest

import parley
import parley.client
import parley.client.transactions.requests
import parley.devcluster
import parley.net.options
import parley.pipelines.declared
import parley.spark
from parley.client import (
    FetchOptions,
    ProduceOptions,
    TransactionFilter,
    record_shape,
)
from parley.client.cluster.abilities import named_features
from parley.client.produce.rows import Rows
from parley.devcluster import Security
from parley.errors import ConfigError
from parley.types import Many, several, texts

PLACES = (parley, parley.client, parley.devcluster, parley.pipelines.declared, parley.spark)
TAKES_A_TEXT = {abc.Iterable, abc.Sequence, abc.Collection, abc.Container, abc.Reversible}
"""Kinds of which a single text is one, for a type checker."""


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function, class, and method of a public class, by its name."""
    seen = set()
    for place in PLACES:
        for name in place.__all__:
            found = getattr(place, name)
            if inspect.isfunction(found):
                yield name, found
            if not inspect.isclass(found) or found in seen:
                continue
            seen.add(found)
            for method in dir(found):
                value = inspect.getattr_static(found, method)
                value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if inspect.isfunction(value) and (
                    method == "__init__" or not method.startswith("_")
                ):
                    yield f"{name}.{method}", value


def names() -> dict[str, Any]:
    """What annotations name that is imported for type checkers only."""
    found = {name: getattr(parley.client, name) for name in parley.client.__all__}
    found |= vars(parley.net.options) | vars(parley.client.transactions.requests)
    return found | {
        "pyarrow": pyarrow,
        "pa": pyarrow,
        "Rows": Rows,
        "SparkSession": object,
        "ssl": ssl,
        **vars(abc),
    }


def hints(found: Callable[..., Any]) -> dict[str, Any]:
    inner = inspect.unwrap(found)
    known = {**names(), **inner.__globals__}
    if inner.__module__.startswith("parley.spark"):  # Spark's own types
        known |= {name: object for name in _named(inner) if name not in known}
    return typing.get_type_hints(inner, known)


def _named(found: Callable[..., Any]) -> Iterator[str]:
    for annotation in found.__annotations__.values():
        yield from re.findall(r"[A-Z]\w+", str(annotation))


def parts(hint: Any) -> Iterator[Any]:
    """Yield a hint and what it is a union of."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for one in typing.get_args(hint):
            yield from parts(one)
    else:
        yield hint


def takes_a_text_for_several(hint: Any) -> bool:
    members = list(parts(hint))
    if str in members:
        return False  # a text is meant where one is named
    return any(
        typing.get_origin(one) in TAKES_A_TEXT
        and any(kind in (str, Any, object) for kind in _elements(one))
        for one in members
    )


def _elements(hint: Any) -> list[Any]:
    return [kind for argument in typing.get_args(hint) for kind in parts(argument)]


def test_no_public_signature_takes_a_text_for_several_names() -> None:
    walked, wrong = 0, []
    for name, found in public():
        for parameter, hint in hints(found).items():
            walked += 1
            if parameter != "return" and takes_a_text_for_several(hint):
                wrong.append(f"{name}({parameter}: {hint})")
    assert not wrong, wrong
    assert walked > 400  # the walk has found the signatures


def test_the_walk_sees_a_signature_that_is_wrong() -> None:
    def delete(
        names: abc.Iterable[str], more: abc.Sequence[str] | None = None, host: str | None = None
    ) -> None: ...

    wrong = [
        name
        for name, hint in typing.get_type_hints(delete).items()
        if takes_a_text_for_several(hint)
    ]
    assert wrong == ["names", "more"]


def test_the_calls_that_take_several_names_are_these() -> None:
    found = {
        f"{name}({parameter})"
        for name, call in public()
        for parameter, hint in hints(call).items()
        if any(typing.get_origin(one) is Many and str in _elements(one) for one in parts(hint))
    }
    clients = {f"{kind}.{call}" for kind in ("AsyncClient", "Client") for call in (
        "__init__(require)", "metadata(topics)", "delete_topics(names)", "list_groups(states)",
        "list_groups(types)", "describe_groups(group_ids)", "delete_groups(group_ids)",
        "remove_members(members)", "authorized_operations(topics)",
    )}  # fmt: skip
    owned = {f"{kind}.{call}" for kind in ("AsyncTransactions", "Transactions") for call in (
        "fence(transactional_ids)", "describe(transactional_ids)",
    )}  # fmt: skip
    kinds = ("AsyncConsumer", "Consumer", "AsyncShareConsumer", "ShareConsumer")
    consumers = {f"{kind}.subscribe(topics)" for kind in kinds}
    pipelines = {f"{kind}.{call}(flows)" for kind in ("AsyncPipeline", "Pipeline") for call in (
        "plan", "run", "verify", "test",
    )}  # fmt: skip
    others = {
        "TransactionFilter.__init__(states)",
        "Security.__init__(mechanisms)",
        "Security.__init__(hosts)",
        "record_shape(columns)",
        "SchemaOptions.__init__(value_columns)",
        "SchemaOptions.__init__(key_columns)",
    }
    assert found == clients | owned | consumers | pipelines | others


@pytest.mark.parametrize("one", ["ab", b"ab", bytearray(b"ab"), memoryview(b"ab"), ""])
@pytest.mark.parametrize(
    "call",
    [
        record_shape,
        lambda one: TransactionFilter(states=one),
        lambda one: TransactionFilter(producer_ids=one),
        lambda one: Security(protocol="SASL_PLAINTEXT", users={"a": "b"}, mechanisms=one),
        lambda one: Security(hosts=one),
        lambda one: parley.AsyncClient(require=one),
        lambda one: parley.Client(require=one),
        named_features,
        lambda one: several("names", one),
        lambda one: texts("names", one),
    ],
)
def test_one_text_is_refused_with_the_remedy(call: Callable[[Any], Any], one: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"is one (text|bytes value) where several .* are wanted: give \["
    ):
        call(one)


def test_what_several_names_may_be() -> None:
    for given in (
        ["a", "b"],
        ("a", "b"),
        {"a": 1, "b": 2},
        {"a": 1, "b": 2}.keys(),
        iter(["a", "b"]),
    ):
        assert texts("names", given) == ("a", "b")
    assert set(texts("names", {"a", "b"})) == {"a", "b"}
    for wrong in (
        ["a", 5],
        ["a", None],
        ["a", b"b"],
        ["a", ""],
        5,
        None,
        ["\ud800"],
        ["x" * 40_000],
    ):
        with pytest.raises(ConfigError):
            texts("names", wrong)
    assert FetchOptions(shape=record_shape(["key"])) != ProduceOptions()
