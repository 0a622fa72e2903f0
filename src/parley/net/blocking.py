"""Blocking methods made of asynchronous ones: same parameters, same docstring, no `await`.

    class Client:
        metadata = blocking(AsyncClient.metadata)

What a call takes, returns and raises is written once, at the asynchronous method.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
Work: TypeAlias = Coroutine[object, None, T]
"""What a call of a coroutine function gives."""
P = ParamSpec("P")
Inner = TypeVar("Inner")
Inner_co = TypeVar("Inner_co", covariant=True)


class BlockingWrapper(Protocol[Inner_co]):
    """A blocking object in front of an asynchronous one."""

    def _async(self) -> Inner_co:
        """Return the asynchronous object, made again where a fork left the former one behind."""

    def _run(self, work: Work[T], /) -> T:
        """Run a coroutine in the loop and return what it returns, or raise what it raises."""


def blocking(
    method: Callable[Concatenate[Inner, P], Work[T]],
) -> Callable[Concatenate[BlockingWrapper[Inner], P], T]:
    """Return the blocking method for a coroutine method of the object behind."""

    @wraps(method)
    def call(wrapper: BlockingWrapper[Inner], /, *arguments: P.args, **named: P.kwargs) -> T:
        inner = wrapper._async()
        try:
            work = method(inner, *arguments, **named)
        except TypeError as error:  # of the call itself: nothing has run yet
            raise _renamed(error, method, wrapper) from None
        return wrapper._run(work)

    return call


def in_loop(
    method: Callable[Concatenate[Inner, P], T],
) -> Callable[Concatenate[BlockingWrapper[Inner], P], T]:
    """Return the blocking method of a plain one that only the loop's thread may call."""

    @wraps(method)
    def call(wrapper: BlockingWrapper[Inner], /, *arguments: P.args, **named: P.kwargs) -> T:
        async def work() -> T:
            try:
                return method(wrapper._async(), *arguments, **named)
            except TypeError as error:
                raise _renamed(error, method, wrapper) from None

        return wrapper._run(work())

    return call


def _renamed(error: TypeError, method: Callable[..., object], wrapper: object) -> TypeError:
    """Return an error about arguments with the name of the class that was called; any other as it
    is.
    """
    text = str(error)
    if not text.startswith(f"{method.__qualname__}()"):
        return error
    return TypeError(
        f"{type(wrapper).__name__}.{method.__name__}{text.removeprefix(method.__qualname__)}"
    )
