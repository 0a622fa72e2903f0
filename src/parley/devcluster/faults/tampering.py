"""What faults do to one request and its answer.

Rules of this file:
1. Whether a fault acts was decided by `faults`; here it is done, always in this order: delay, error
   or the real answer, corruption, then whether and how the answer leaves.
2. A part of an answer is a part of the bytes that would have been sent, size in front included.
3. A Fetch within a session is always acted on: the reader and the broker count its epochs. What is
   refused of it is every partition that it asks for, named in this request or before, and it does
   not wait.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Awaitable, Callable, Mapping

from parley.devcluster.faults.asked import joined, split
from parley.devcluster.faults.faults import Fault, Kind
from parley.devcluster.handlers import HANDLERS, NoAnswer
from parley.messages import FetchRequest, Message
from parley.net import Clock, ServerConnection
from parley.protocol import RequestReceived

SIZE_BYTES = 4

Act = Callable[[Message], Awaitable[Message | NoAnswer | None]]
"""Acts on a request message and returns its answer, a NoAnswer, or None
when the connection is over.
"""


class Tampering:
    """One request under faults. `act` is what the broker does with it, `names` gives topics by
    their ids.

    `whole` is the request with all that it asks for, where that is more than it names.
    """

    def __init__(
        self,
        connection: ServerConnection,
        request: RequestReceived,
        faults: Mapping[Kind, Fault],
        act: Act,
        names: Mapping[bytes, str],
        whole: Message,
    ) -> None:
        self._connection = connection
        self._request = request
        self._faults = faults
        self._act = act
        self._names = names
        self._whole = whole

    async def answer(self, clock: Clock, rng: random.Random) -> None:
        """Answer the request as the faults will have it, or not at all."""
        delay = self._faults.get(Kind.DELAY)
        if delay is not None and not delay.executed:
            await clock.sleep_ms(delay.delay_ms)
        drop, cut = self._faults.get(Kind.DROP), self._faults.get(Kind.CUT)
        lost = drop if cut is None else cut
        if lost is not None and not lost.executed and cut is not None and cut.after_bytes:
            answer: Message | NoAnswer | None = self._pretended()
        elif lost is not None and not lost.executed:
            answer = None
        else:
            answer = await self._answer()
        if delay is not None and delay.executed:
            await clock.sleep_ms(delay.delay_ms)
        if cut is not None:
            await self._cut(cut, answer)
        elif drop is not None:
            # later requests wait behind it: the answer never comes
            await self._connection.wait_closed()
        elif isinstance(answer, NoAnswer):
            self._connection.drop(self._request)
            if answer.close:
                self._connection.close()
        elif answer is not None:
            await self._send(answer, rng)

    async def _answer(self) -> Message | NoAnswer | None:
        message = self._request.message
        fault = self._faults.get(Kind.ERROR)
        if fault is None:
            return await self._act(message)
        whole = self._whole
        kept, refused = (
            split(whole, self._names, fault.target.wants) if fault.target.topic else (None, whole)
        )
        acted = message if fault.executed else kept
        if kept is not None and isinstance(message, FetchRequest) and message.session_epoch >= 0:
            acted = at_once = copy.copy(message)
            at_once.max_wait_ms = 0
        answer = None if acted is None else await self._act(acted)
        if isinstance(answer, NoAnswer):  # acks=0: its error is a closed connection
            return NoAnswer(close=True)
        refusal = HANDLERS[self._request.api_key].refuse(
            refused, self._request.version, fault.error
        )
        return refusal if kept is None or answer is None else joined(answer, refusal, self._names)

    def _pretended(self) -> Message:
        """Return an answer of a broker that did nothing: what is seen of it
        before the cut looks well.
        """
        return HANDLERS[self._request.api_key].refuse(
            self._request.message, self._request.version, 0
        )

    async def _cut(self, cut: Fault, answer: Message | NoAnswer | None) -> None:
        if cut.after_bytes and answer is not None and not isinstance(answer, NoAnswer):
            most = cut.after_bytes
            await self._connection.respond(self._request, answer, change=lambda data: data[:most])
            self._connection.close()
        else:
            self._connection.abort(reset=cut.after_bytes is None)

    async def _send(self, answer: Message, rng: random.Random) -> None:
        corrupt, hold = self._faults.get(Kind.CORRUPT), Kind.REORDER in self._faults

        def change(data: bytes) -> bytes:
            if corrupt is not None:
                # the size stays right unless it is asked for
                first = min(SIZE_BYTES, len(data) - 1)
                at = rng.randrange(first, len(data)) if corrupt.at_byte is None else corrupt.at_byte
                if at < len(data):
                    data = b"%b%c%b" % (data[:at], data[at] ^ 0xFF, data[at + 1 :])
            return data

        await self._connection.respond(
            self._request, answer, change=None if corrupt is None else change, hold_back=hold
        )
