"""Every option of the client, the consumer and the Spark source: type, default and meaning."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import parley
import parley.client
from reference.markdown import attribute_docs, docstring, prose, table

GROUPS = (
    (
        "ClientOptions",
        "Client",
        "Given to `Client` and `AsyncClient`, and to a consumer that makes its own client.",
    ),
    (
        "FetchOptions",
        "Reading",
        "Given to `fetch` and `fetch_many` as `options=FetchOptions(...)`.",
    ),
    (
        "SchemaOptions",
        "Schemas",
        'Given to `fetch` and `fetch_many` by name: `value_format="avro"`.',
    ),
    ("ProduceOptions", "Writing", "Given to `produce` and `transaction_producer`."),
    (
        "ConsumerOptions",
        "Consumer",
        "Given to `Consumer` and `AsyncConsumer`, beside those of reading and of the client.",
    ),
    (
        "ShareConsumerOptions",
        "Share consumer",
        "Given to `ShareConsumer` and `AsyncShareConsumer`, beside those of the client.",
    ),
)
_SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_TIMES = ((3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def options_page() -> str:
    """Return the page of the client's options, by group."""
    lines = [
        "# Options\n",
        "Names and meanings are those of Kafka's Java clients. In Python an option is a "
        "keyword, in a properties file "
        "and in Spark it has dots: `fetch_min_bytes` and `fetch.min.bytes` are one option. "
        "An option that does not "
        "exist is an error that names the nearest one. A time in milliseconds may be a "
        "`datetime.timedelta`.\n",
    ]
    inherited: set[str] = set()
    for name, title, use in GROUPS:
        group = getattr(parley.client, name)
        fields = [
            field
            for field in dataclasses.fields(group)
            if name != "ConsumerOptions" or field.name not in inherited
        ]
        lines += [f"## {title} {{#{name}}}\n", use + "\n", _table(group, fields)]
        inherited |= {field.name for field in fields} if name == "FetchOptions" else set()
    return "\n".join(lines)


def _table(group: Any, fields: list[Any]) -> str:
    described = {row.name: row for row in group.table()}
    below: dict[str, str] = {}
    for base in group.__mro__:
        below = {**attribute_docs(base), **below}
    rows = []
    for field in fields:
        row = described.get(field.name)
        meaning = row.doc if row is not None else " ".join(below.get(field.name, "").split())
        limits = (
            "" if row is None or row.allowed.startswith(("a ", "true")) else f" ({row.allowed})"
        )
        # What is no text, such as a function or an SSL context, has no name in properties files.
        dotted = (
            ""
            if row is None or (row.allowed == "a value" and field.type != "Secret | None")
            else f"<br>`{row.dotted}`"
        )
        names = f"`{field.name}`{dotted}"
        shown = _default(field.name, field.default)
        rows.append((names, f"`{field.type}`", shown, prose(meaning + limits)))
    return table(("option", "type", "default", "meaning"), rows)


def _default(name: str, value: Any) -> str:
    """Return a default, with its size or time in words where the number says little."""
    if value is None or value == "":
        return "–"
    shown = (
        {True: "`True`", False: "`False`"}.get(value) if isinstance(value, bool) else f"`{value}`"
    )
    if isinstance(value, int) and not isinstance(value, bool):
        units = (
            _TIMES
            if name.endswith("_ms")
            else _SIZES
            if value >= 1024 and value % 1024 == 0
            else ()
        )
        for size, unit in units:
            if value >= size and value % size == 0:
                return f"{shown} ({value // size} {unit})"
    return str(shown)


def spark_page() -> str:
    """Return the page of the data source: its functions, its options, and the
    client's options that it takes.
    """
    spark: Any = importlib.import_module("parley.spark")
    options: Any = importlib.import_module("parley.spark.options.texts")
    lakes: Any = importlib.import_module("parley.spark.lakes.options")
    iceberg: Any = importlib.import_module("parley.spark.lakes.iceberg_options")
    return "\n".join(
        [
            "# Spark\n",
            "[How the source and the sink behave](../guide/spark.md).\n",
            "## `parley.spark.register` {#register}\n",
            "```{.python .signature}\nregister(spark: SparkSession) -> None\n```\n",
            docstring(spark.register.__doc__),
            "## Options {#options}\n",
            "Names do not depend on case. The last column says how Spark's own `kafka` "
            "source has the option.\n",
            options.markdown_table() + "\n",
            "## Options of `parley-delta` {#delta}\n",
            "[How a Delta table is written](../how-to/delta.md). The last column says how Delta's "
            "own sink has the option.\n",
            lakes.markdown_table() + "\n",
            "## Options of `parley-iceberg` {#iceberg}\n",
            "[How an Iceberg table is written](../how-to/iceberg.md). The last column says how "
            "Iceberg's own sink has the option.\n",
            iceberg.markdown_table() + "\n",
            "## Options of the client {#kafka}\n",
            "`kafka.` in front of an option's name with dots: `kafka.fetch.min.bytes`. "
            "[All of them](options.md) but `sasl_oauth_token_provider` and `ssl_context`, "
            "which are no texts.\n",
            _kafka_defaults(),
        ]
    )


def _kafka_defaults() -> str:
    """Return the table of the client's options whose default is another one in Spark."""
    kafka: Any = importlib.import_module("parley.spark.options.kafka")
    groups = (
        (parley.FetchOptions, kafka.FETCH_DEFAULTS),
        (parley.ProduceOptions, kafka.PRODUCE_DEFAULTS),
    )
    rows = []
    for group, changed in groups:
        usual = {field.name: field.default for field in dataclasses.fields(group)}
        dotted = {row.name: row.dotted for row in group.table()}
        for name, value in changed.items():
            if value != usual[name]:
                rows.append(
                    (f"`kafka.{dotted[name]}`", _default(name, value), _default(name, usual[name]))
                )
    return "Some defaults are others in Spark:\n\n" + table(
        ("option", "default in Spark", "elsewhere"), rows
    )
