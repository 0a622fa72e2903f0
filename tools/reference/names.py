"""The public names of parley's packages: classes with their methods, functions and constants."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from reference.markdown import (
    attribute_docs,
    constant_docs,
    docstring,
    owned_parts,
    prose,
    signature,
    summary,
    table,
)

CLIENT_PAGES = {
    "client.md": ("Client", ["Client", "AsyncClient"]),
    "consumer.md": ("Consumer", ["Consumer", "AsyncConsumer", "ConsumerRecord"]),
    "transactions.md": (
        "Transactions",
        [
            "Transactions", "AsyncTransactions", "TransactionProducer", "AsyncTransactionProducer",
            "PreparedTransaction", "FencedProducer", "GroupMember", "TransactionListing",
            "TransactionDescription", "TransactionFilter",
        ],
    ),
    "groups.md": ("Consumer groups",
                  ["GroupDescription", "MemberDescription", "GroupListing", "PartitionLag"]),
}  # fmt: skip
"""Page → its title and names. What stands on none of them comes on `values.md`."""
SCHEMA_MODULES = ("parley.registry", "parley.serdes")
"""What `schemas.md` has the names of."""
JOBS = {
    "replicate.md": ("Replication", "parley.pipelines.replication"),
    "replay.md": ("Replay", "parley.pipelines.replay"),
    "verify.md": ("Comparison of topics", "parley.pipelines.verify"),
    "pipelines.md": ("Declared pipelines", "parley.pipelines.declared"),
}
"""Page, also that of how it is used → its title, and the module that it has the names of."""
_WITHOUT_DOCSTRING = {"__version__": "The version of parley that is installed."}
_OPTION_GROUPS = (
    "ClientOptions",
    "FetchOptions",
    "SchemaOptions",
    "ProduceOptions",
    "ConsumerOptions",
    "ShareConsumerOptions",
)


def module_pages() -> dict[str, str]:
    """Return the pages of `parley` and `parley.client`, of the embedded cluster,
    and the list of all names.
    """
    client = {**_public("parley.client"), **_public("parley")}
    placed = {name for _, names in CLIENT_PAGES.values() for name in names}
    homes = {name: page for page, (_, names) in CLIENT_PAGES.items() for name in names}
    homes |= {name: "values.md" for name in client if name not in placed}
    homes["KafkaError"] = "errors.md"
    pages = {
        page: f"# {title}\n\n"
        + "".join(_entry(name, client[name], client) for name in names if name in client)
        for page, (title, names) in CLIENT_PAGES.items()
    }
    values = [name for name in sorted(client, key=str.lower) if homes[name] == "values.md"]
    head = (
        "# Values, options and functions\n\nWhat goes into the calls of a client, and what comes "
        "out of them.\n\n"
    )
    pages["values.md"] = head + "".join(_entry(name, client[name], client) for name in values)
    cluster = _public("parley.devcluster")
    pages["devcluster.md"] = _cluster_page(cluster)
    schemas = {name: one for module in SCHEMA_MODULES for name, one in _public(module).items()}
    pages["schemas.md"] = _page("Schemas", "schemas.md", schemas)
    index = _index(client, homes, cluster) + _schemas_index(schemas)
    for page, (title, module) in JOBS.items():
        pages[page] = _page(title, page, _public(module))
        index += _job_index(page)
    pages["index.md"] = index
    return pages


def _public(module: str) -> dict[str, Any]:
    imported = importlib.import_module(module)
    return {name: getattr(imported, name) for name in imported.__all__}


def _index(client: dict[str, Any], homes: dict[str, str], cluster: dict[str, Any]) -> str:
    """Return the page with every name and its first line."""
    top = set(importlib.import_module("parley").__all__)
    lines = [
        "# Reference\n",
        "These pages are made from the code. The names of `parley` and `parley.client` are "
        "one set: `parley` has "
        "those that most programs need, `parley.client` has all of them but `KafkaError`. "
        "Names that are not here "
        "are parley's own and may change.\n",
    ]
    rows = [
        (
            f"[`{name}`]({homes[name]}#{anchor(name)})",
            "`parley`" if name in top else "`parley.client`",
            _first(name, client[name]),
        )
        for name in sorted(client, key=str.lower)
    ]
    lines += ["## Client\n", table(("name", "import from", "what it is"), rows)]
    rows = [
        (
            f"[`{name}`](devcluster.md#{anchor(name)})",
            "`parley.devcluster`",
            _first(name, cluster[name]),
        )
        for name in sorted(cluster, key=str.lower)
    ]
    lines += ["## Embedded cluster\n", table(("name", "import from", "what it is"), rows)]
    return "\n".join(lines)


def _cluster_page(names: dict[str, Any]) -> str:
    order = ["LocalCluster", "AsyncLocalCluster"]
    order += sorted((name for name in names if name not in order), key=str.lower)
    head = (
        "# Embedded cluster\n\nThe names of `parley.devcluster`. [How it "
        "behaves](../guide/cluster.md).\n\n"
    )
    return head + "".join(_entry(name, names[name], names) for name in order)


def _page(title: str, how_to: str, names: dict[str, Any]) -> str:
    head = f"# {title}\n\n[How they are used](../how-to/{how_to}).\n\n"
    return head + "".join(_entry(name, names[name], names) for name in sorted(names, key=str.lower))


def _schemas_index(names: dict[str, Any]) -> str:
    homes = {name: module for module in SCHEMA_MODULES for name in _public(module)}
    rows = [
        (f"[`{name}`](schemas.md#{anchor(name)})", f"`{homes[name]}`", _first(name, names[name]))
        for name in sorted(names, key=str.lower)
    ]
    return "\n## Schemas\n\n" + table(("name", "import from", "what it is"), rows)


def _job_index(page: str) -> str:
    title, module = JOBS[page]
    names = _public(module)
    rows = [
        (f"[`{name}`]({page}#{anchor(name)})", f"`{module}`", _first(name, names[name]))
        for name in sorted(names, key=str.lower)
    ]
    return f"\n## {title}\n\n" + table(("name", "import from", "what it is"), rows)


def _first(name: str, thing: Any) -> str:
    return prose(summary(describe(name, thing)))


def anchor(name: str) -> str:
    """Return the place of a name on its page. Underscores at its ends would be markup."""
    return name.strip("_")


def describe(name: str, thing: Any) -> str:
    """Return the docstring of a name: its own, or the one below a constant."""
    if name in _WITHOUT_DOCSTRING:
        return _WITHOUT_DOCSTRING[name]
    if inspect.isclass(thing) or inspect.isroutine(thing):
        return inspect.getdoc(thing) or ""
    homes = [
        one
        for key, one in sys.modules.items()
        if key.startswith("parley.") and vars(one).get(name) is thing
    ]
    return next((docs[name] for docs in map(constant_docs, homes) if name in docs), "")


def _entry(name: str, thing: Any, others: dict[str, Any]) -> str:
    """Return the section of a name."""
    lines = [f"## `{name}` {{#{anchor(name)}}}\n"]
    if inspect.isclass(thing):
        lines += _class(name, thing, others)
    elif inspect.isroutine(thing):
        lines += [signature(name, thing), docstring(describe(name, thing))]
    else:
        lines += [f"```python\n{name} = {thing!r}\n```\n", docstring(describe(name, thing))]
    return "\n".join(line for line in lines if line) + "\n"


def _class(name: str, cls: type, others: dict[str, Any]) -> Iterator[str]:
    group = name in _OPTION_GROUPS
    if not group:
        yield signature(name, cls)
    yield docstring(inspect.getdoc(cls))
    if group:
        yield f"Its options: [{name}](options.md#{name}).\n"
    elif "OptionValues" in str(getattr(cls.__init__, "__annotations__", "")):
        yield "Options are given by name: [all of them](options.md).\n"
    if not group:
        yield _fields(cls)
    for method, defined in _methods(cls):
        yield _method(name, method, defined, others)


def _fields(cls: type) -> str:
    """Return the table of a class's fields and properties."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        docs |= attribute_docs(base) if base.__module__.startswith("parley") else {}
    if dataclasses.is_dataclass(cls):
        types = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    else:
        types = {name: str(cls.__annotations__[name]) for name in getattr(cls, "_fields", ())}
    rows = [
        (f"`{name}`", f"`{types[name]}`", prose(docs.get(name, "")).replace("\n", " "))
        for name in types
        if not name.startswith("_")
    ]
    rows += [
        (f"`{name}`", f"`{kind}`", prose(text)) for name, (kind, text) in owned_parts(cls).items()
    ]
    rows += [
        (f"`{name}`", f"`{_returned(one)}`", prose(" ".join((inspect.getdoc(one) or "").split())))
        for name, one in _properties(cls)
    ]
    return table(("field", "type", "meaning"), rows) if rows else ""


def _returned(one: property) -> str:
    return str(getattr(one.fget, "__annotations__", {}).get("return", ""))


def _own_attributes(cls: type) -> dict[str, Any]:
    """Return the public attributes of a class, then those of its bases in parley,
    in the order of the code.
    """
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("parley"):
            for name, one in vars(base).items():
                if not name.startswith("_"):
                    found.setdefault(name, one)
    return found


def _properties(cls: type) -> list[tuple[str, property]]:
    return [(name, one) for name, one in _own_attributes(cls).items() if isinstance(one, property)]


def _methods(cls: type) -> list[tuple[str, Any]]:
    kinds = (FunctionType, classmethod, staticmethod)
    return [(name, one) for name, one in _own_attributes(cls).items() if isinstance(one, kinds)]


def _method(owner: str, name: str, defined: Any, others: dict[str, Any]) -> str:
    """Return the section of a method. A blocking one without a text of its own has
    that of its twin in asyncio.
    """
    function = defined.__func__ if isinstance(defined, classmethod | staticmethod) else defined
    text = inspect.getdoc(function)
    if not text:
        twin = others.get(f"Async{owner}")
        text = inspect.getdoc(getattr(twin, name, None)) if twin is not None else ""
    shown = signature(name, function, awaited=inspect.iscoroutinefunction(function))
    return f"### `{name}` {{#{owner}.{name}}}\n\n{shown}\n{docstring(text)}"
