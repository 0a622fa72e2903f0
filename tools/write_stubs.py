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
from parley.schema import (
    ApiKey,
    Field,
    MessageSchema,
    Struct,
    data_names,
    load,
    load_data,
    load_record,
    record_names,
)

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
    classes += [_message(load_record(name), "Message") for name in record_names()]
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


LINE_LENGTH = 100  # of ruff
IMPORTS_HEAD = (
    "    # Written by tools/write_stubs.py, not by hand: the names above, imported when used."
)


def names(package: str) -> str:
    """Return the text of the `__init__.py` of a package that imports its names when they are first
    used: what type checkers read stands below `if TYPE_CHECKING`.
    """
    made = importlib.import_module(package)
    others = (getattr(made, name, {}) for name in ("_OWN_NAMES", "_NAMES_OF_EXTRAS"))
    tables = [made._NAMES, *others]
    path = PARLEY.parent.joinpath(*package.split("."), "__init__.py")
    text, _, _ = path.read_text(encoding="utf-8").partition("\nif TYPE_CHECKING:\n")
    lines = [text, "if TYPE_CHECKING:", IMPORTS_HEAD]
    for module in sorted({module for table in tables for module in table}):
        found = [name for table in tables for name in table.get(module, ())]
        lines.append(_import(module, found))
    return "\n".join(lines) + "\n"


def _import(module: str, found: list[str]) -> str:
    """Return an import that exports names, in the order of isort: constants, classes, functions."""
    ordered = sorted(
        found, key=lambda name: (name.upper() != name, not name[0].isupper(), name.lower())
    )
    exported = [f"{name} as {name}" for name in ordered]
    line = f"    from {module} import {exported[0]}"
    if len(exported) == 1 and len(line) <= LINE_LENGTH:
        return line
    inside = "\n".join(f"        {name}," for name in exported)
    return f"    from {module} import (\n{inside}\n    )"


STUBS = {
    PARLEY / "messages" / "types.pyi": messages,
    PARLEY / "errors" / "codes.pyi": codes,
    PARLEY / "__init__.py": partial(names, "parley"),
    PARLEY / "client" / "__init__.py": partial(names, "parley.client"),
}
"""Each file, and what makes its text."""

if __name__ == "__main__":
    for path, text in STUBS.items():
        path.write_text(text(), encoding="utf-8")
