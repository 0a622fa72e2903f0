"""A response made from its request: each thing asked for comes back with the code that it is given.

Rules of this file:
1. It knows no API: request and response are matched by their definitions, so that it serves every
   API in every version, also those that come later.
2. `top` puts one code at the head of the response where the version has a place for it, else at
   each entry; `each` always goes to the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from parley.messages import Message, MessageStruct, Request, response_class
from parley.schema import Field, Struct

R = TypeVar("R", bound=Message)
Part = MessageStruct | str | int
Chain = tuple[Any, ...]
"""A request and the parts of it that lead to one entry of the response, outermost first."""
CodeOf = Callable[[Chain], int]

CODES = ("error_code", "partition_error_code")
TEXT = "error_message"
ALIASES = {
    "topic_name": ("name",),
    "user": ("name",),
    "partition_id": ("partition_index", "partition"),
    "partition_index": ("partition",),
}
"""What requests call a field of a response that has another name there."""
ENCLOSING = ("dirs",)
"""Arrays of requests whose elements the response does not show, only what lies in them."""


def top(request: Request[R], version: int, code: int, text: str | None = None) -> R:
    """Return a response that says `code` at its head, or at each entry
    when it has no such place.
    """
    response = _response_to(request)
    if not _set_error(response, response.SCHEMA.root, version, code, text):
        return each(request, version, lambda chain: code, text)
    return response


def each(request: Request[R], version: int, code_of: CodeOf, text: str | None = None) -> R:
    """Return a response with an entry for each thing asked for, its code from `code_of(chain)`."""
    response = _response_to(request)
    _Mirror(response.STRUCTS, version, code_of, text).fill(
        response, response.SCHEMA.root, (request,)
    )
    return response


def _response_to(request: Request[R]) -> R:
    return cast("type[R]", response_class(request.API_KEY))()


class _Mirror:
    def __init__(
        self,
        structs: dict[str, type[MessageStruct]],
        version: int,
        code_of: CodeOf,
        text: str | None,
    ) -> None:
        self._structs = structs
        self._version = version
        self._code_of = code_of
        self._text = text

    def fill(self, target: MessageStruct, struct: Struct, chain: Chain) -> None:
        """Fill the first array of `target` whose entries have codes: one for
        each part of the request.
        """
        for field in _struct_arrays(struct, self._version):
            if _holds_code(field.struct, self._version):
                parts = _parts(chain[-1], self._version)
                setattr(
                    target,
                    field.name,
                    [self._entry(field.struct, (*chain, part)) for part in parts],
                )
                return

    def _entry(self, struct: Struct | None, chain: Chain) -> MessageStruct:
        assert struct is not None
        entry = self._copied(struct, chain[-1])
        if _code_field(struct, self._version) is None:
            self.fill(entry, struct, chain)
            return entry
        code = self._code_of(chain)
        _set_error(entry, struct, self._version, code, self._text if code else None)
        for field in _struct_arrays(struct, self._version):
            if not _holds_code(field.struct, self._version):  # a quota's entity, which names it
                found = getattr(chain[-1], field.name, None) or ()
                setattr(entry, field.name, [self._copied(field.struct, part) for part in found])
        return entry

    def _copied(self, struct: Struct | None, part: Part) -> MessageStruct:
        """Return an entry with the scalars that it shares with a part of the request."""
        assert struct is not None
        entry = self._structs[struct.name]()
        for field in struct.fields:
            if field.is_array or field.struct is not None or not _present(field, self._version):
                continue
            if isinstance(part, str | int):
                if isinstance(part, str) == (field.type == "string") and field.name not in (
                    *CODES,
                    TEXT,
                ):
                    setattr(entry, field.name, part)
                    break
                continue
            for name in (field.name, *ALIASES.get(field.name, ())):
                if any(own.name == name and own.type == field.type for own in part.FIELDS):
                    setattr(entry, field.name, getattr(part, name))
                    break
        return entry


def _set_error(
    target: MessageStruct, struct: Struct, version: int, code: int, text: str | None
) -> bool:
    """Set the code, and the text beside it; return False when the struct
    has no place for a code.
    """
    place = _code_field(struct, version)
    if place is None:
        return False
    setattr(target, place.name, code)
    for field in struct.fields:
        if field.name == TEXT and text is not None and _present(field, version):
            setattr(target, TEXT, text)
    return True


def _parts(source: Part, version: int) -> Iterator[Part]:
    """Yield what a part of a request asks for: the elements of its arrays of structs,
    else of its other arrays.
    """
    if isinstance(source, str | int):
        return
    arrays = [field for field in source.FIELDS if field.is_array and _present(field, version)]
    for field in [field for field in arrays if field.struct is not None] or arrays:
        for part in getattr(source, field.name) or ():
            if field.name in ENCLOSING:
                yield from _parts(part, version)
            else:
                yield part


def _present(field: Field, version: int) -> bool:
    return version in field.versions


def _struct_arrays(struct: Struct, version: int) -> Iterator[Field]:
    for field in struct.fields:
        if field.struct is not None and field.is_array and _present(field, version):
            yield field


def _code_field(struct: Struct, version: int) -> Field | None:
    return next(
        (field for field in struct.fields if field.name in CODES and _present(field, version)), None
    )


def _holds_code(struct: Struct | None, version: int) -> bool:
    """Return whether entries of this kind have a place for a code, however deep."""
    if struct is None:
        return False
    if _code_field(struct, version) is not None:
        return True
    return any(_holds_code(field.struct, version) for field in _struct_arrays(struct, version))
