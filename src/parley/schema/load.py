"""Cached access to the notation files that come with parley."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from parley.schema.apikeys import ApiKey
from parley.schema.model import ApiSchema, MessageSchema
from parley.schema.notation import Parser

_FOLDER = Path(__file__).parent / "apis"


@cache
def load(key: ApiKey) -> ApiSchema:
    """Return the definition of an API in all its versions; the first call for a key reads its file."""
    name = f"{key.value:02d}_{key.name.lower()}.api"
    return Parser(name, _FOLDER.joinpath(name).read_text(encoding="utf-8")).api()


@cache
def load_header(name: str) -> MessageSchema:
    """Return the definition of `RequestHeader` or `ResponseHeader`."""
    return _load_message(f"header_{_snake_case(name)}.api")


@cache
def load_data(name: str) -> MessageSchema:
    """Return the definition of a message that travels inside others, as bytes: `ConsumerProtocolAssignment`, ...

    Raises KeyError when there is none of that name.
    """
    if name not in data_names():
        raise KeyError(name)
    return _load_message(f"data_{_snake_case(name)}.api")


@cache
def data_names() -> dict[str, None]:
    """Return the names of all data messages, in order."""
    files = sorted(entry.name for entry in _FOLDER.iterdir() if entry.name.startswith("data_"))
    return {_load_message(name).name: None for name in files}


@cache
def _load_message(file_name: str) -> MessageSchema:
    return Parser(file_name, _FOLDER.joinpath(file_name).read_text(encoding="utf-8")).message()


def _snake_case(name: str) -> str:
    words = ""
    for index, letter in enumerate(name):
        follows_small = index > 0 and not name[index - 1].isupper()
        starts_word = index > 0 and name[index + 1 : index + 2].islower()
        words += f"_{letter}" if letter.isupper() and (follows_small or starts_word) else letter
    return words.lower()
