"""Where Spark calls parley: what parley raises on purpose
goes out by itself, without the frames that led to it.

Spark prints the whole traceback of its Python worker around an error. With one that says what to
do, parley's own frames and causes are in the way; the logger "parley.spark" has them at level
DEBUG. Other exceptions are bugs and keep theirs.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("parley.spark")


def edge(method: Callable[P, T]) -> Callable[P, T]:
    """Return a method for Spark with short errors, also those of an iterator it returns."""

    @functools.wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            found = method(*args, **kwargs)
        except Exception as error:
            problem = error
        else:
            return cast("T", _rows(found)) if isinstance(found, Iterator) else found
        raise _short(problem) from None

    return called


def _rows(rows: Iterator[T]) -> Iterator[T]:
    try:
        yield from rows
        return
    except Exception as error:
        problem = error
    raise _short(problem) from None


def _short(error: Exception) -> Exception:
    """Return an error of parley's own without frames and causes; raise others as they are."""
    from parley.errors import ConfigError, KafkaError

    if not isinstance(error, KafkaError):
        raise error
    log.debug("how this came about: %s", error, exc_info=error)
    if isinstance(error, ConfigError):
        from parley.spark.options.kafka import in_users_words

        error.args = (in_users_words(str(error)), *error.args[1:])
    return error.with_traceback(None)
