"""Finds message classes by name or by API key, and makes each at first use."""

from __future__ import annotations

from functools import cache

from parley.errors import ConfigError, RemoteProtocolError, nearest_hint
from parley.messages.classes import Message, make_message_class
from parley.schema import (
    ApiKey,
    data_names,
    load,
    load_data,
    load_record,
    record_names,
)

MODULE = "parley.messages"

# Plain dictionaries, not functools.cache: its keys distinguish ApiKey.FETCH from 1, and two classes
# of one message would never be equal.
_REQUESTS: dict[int, type[Message]] = {}
_RESPONSES: dict[int, type[Message]] = {}


def request_class(api_key: int) -> type[Message]:
    """Return the request of an API. Raises RemoteProtocolError for a key that parley does not know.

    Keys come off the wire; what is no number cannot, and raises ConfigError.
    """
    found = _REQUESTS.get(api_key) if isinstance(api_key, int) else None
    return found if found is not None else _make_pair(api_key)[0]


def response_class(api_key: int) -> type[Message]:
    """Return the response of an API. Raises RemoteProtocolError for an unknown key."""
    found = _RESPONSES.get(api_key) if isinstance(api_key, int) else None
    return found if found is not None else _make_pair(api_key)[1]


def _make_pair(api_key: int) -> tuple[type[Message], type[Message]]:
    if not isinstance(api_key, int):
        raise _no_key(api_key)
    try:
        key = ApiKey(api_key)
    except ValueError:
        raise RemoteProtocolError(
            f"API key {api_key} is not known: parley knows 0 to {max(ApiKey)}"
        ) from None
    schema = load(key)
    # setdefault: when two threads come here at once, both must leave with the same classes.
    request = _REQUESTS.setdefault(key, make_message_class(schema.request, key, MODULE))
    return request, _RESPONSES.setdefault(key, make_message_class(schema.response, key, MODULE))


def _no_key(given: object) -> ConfigError:
    names = {key.api_name: key for key in ApiKey}
    wanted = str(given).removesuffix("Request").removesuffix("Response")
    found = names.get(wanted)
    hint = (
        f"give ApiKey.{found.name}"
        if found is not None
        else f"give an ApiKey.{nearest_hint(wanted, names)}"
    )
    return ConfigError(f"{given!r} is no API key: {hint}")


@cache
def data_class(name: str) -> type[Message]:
    """Return a data message's class. Raises KeyError when there is none of that name."""
    return make_message_class(load_data(name), None, MODULE)


@cache
def record_class(name: str) -> type[Message]:
    """Return the class of a record's key or value. Raises KeyError when there is none."""
    return make_message_class(load_record(name), None, MODULE)


@cache
def class_names() -> dict[str, ApiKey | None]:
    """Return the names of all messages with their API keys; None marks data messages."""
    names: dict[str, ApiKey | None] = {}
    for key in ApiKey:
        names[f"{key.api_name}Request"] = key
        names[f"{key.api_name}Response"] = key
    return names


def class_by_name(name: str) -> type[Message] | None:
    """Return the message class of that name, or None."""
    key = class_names().get(name)
    if key is not None:
        return request_class(key) if name.endswith("Request") else response_class(key)
    if name in record_names():
        return record_class(name)
    return data_class(name) if name in data_names() else None
