"""Write what type checkers cannot find out: the fields of messages, the errors of brokers, names
imported when used.

    python tools/write_stubs.py

At run time all are made from schema/apis and errors/codes.txt, or imported, when first named;
nothing imports these files. A test fails while one is not what the definitions say.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from parley.errors.broker import error_codes, error_names
from parley.schema import ApiKey, Field, MessageSchema, Struct, data_names, load, load_data

PARLEY = Path(__file__).resolve().parents[1] / "src" / "parley"
NUMBERS = ("int8", "int16", "uint16", "int32", "uint32", "int64")
TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
    **dict.fromkeys(NUMBERS, "int"),
}

HEAD = """\
# Written by tools/write_stubs.py, not by hand. \
Fields of all versions; None where some version has null.
from collections.abc import Sequence

from parley.messages.classes import Message, MessageStruct, Request, Response

class Records:
    # Decoded it is a view of the frame; what is to be sent may lie in pieces.
    def __get__(self, instance: object, owner: type[MessageStruct]) -> memoryview | None: ...
    def __set__(
        self,
        instance: object,
        value: bytes | bytearray | memoryview | Sequence[bytes | bytearray | memoryview] | None,
    ) -> None: ...
"""


def messages() -> str:
    """Return the text of `messages/types.pyi`."""
    classes = [HEAD]
    for key in ApiKey:
        api = load(key)
        classes.append(_message(api.request, f"Request[{api.response.name}]"))
        classes.append(_message(api.response, "Response"))
    classes += [_message(load_data(name), "Message") for name in data_names()]
    return "\n".join(classes)


def _message(schema: MessageSchema, base: str) -> str:
    inner: dict[str, Struct] = {}
    _collect(schema.root, inner)
    lines = [f"class {schema.name}({base}):"]
    for struct in inner.values():
        lines.append(f"    class {struct.name}(MessageStruct):")
        lines += [f"        {line}" for line in _fields(struct, schema.name)]
        lines.append("")
    lines += [f"    {line}" for line in _fields(schema.root, schema.name)]
    return "\n".join(lines) + "\n"


def _collect(struct: Struct, found: dict[str, Struct]) -> None:
    """Add the structs inside, inner ones first. As at run time, the first
    one of a name is the one.
    """
    for field in struct.fields:
        if field.struct is not None and field.struct.name not in found:
            _collect(field.struct, found)
            found[field.struct.name] = field.struct


def _fields(struct: Struct, owner: str) -> Iterator[str]:
    if not struct.fields:
        yield "pass"
    for field in struct.fields:
        yield f"{field.name}: {_type(field, owner)} = ..."


def _type(field: Field, owner: str) -> str:
    name = TYPES[field.type] if field.struct is None else f"{owner}.{field.struct.name}"
    if field.type == "records":
        return name
    found = f"list[{name}]" if field.is_array else name
    return f"{found} | None" if field.nullable is not None or field.default is None else found


WRITTEN = "# Written by tools/write_stubs.py, not by hand."

CODES_HEAD = """\
# Written by tools/write_stubs.py, not by hand.
from typing import Final

from parley.errors.broker import BrokerError
"""


def codes() -> str:
    """Return the text of `errors/codes.pyi`."""
    numbers = [f"{entry.name}: Final = {entry.code}" for entry in error_codes().values()]
    errors = [f"class {name}(BrokerError): ..." for name in error_names()]
    return "\n".join([CODES_HEAD, *numbers, "", *errors]) + "\n"


def names(package: str) -> str:
    """Return the text of the `__init__.pyi` of a package that imports its names
    when they are first used.
    """
    made = importlib.import_module(package)
    tables = [made._NAMES, getattr(made, "_OWN_NAMES", {})]
    lines = [WRITTEN]
    for module in sorted({module for table in tables for module in table}):
        for table, form in zip(tables, ("{0}", "{0} as {0}"), strict=True):
            if module in table:
                lines.append(
                    f"from {module} import "
                    f"{_listed([form.format(name) for name in table[module]], '()')}"
                )
    lines += ["", "__version__: str"] if hasattr(made, "__version__") else []
    public = [f'"{name}"' for name in made.__all__]
    return "\n".join([*lines, "", f"__all__ = {_listed(public, '[]')}"]) + "\n"


def _listed(found: list[str], brackets: str) -> str:
    """Return names one on a line, in the order of isort: constants, classes, functions."""
    if len(found) == 1:
        return found[0]
    ordered = sorted(
        found,
        key=lambda name: (
            name.split(" ")[0].upper() != name.split(" ")[0],
            not name.strip('"')[0].isupper(),
            name,
        ),
    )
    return "\n".join([brackets[0], *(f"    {name}," for name in ordered), brackets[1]])


STUBS = {
    PARLEY / "messages" / "types.pyi": messages,
    PARLEY / "errors" / "codes.pyi": codes,
    PARLEY / "__init__.pyi": partial(names, "parley"),
    PARLEY / "client" / "__init__.pyi": partial(names, "parley.client"),
}
"""Each file, and what makes its text."""

if __name__ == "__main__":
    for path, text in STUBS.items():
        path.write_text(text(), encoding="utf-8")
