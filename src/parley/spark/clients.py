"""One client per cluster, or schema registry, and process: Spark reuses workers; connections,
metadata and schemas stay.

1. Nothing connects before the first call; a client that came along through a fork begins again (the
   client sees to that), so that this cache needs no process ids.
2. At most `CAPACITY` clients are kept; the one used least recently is closed. A worker runs one
   task at a time, so that it cannot be in use.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from parley.client import Client, ClientOptions

if TYPE_CHECKING:
    from parley.client import RegistryOptions, SchemaRegistryClient

CAPACITY = 8

_clients: OrderedDict[ClientOptions, Client] = OrderedDict()
_registries: OrderedDict[RegistryOptions, SchemaRegistryClient] = OrderedDict()
_lock = threading.Lock()


def client_for(options: ClientOptions) -> Client:
    """Return this process's client with these options. Do not close it."""
    with _lock:
        client = _clients.pop(options, None) or Client(options)
        _clients[options] = client
        dropped = _clients.popitem(last=False)[1] if len(_clients) > CAPACITY else None
    if dropped is not None:
        dropped.close()
    return client


def registry_for(options: RegistryOptions) -> SchemaRegistryClient:
    """Return this process's client of a schema registry: what it knows, nobody asks for again."""
    from parley.client import SchemaRegistryClient

    with _lock:
        found = _registries.pop(options, None) or SchemaRegistryClient(options=options)
        _registries[options] = found
        if len(_registries) > CAPACITY:
            _registries.popitem(last=False)
    return found
