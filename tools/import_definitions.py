"""Write parley's notation files from the message definitions of kafka-clients jars.

    python tools/import_definitions.py kafka-clients-3.9.1.jar kafka-clients-4.3.0.jar

Give the jars (or folders they were unpacked to) from the oldest to the newest. For a new Kafka
release add its jar at the end, run this, read the diff of `src/parley/schema/apis`, and add new
API keys to `schema/apikeys.py`. The notation is described in `src/parley/schema/notation.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from definitions import FieldFacts, MessageFacts, default_of, merged

OUTPUT = Path(__file__).resolve().parent.parent / "src" / "parley" / "schema" / "apis"

# Fields whose values must not be shown by a repr: a
# fact of ours, the definitions know no such thing.
SECRETS = {
    "AlterUserScramCredentialsRequest": {"Salt", "SaltedPassword"},
    "CreateDelegationTokenResponse": {"Hmac"},
    "DescribeDelegationTokenResponse": {"Hmac"},
    "ExpireDelegationTokenRequest": {"Hmac"},
    "RenewDelegationTokenRequest": {"Hmac"},
    "SaslAuthenticateRequest": {"AuthBytes"},
    "SaslAuthenticateResponse": {"AuthBytes"},
    # A configuration's value may be a password (ssl.keystore.password, sasl.jaas.config).
    "AlterConfigsRequest": {"Value"},
    "IncrementalAlterConfigsRequest": {"Value"},
}


def snake_case(name: str) -> str:
    """Return the notation's name of a Kafka field.

    >>> [snake_case(name) for name in ("TopicId", "timeoutMs", "isKRaftController")]
    ['topic_id', 'timeout_ms', 'is_k_raft_controller']
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def camel_case(name: str) -> str:
    """Return the Kafka name that a notation name stands for, unless a
    `kafka=` option says otherwise.
    """
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def range_text(versions: set[int], end: int) -> str:
    """Return versions as the notation writes them: open-ended when they reach
    the message's last one.
    """
    low, high = min(versions), max(versions)
    if versions != set(range(low, high + 1)):
        raise ValueError(f"versions {sorted(versions)} have a hole")
    if high == end:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"


def valid_text(versions: set[int]) -> str:
    """Return a message's valid versions: they always have an end."""
    low, high = min(versions), max(versions)
    return str(low) if low == high else f"{low}-{high}"


def options_of(facts: FieldFacts, message: MessageFacts, end: int) -> Iterable[str]:
    """Yield the options of a field in the notation's order."""
    if facts.tag is not None:
        yield f"tag={facts.tag}"
    if facts.nullable == facts.versions:
        yield "null"
    elif facts.nullable:
        yield f"null={range_text(facts.nullable, end)}"
    if facts.default != default_of(facts.type, None):
        yield f"default={default_text(facts.default)}"
    if facts.map_key:
        yield "key"
    # Without a version that lacks the field there is nothing to ignore.
    if facts.ignorable and facts.versions != message.versions:
        yield "ignorable"
    if facts.never_flexible:
        yield "plain"
    if facts.kafka_name in SECRETS.get(message.name, ()):
        yield "secret"
    if camel_case(snake_case(facts.kafka_name)) != facts.kafka_name:
        yield f"kafka={facts.kafka_name}"


def default_text(value: Any) -> str:
    """Return a default as the notation writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:#x}" if value == 0x7FFFFFFF else str(value)


def rows_of(
    fields: list[FieldFacts], message: MessageFacts, depth: int
) -> Iterable[tuple[str, str, str, str]]:
    """Yield one row of columns for each field, inner fields indented below their struct."""
    end = max(message.versions)
    for facts in fields:
        name = "  " * depth + snake_case(facts.kafka_name)
        yield (
            name,
            facts.type,
            range_text(facts.versions, end),
            " ".join(options_of(facts, message, end)),
        )
        yield from rows_of(facts.fields, message, depth + 1)


def message_text(message: MessageFacts, title: str) -> str:
    """Return a message in the notation."""
    end = max(message.versions)
    head = [title, valid_text(message.versions)]
    for name in ("flexible", "deprecated", "unstable"):
        versions = getattr(message, name)
        if versions:
            head.append(f"{name}={range_text(versions, end)}")
    rows: list[tuple[str, ...]] = list(rows_of(message.fields, message, 1))
    for name, fields in message.structs.items():
        rows.append((f"  struct {name}",))
        rows.extend(rows_of(fields, message, 2))
    full = [row for row in rows if len(row) == 4]
    widths = [max((len(row[column]) for row in full), default=0) for column in range(4)]
    lines = [" ".join(head)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def files(messages: dict[str, MessageFacts]) -> dict[str, str]:
    """Return the notation files by name."""
    result = {}
    for message in messages.values():
        if message.kind == "request":
            api = message.name.removesuffix("Request")
            response = messages[f"{api}Response"]
            listeners = " ".join(message.listeners)
            result[f"{message.api_key:02d}_{snake_case(api)}.api"] = (
                f"api {message.api_key} {api}\nlisteners {listeners}\n\n"
                f"{message_text(message, 'request')}\n{message_text(response, 'response')}"
            )
        elif message.kind in ("header", "data"):
            name = f"{message.kind}_{snake_case(message.name)}.api"
            result[name] = message_text(message, f"{message.kind} {message.name}")
    return result


def main(arguments: list[str]) -> int:
    """Write the files; files of messages that no jar defines are named and left alone."""
    if not arguments:
        print(__doc__)
        return 2
    written = files(merged(Path(argument) for argument in arguments))
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        OUTPUT.joinpath(name).write_text(text, encoding="utf-8")
    print(f"{len(written)} files in {OUTPUT}")
    for stray in sorted({path.name for path in OUTPUT.glob("*.api")} - set(written)):
        print(f"not defined by the given jars: {stray}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
