"""What a user's options say about schemas, as the client's own options have it.

What is checked is checked there; errors name options as a user of the data source spells them.
Without a format nothing of it is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING

from parley.errors import ConfigError
from parley.spark.options.schema_table import (
    COLUMN_ROWS,
    DEAD_LETTER,
    DEAD_LETTER_LIMIT,
    DEAD_LETTER_TOPIC,
    ENVELOPE,
    FLAT,
    NULL,
    ON_SCHEMA_ERROR,
    PART_ROWS,
    REGISTRY_ROWS,
    SCHEMA_REGISTRY_URL,
    SCHEMA_ROWS,
)
from parley.spark.options.subscription import Subscription
from parley.spark.options.texts import GivenOptions

if TYPE_CHECKING:
    from parley.client import ChosenSchema, RegistryOptions, SchemaOptions


@dataclass(frozen=True, slots=True)
class TypedOptions:
    """How keys and values become typed columns, as the user gave it.

    `topic` is the only one that is read (None for several), whose subjects are the default ones.
    With `is_flat` the fields of values are columns; `flat_columns` are all that a reader yields.
    """

    schemas: SchemaOptions
    topic: str | None
    on_error: str
    dead_letter_topic: str | None = None
    dead_letter_limit: int = 0
    is_flat: bool = False
    flat_columns: tuple[str, ...] = ()

    def with_columns(self, part: str, names: Iterable[str]) -> TypedOptions:
        """Return the options with the fields of keys or values to decode."""
        return replace(self, schemas=self.schemas.replace(**{f"{part}_columns": tuple(names)}))

    def is_pinned(self, part: str) -> bool:
        """Return whether the user said which schema it is, and not the latest of a subject."""
        chosen = str(getattr(self.schemas, f"{part}_schema"))
        return chosen != "latest" and not (
            chosen.startswith("subject:") and chosen.endswith(":latest")
        )

    def with_schemas(self, readers: Mapping[str, ChosenSchema]) -> SchemaOptions:
        """Return the client's options with the readers' schemas themselves."""
        found = {f"{part}_schema": chosen.schema for part, chosen in readers.items()}
        return self.schemas.replace(**found)


def read_typed_options(given: GivenOptions, subscription: Subscription) -> TypedOptions | None:
    """Return how a read of these topics decodes; None for bytes.

    Raises ConfigError for what no registry need be asked about.
    """
    schemas = read_schema_options(given)
    on_error, topic = given[ON_SCHEMA_ERROR], given[DEAD_LETTER_TOPIC]
    if (on_error == DEAD_LETTER) != (topic is not None):
        missing = "deadLetterTopic" if topic is None else "onSchemaError=dead-letter"
        there = "onSchemaError=dead-letter" if topic is None else "deadLetterTopic"
        raise ConfigError(f"{there} is given, and {missing} is not: give both or neither")
    if schemas is None:
        return None
    # each dead letter would be read as a record that cannot be decoded, and so on without end
    if topic is not None and subscription.matches(topic, is_internal=False):
        raise ConfigError(
            f'deadLetterTopic="{topic}" is read by this query itself ({subscription}): dead '
            "letters need a topic of their own"
            + (
                f", or a pattern that leaves it out: (?!{re.escape(topic)}$)..."
                if subscription.pattern is not None
                else ""
            )
        )
    topics = subscription.wanted_topics()
    is_flat = given[ENVELOPE] == FLAT
    if is_flat and schemas.value_format is None:
        raise ConfigError("envelope=flat needs valueFormat: bytes have no fields")
    return TypedOptions(
        schemas,
        topics[0] if topics is not None and len(topics) == 1 else None,
        on_error,
        topic,
        given[DEAD_LETTER_LIMIT],
        is_flat,
    )


def read_schema_options(given: GivenOptions) -> SchemaOptions | None:
    """Return the client's options; None where no option is about schemas.

    Raises ConfigError as `SchemaOptions` and `RegistryOptions` do, in the user's words.
    """
    named = {row.name for row in SCHEMA_ROWS} & given.own.given.keys()
    if not named:
        return None
    from parley.client import SchemaOptions

    rows = {**PART_ROWS, **COLUMN_ROWS}
    values: dict[str, object] = {name: value for name, row in rows.items() if (value := given[row])}
    if given[ON_SCHEMA_ERROR] in (NULL, DEAD_LETTER):
        values["on_schema_error"] = NULL
    try:
        registry = read_registry_options(given)
        if registry is not None:
            values["schema_registry"] = registry
        return SchemaOptions.of(values)
    except ConfigError as error:
        raise ConfigError(in_users_words(str(error))) from None


def read_registry_options(given: GivenOptions) -> RegistryOptions | None:
    """Return where the schema registry is; None without one. Raises ConfigError as it does."""
    found: dict[str, object] = {
        name: given[row] for name, row in REGISTRY_ROWS.items() if row.name in given.own.given
    }
    url = given[SCHEMA_REGISTRY_URL]
    if url is None:
        if found:
            raise ConfigError(
                f"{REGISTRY_ROWS[next(iter(found))].name} is given, and schemaRegistryUrl is "
                "missing: where is the registry?"
            )
        return None
    from parley.client import RegistryOptions

    try:
        return RegistryOptions(url=url.reveal(), **found)  # type: ignore[arg-type]  # it checks each
    except ConfigError as error:
        raise ConfigError(in_users_words(str(error))) from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@cache
def _spellings() -> dict[str, str]:
    from parley.client import RegistryOptions, SchemaOptions

    return {one.name: _camel(one.name) for one in fields(SchemaOptions)} | {
        one.name: _camel(f"schema_registry_{one.name}") for one in fields(RegistryOptions)
    }


@cache
def _names() -> re.Pattern[str]:
    return re.compile(r"(?<![\w.:/])(?:" + "|".join(_spellings()) + r")(?![\w.:/])")


def in_users_words(text: str) -> str:
    """Return a text about the client's options with the spellings of the data source.

    >>> in_users_words("basic_auth_user_info is not of the form user:password")
    'schemaRegistryBasicAuthUserInfo is not of the form user:password'
    """
    return _names().sub(lambda found: _spellings()[found[0]], text)
