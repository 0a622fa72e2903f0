"""What all framings have in common: names of schemas, and what a message is made of.

A framing's `read` takes a message as it was fetched and says which schema it names and where its
data begins; `write` is the opposite. Reading copies nothing, allocates nothing that grows with a
number in the message, and raises FramingError and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from parley.errors import ConfigError, FramingError
from parley.types import shown

Buffer: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Iterable[tuple[str, Buffer | None]]
"""A record's headers, in order."""

UINT32 = Struct(">I")
UINT64 = Struct(">Q")
GUID_BYTES = 16
MAX_MESSAGE_INDEXES = 100
"""How deep a Protobuf message may lie within others: Protobuf's own limit of nesting."""


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A reference that is a number below LIMIT."""

    LIMIT: ClassVar[int] = 2**64
    WHAT: ClassVar[str]

    number: int

    def __post_init__(self) -> None:
        number = self.number
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < self.LIMIT:
            raise ConfigError(
                f"{shown(number)} is no id: a whole number below {self.LIMIT} is expected"
            )

    def __str__(self) -> str:
        return f"{self.WHAT} {self.number}"


@dataclass(frozen=True, slots=True)
class _Guid:
    """A reference that is 16 bytes."""

    WHAT: ClassVar[str]

    raw: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.raw, bytes) or len(self.raw) != GUID_BYTES:
            raise ConfigError(f"{shown(self.raw)} is no id: {GUID_BYTES} bytes are expected")

    def __str__(self) -> str:
        return f"{self.WHAT} {self.text}"

    @property
    def text(self) -> str:
        """The bytes as registries write them: hexadecimal digits in five groups."""
        return guid_text(self.raw)


class SchemaId(_Numbered):
    """A schema's id at a registry that speaks Confluent's protocol: 4 bytes, unsigned."""

    __slots__ = ()
    LIMIT = 2**32
    WHAT = "schema id"


class GlobalId(_Numbered):
    """A schema's global id at Apicurio: 8 bytes, unsigned."""

    __slots__ = ()
    WHAT = "global id"


class ContentId(_Numbered):
    """The id of a schema's text at Apicurio, which several artifacts may share: 8 bytes."""

    __slots__ = ()
    WHAT = "content id"


class SchemaGuid(_Guid):
    """A schema's GUID at Confluent's registry: 16 bytes that depend on the schema alone."""

    __slots__ = ()
    WHAT = "schema GUID"


class GlueVersion(_Guid):
    """The id of a schema version at AWS Glue: 16 bytes."""

    __slots__ = ()
    WHAT = "schema version"


class Fingerprint(_Numbered):
    """The 64-bit Rabin fingerprint of an Avro schema's canonical form, as a number."""

    __slots__ = ()
    WHAT = "fingerprint"

    def __str__(self) -> str:
        return f"{self.WHAT} {self.number:016x}"


SchemaRef: TypeAlias = SchemaId | SchemaGuid | GlobalId | ContentId | GlueVersion | Fingerprint
"""What a message says about its schema."""


@dataclass(frozen=True, slots=True)
class Framed:
    """A message taken apart. `payload` is a view of it, or what was decompressed.

    `schema` is None for a framing that names none. `message_indexes` is the way to the message type
    within a Protobuf schema, None for other formats.
    """

    schema: SchemaRef | None
    payload: memoryview
    message_indexes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """A message put together: its bytes, and the headers to send with it."""

    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Prefix:
    """What messages of a framing begin with: a marker, and a number of `width` bytes.

    `ref` makes a reference of the number, None of what has no number.
    """

    marker: bytes = b""
    width: int = 0
    little: bool = False
    ref: Callable[[int], SchemaRef] | None = None

    def __len__(self) -> int:
        return len(self.marker) + self.width


class Framing(Protocol):
    """How a message says which schema it was written with.

    A framing whose messages all begin alike may have a method `prefix`, too, as `Prefixed` has it.
    """

    name: ClassVar[str]

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Take a key or value apart. Raises FramingError for bytes of another kind."""
        ...

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Put a key or value together. Raises ConfigError for a schema it cannot name."""
        ...


@runtime_checkable
class Prefixed(Protocol):
    """A framing that names the schema at the beginning of a message, always or sometimes."""

    def prefix(self, names: Collection[str], *, is_key: bool = False) -> Prefix | None:
        """Return the prefix of messages whose headers have these names; None if they say more."""
        ...


class Bare:
    """No framing: the message is the data, and its schema is known otherwise."""

    name: ClassVar[str] = "none"

    def read(self, data: Buffer, headers: Headers = (), *, is_key: bool = False) -> Framed:
        """Return the whole message."""
        return Framed(None, view_of(data))

    def write(
        self,
        payload: Buffer,
        schema: SchemaRef | None = None,
        *,
        is_key: bool = False,
        message_indexes: Sequence[int] | None = None,
    ) -> Frame:
        """Return the data as it is; `schema` is not written anywhere."""
        return Frame(bytes(payload))

    def prefix(self, names: Collection[str], *, is_key: bool = False) -> Prefix | None:
        """Return a prefix of no bytes."""
        return Prefix()


def view_of(data: Buffer) -> memoryview:
    """Return a message as bytes, without a copy."""
    view = memoryview(data)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def header_of(headers: Headers, name: str) -> Buffer | None:
    """Return the value of the first header of a name that has one, None without it."""
    return next((value for key, value in headers if key == name and value is not None), None)


def number_prefix(name: str, view: memoryview, number: Struct, what: str) -> int:
    """Return the number behind a byte 0, with which a message begins. Raises FramingError for
    bytes without it.
    """
    if len(view) <= number.size:
        raise framing_error(
            name,
            f"a message of {len(view)} bytes has no {what}: a byte 0 and {number.size} bytes are "
            "expected",
            view,
        )
    if view[0] != 0:
        text = f"the message has no {what}: it begins with byte {view[0]} where 0 is expected"
        raise framing_error(name, text, view)
    found: int = number.unpack_from(view, 1)[0]
    return found


def wrong_schema(name: str, schema: SchemaRef | None, wanted: str) -> ConfigError:
    """Return the error for a schema that a framing cannot name."""
    given = "no schema" if schema is None else str(schema)
    return ConfigError(f'the framing "{name}" names a schema by {wanted}; {given} is given')


def refuse_indexes(name: str, message_indexes: Sequence[int] | None) -> None:
    """Raise ConfigError where a framing has no place for the way to a Protobuf message."""
    if message_indexes is not None:
        raise ConfigError(
            f'the framing "{name}" has no place for message_indexes; leave them out, or use '
            "Confluent's with protobuf=True"
        )


def guid_text(raw: bytes) -> str:
    """Return 16 bytes as a GUID is written.

    >>> guid_text(bytes(range(16)))
    '00010203-0405-0607-0809-0a0b0c0d0e0f'
    """
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def parse_guid(text: str) -> bytes:
    """Return the 16 bytes of a GUID. Raises ConfigError for other text."""
    try:
        raw = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        raw = b""
    if len(raw) != GUID_BYTES:
        raise ConfigError(
            f"{shown(text)} is no GUID: 32 hexadecimal digits are expected, as in "
            f"{guid_text(bytes(GUID_BYTES))}"
        )
    return raw


def framing_error(name: str, what: str, data: memoryview) -> FramingError:
    """Return the error for bytes of another kind, with what they look like."""
    return FramingError(f"{what}{_guess(name, data)}", framing=name)


def _guess(name: str, data: memoryview) -> str:
    """Return what a message looks like that is not framed as expected."""
    first = bytes(data[:2])
    looks = None
    if not first:
        return "; an empty message has no schema"
    if first == b"\xc3\x01" and len(data) >= 10:
        looks = "single-object"
    elif first in (b"\x03\x00", b"\x03\x05") and len(data) >= 18:
        looks = "glue"
    elif first[:1] == b"\x00" and len(data) >= 5 and name not in ("confluent", "confluent-prefix"):
        looks = "confluent"
    if looks is not None and looks != name:
        return f'; it looks like the framing "{looks}"'
    if first[:1] in (b"{", b"["):
        return '; it looks like JSON without a schema: use the framing "none"'
    return f"; it begins with the bytes {bytes(data[:8]).hex(' ')}"
