"""Messages of any version from one call: fields that the version lacks are left out."""

from __future__ import annotations

from typing import Any

from parley.messages import Message, MessageStruct


def fitting(made: type[Message] | type[MessageStruct], version: int, /, **fields: Any) -> Any:
    """Return a message or a part of one with those of the fields that `version` has."""
    known = {field.name: field.versions for field in made.FIELDS}
    return made(**{name: value for name, value in fields.items() if version in known[name]})
