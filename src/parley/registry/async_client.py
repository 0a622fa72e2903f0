"""The registry's client in an event loop: the same calls, each in a thread of its own.

The blocking client is the core here, unlike elsewhere in parley: requests are rare, need no loop,
and decoders ask in the thread that decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Concatenate, ParamSpec, TypeVar, Unpack

from parley.net.http_client import in_thread
from parley.registry.client import SchemaRegistryClient
from parley.registry.options import RegistryOptions, RegistryOptionValues

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[SchemaRegistryClient, P], T],
) -> Callable[Concatenate[AsyncSchemaRegistryClient, P], Coroutine[object, None, T]]:
    """Return the coroutine method for a blocking one: same parameters, same docstring."""

    @wraps(method)
    async def call(
        client: AsyncSchemaRegistryClient, /, *arguments: P.args, **named: P.kwargs
    ) -> T:
        return await in_thread(partial(method, client.blocking, *arguments, **named))

    return call


class AsyncSchemaRegistryClient:
    """`SchemaRegistryClient` for event loops: the same arguments and calls, to be awaited.

    `blocking` is the client behind it, which decoders take; both know the same schemas.
    """

    def __init__(
        self,
        url: str | None = None,
        options: RegistryOptions | None = None,
        **named: Unpack[RegistryOptionValues],
    ) -> None:
        self.blocking = SchemaRegistryClient(url, options, **named)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.blocking.options.url!r})"

    @property
    def options(self) -> RegistryOptions:
        """The options that it was made with."""
        return self.blocking.options

    get_schema = _awaited(SchemaRegistryClient.get_schema)
    get_schema_by_guid = _awaited(SchemaRegistryClient.get_schema_by_guid)
    get_schema_for = _awaited(SchemaRegistryClient.get_schema_for)
    get_version = _awaited(SchemaRegistryClient.get_version)
    get_references = _awaited(SchemaRegistryClient.get_references)
    get_latest_version = _awaited(SchemaRegistryClient.get_latest_version)
    choose_schema = _awaited(SchemaRegistryClient.choose_schema)
    get_subjects = _awaited(SchemaRegistryClient.get_subjects)
    get_versions = _awaited(SchemaRegistryClient.get_versions)
    register_schema = _awaited(SchemaRegistryClient.register_schema)
    lookup_schema = _awaited(SchemaRegistryClient.lookup_schema)
    delete_subject = _awaited(SchemaRegistryClient.delete_subject)
    test_compatibility = _awaited(SchemaRegistryClient.test_compatibility)
    get_compatibility = _awaited(SchemaRegistryClient.get_compatibility)
    set_compatibility = _awaited(SchemaRegistryClient.set_compatibility)
