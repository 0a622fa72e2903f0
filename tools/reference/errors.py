"""Every class of error with its docstring, and Kafka's codes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from parley import errors
from reference.markdown import docstring, prose, signature, summary, table


def errors_page() -> str:
    """Return the page of errors: the tree, each class, and the table of Kafka's codes."""
    classes = list(error_classes())
    lines = [
        "# Errors\n",
        "All of them come from `parley.errors`. The class says whose fault it was, "
        "`retriable` whether the same call "
        "may succeed later. The text says what happened, where, and what to do.\n",
        "\n".join(
            f"{'    ' * depth}- [`{cls.__name__}`](#{cls.__name__}): {_line(cls)}"
            for depth, cls in classes
        )
        + "\n",
    ]
    for _, cls in classes:
        lines += [
            f"## `{cls.__name__}` {{#{cls.__name__}}}\n",
            _head(cls),
            docstring(inspect.getdoc(cls)),
        ]
    lines += [
        "## Kafka's error codes {#codes}\n",
        "A broker's code becomes a subclass of `BrokerError`, which is named after it.\n",
        table(("code", "class", "Kafka's name", "retriable", "refreshes metadata"), _codes()),
    ]
    return "\n".join(lines)


def error_classes(base: type | None = None, depth: int = 0) -> Iterator[tuple[int, type]]:
    """Yield the public classes of errors, each below its base, and how deep it stands."""
    public = [getattr(errors, name) for name in errors.__all__]
    own = [one for one in public if inspect.isclass(one) and issubclass(one, errors.KafkaError)]
    cls = errors.KafkaError if base is None else base
    yield depth, cls
    for one in own:
        if _parent(one, own) is cls:
            yield from error_classes(one, depth + 1)


def _parent(cls: type, own: list[type]) -> type | None:
    return next((base for base in cls.__mro__[1:] if base in own), None)


def _line(cls: type) -> str:
    return prose(summary(inspect.getdoc(cls) or ""))


def _head(cls: type) -> str:
    return signature(cls.__name__, cls) if "__init__" in vars(cls) else ""


def _codes() -> Iterator[tuple[str, ...]]:
    for code in sorted(
        code for code in range(-1, 1000) if not errors.error_name(code).startswith("UNKNOWN_CODE_")
    ):
        cls: Any = type(errors.broker_error(code))
        yes = {True: "yes", False: "–"}
        yield (
            str(code),
            f"`{cls.__name__}`",
            errors.error_name(code),
            yes[cls.retriable],
            yes[cls.refresh_metadata],
        )
