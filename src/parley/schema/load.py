"""Cached access to the definitions that come with parley.

A clone has a notation file for each. A wheel has one file with all of them, which takes a third of
the room (setup.py). In both a definition begins with a line that names it, so nothing here knows of
the names of files.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from parley.schema.apikeys import ApiKey
from parley.schema.model import ApiSchema, MessageSchema
from parley.schema.notation import Parser

_FOLDER = Path(__file__).parent / "apis"
_START = re.compile(r"^(?=(?:api|data|header|record) )", re.MULTILINE)


@cache
def load(key: ApiKey) -> ApiSchema:
    """Return the definition of an API in all its versions; the first call for a key parses it."""
    return _parser("api", str(key.value)).api()


@cache
def load_header(name: str) -> MessageSchema:
    """Return the definition of `RequestHeader` or `ResponseHeader`; KeyError for others."""
    return _parser("header", name).message()


@cache
def load_data(name: str) -> MessageSchema:
    """Return the definition of a message that travels in others: `ConsumerProtocolAssignment`.

    Raises KeyError when there is none of that name.
    """
    return _parser("data", name).message()


@cache
def load_record(name: str) -> MessageSchema:
    """Return the definition of the key or value of a record in one of the brokers' own topics.

    Raises KeyError when there is none of that name: `OffsetCommitValue`.
    """
    return _parser("record", name).message()


@cache
def record_names() -> dict[str, None]:
    """Return the names of all keys and values of records, in order."""
    return {name: None for kind, name in _texts() if kind == "record"}


@cache
def data_names() -> dict[str, None]:
    """Return the names of all data messages, in order."""
    return {name: None for kind, name in _texts() if kind == "data"}


def _parser(kind: str, name: str) -> Parser:
    return Parser(f"{kind} {name}", _texts()[kind, name])


@cache
def _texts() -> dict[tuple[str, str], str]:
    """Return all definitions by the first two words of each: `api 1`, `header
    RequestHeader`, `data EndTxnMarker`.
    """
    found = {}
    for path in sorted(_FOLDER.iterdir()):
        for text in _START.split(path.read_text(encoding="utf-8")):
            if text:
                kind, name = text.split(maxsplit=2)[:2]
                found[kind, name] = text
    return found
