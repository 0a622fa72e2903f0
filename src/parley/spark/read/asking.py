"""Questions to the cluster that outlast an outage, as those of Spark's own connector do.

One question takes `kafka.default.api.timeout.ms` at most, with its retries;
`fetchOffset.numRetries` says how often it is asked altogether, `fetchOffset.retryIntervalMs` the
pause in between. With the defaults a query outlives brokers that are away for three minutes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from parley.client import Client, ClientOptions
from parley.errors import KafkaError
from parley.spark.clients import client_for
from parley.spark.options.source import SourceOptions
from parley.spark.options.table import FETCH_OFFSET_NUM_RETRIES, FETCH_OFFSET_RETRY_INTERVAL_MS

log = logging.getLogger("parley.spark")
T = TypeVar("T")

_answered: set[ClientOptions] = set()
"""The clusters that this process has had an answer from."""


def ask(options: SourceOptions, question: Callable[[Client], T]) -> T:
    """Return the answer to a question, asked again after errors that may pass. Raises the last one.

    Before the first answer of all it is asked once: the client itself goes on trying to reach a
    first broker for as long (`bootstrap_timeout_ms`), and reports a name that cannot be resolved at
    once.
    """
    attempts = max(1, options.own[FETCH_OFFSET_NUM_RETRIES])
    for attempt in range(1, attempts + 1):
        try:
            answer = question(client_for(options.client))
        except KafkaError as error:
            if not error.retriable or attempt == attempts or options.client not in _answered:
                raise
            log.warning(
                "%s Asking again (%d of %d, fetchOffset.numRetries).", error, attempt + 1, attempts
            )
            time.sleep(options.own[FETCH_OFFSET_RETRY_INTERVAL_MS] / 1000)
        else:
            _answered.add(options.client)
            return answer
    raise AssertionError("the last attempt returns or raises")
