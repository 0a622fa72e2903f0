"""A client of schema registries that speak Confluent's REST protocol: Confluent's own, Karapace,
Redpanda's, Apicurio's under `/apis/ccompat/v7`, and the embedded one.

>>> from parley.registry import Schema, SchemaRegistryClient
>>> registry = SchemaRegistryClient("http://localhost:8081")
>>> registered = registry.register_schema("names-value", Schema('"string"'))
>>> registry.get_schema(registered.id).text
'"string"'

Map: `client` and its form for event loops, `async_client`. `rest` asks one URL after the other, as
`options` say; `answers` reads what they answer. `choices` reads texts such as "subject:orders:3".
"""

from parley.registry.answers import Compatibility
from parley.registry.async_client import AsyncSchemaRegistryClient
from parley.registry.client import SchemaRegistryClient
from parley.registry.options import RegistryOptions
from parley.serdes import NamedSchema, RegisteredSchema, Schema, SchemaReference

__all__ = [
    "AsyncSchemaRegistryClient",
    "Compatibility",
    "NamedSchema",
    "RegisteredSchema",
    "RegistryOptions",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
]
