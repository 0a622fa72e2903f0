"""Blocking calls as a person sees them: the parameters, results and words of the
asynchronous ones, without `await`.
"""

from __future__ import annotations

import asyncio
import inspect
import pydoc
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from parley.client import (
    AsyncClient,
    AsyncConsumer,
    AsyncTransactionProducer,
    AsyncTransactions,
    Client,
    Consumer,
    TransactionProducer,
    Transactions,
)
from parley.devcluster import (
    AsyncFaults,
    AsyncLocalCluster,
    AsyncScenes,
    Faults,
    LocalCluster,
    Scenes,
)
from parley.net.blocking import blocking, in_loop

FACES = [
    (Client, AsyncClient),
    (Consumer, AsyncConsumer),
    (Transactions, AsyncTransactions),
    (TransactionProducer, AsyncTransactionProducer),
    (LocalCluster, AsyncLocalCluster),
    (Faults, AsyncFaults),
    (Scenes, AsyncScenes),
]
ITSELF = {"start", "resume", "transaction", "producer", "broker", "fetch", "fetch_many", "batches"}
"""What returns a face, or is iterated over: the result differs, the parameters do not."""


def calls() -> Iterator[Any]:
    for face, behind in FACES:
        for name, method in inspect.getmembers(face, inspect.isroutine):
            if not name.startswith("_") and hasattr(behind, name):
                yield pytest.param(method, getattr(behind, name), id=f"{face.__name__}.{name}")


@pytest.mark.parametrize(("method", "behind"), list(calls()))
def test_a_blocking_call_takes_and_returns_what_the_asynchronous_one_does(
    method: Any, behind: Any
) -> None:
    ours, theirs = inspect.signature(method), inspect.signature(behind)
    assert list(ours.parameters.values()) == list(theirs.parameters.values())
    assert method.__name__ in ITSELF or ours.return_annotation == theirs.return_annotation
    assert not inspect.iscoroutinefunction(method)


def test_help_shows_name_parameters_and_what_is_raised() -> None:
    text = pydoc.render_doc(Client.request, renderer=pydoc.plaintext)
    packed = "".join(text.split())  # Python 3.13 writes one parameter per line
    assert (
        "request(self,node_id:'int|None',message:'Request[R]',timeout_ms:'int|None'=None" in packed
    )
    assert "Raises UnsupportedVersionError, before a byte is sent" in text
    assert "async" not in text.replace("parley.client.async_client", "")  # the module it is from


class Behind:
    def __init__(self) -> None:
        self.loops: list[object] = []

    async def add(self, a: int, *, b: int = 1) -> int:
        self.loops.append(asyncio.get_running_loop())
        return a + b

    def add_at_once(self, a: int) -> int:
        self.loops.append(asyncio.get_running_loop())
        if a < 0:
            raise ValueError("below zero")
        return a


class Front:
    def __init__(self) -> None:
        self.behind = Behind()

    def _async(self) -> Behind:
        return self.behind

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    add = blocking(Behind.add)
    add_at_once = in_loop(Behind.add_at_once)


def test_both_kinds_of_method_run_in_the_loop() -> None:
    front = Front()
    assert (front.add(2), front.add(2, b=3), front.add_at_once(4)) == (3, 5, 4)
    assert len(front.behind.loops) == 3
    with pytest.raises(ValueError, match="below zero"):
        front.add_at_once(-1)
    with pytest.raises(TypeError, match=r"^Front\.add\(\) got an unexpected keyword"):
        front.add(1, c=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Front\.add_at_once\(\) missing 1 required"):
        front.add_at_once()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^'<' not supported between") as raised:
        front.add_at_once("one")  # type: ignore[arg-type]  # of the method itself: as it is
    assert raised.traceback[-1].name == "add_at_once"
