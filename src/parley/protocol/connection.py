"""What both ends of a connection share: bytes in, events out, bytes to send.

Rules:
1. No input/output, no clock, no randomness: bytes and `now_ms` come in as arguments.
2. Foreign bytes never raise. They end the connection with a `Closed` event that carries the error.
3. `Closed` is the last event and comes once. After it bytes are ignored and nothing is sent.
4. Memory is bounded by what was received (frames) and by what the owner asked to send.
5. What takes long is done at once, or with `gives_work` handed to the owner as a `Work` event, who
   runs it in another thread. Until it is finished no other event is made.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from parley.errors import KafkaError, LocalProtocolError, NetworkError, RemoteProtocolError
from parley.frames import Frame, Framer, encode_frame
from parley.protocol.events import NEED_DATA, PAUSED, Closed, Event, NoEvent
from parley.protocol.work import Work

T = TypeVar("T")
Segment = bytes | memoryview


class State(enum.Enum):
    """Where a connection is in its life; it only ever moves downwards."""

    FRESH = "fresh"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    CLOSED = "closed"


class Connection(ABC):
    """One end of a connection. `ClientProtocol` and `BrokerProtocol` say what the frames mean."""

    def __init__(self, framer: Framer, state: State) -> None:
        self._framer = framer
        self._state = state
        self._events: deque[Event] = deque()
        self._out: list[Segment] = []
        self._work: Work | None = None
        self._eof: str | None = None  # that came during the work
        self.gives_work = False
        """Whether the owner takes `Work` events; otherwise `next_event` does the work itself."""

    @property
    def state(self) -> State:
        """Where this connection is in its life."""
        return self._state

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be received or sent."""
        return self._state is State.CLOSED

    @property
    def unread_bytes(self) -> int:
        """Received bytes that no event was made of yet."""
        return self._framer.pending_bytes

    def accept_frames(self, frame_bytes: int) -> None:
        """Accept frames of at least that size from now on; a larger cap stays as it is."""
        self._framer.max_frame_bytes = max(self._framer.max_frame_bytes, frame_bytes)

    def get_buffer(self, size_hint_bytes: int = -1) -> memoryview:
        """Return where the next received bytes go; never empty (asyncio's BufferedProtocol)."""
        return self._framer.get_buffer(size_hint_bytes)

    def buffer_updated(self, received_bytes: int) -> bool:
        """Take note that this many bytes were received into the last `get_buffer` result.

        Returns whether `next_event` is to be asked; in the middle of a large frame there is nothing
        new.
        """
        return self._state is not State.CLOSED and self._framer.buffer_updated(received_bytes)

    def receive_data(self, data: Segment) -> None:
        """Copy received bytes in, for callers that do not receive into `get_buffer`."""
        if self._state is not State.CLOSED:
            self._framer.feed(data)

    def receive_eof(self, how: str = "the peer closed the connection") -> None:
        """Take note that no more bytes come; `how` says it for the error's text."""
        if self._work is not None:
            self._eof = how  # what came before the end counts first
        elif self._state is not State.CLOSED:
            self._end(self._eof_error(how))

    def next_event(self) -> Event | NoEvent:
        """Return the next event in the received bytes, NEED_DATA, or PAUSED.

        PAUSED: a broker has a request to answer first, or a `Work` event is not finished yet.
        Mutates: consumes the bytes of the event it returns. Never raises for what a peer sent: that
        gives `Closed(error)`, after which the owner drops the transport.
        """
        while not self._events:
            waiting = self._waits_for()
            if waiting is not None:
                return waiting
            try:
                frame = self._framer.next_frame()
                if frame is None:
                    return NEED_DATA
                self._take_frame(frame)
            except RemoteProtocolError as error:
                self._end(error)
        return self._events.popleft()

    def finish(self, work: Work) -> None:
        """Take a `Work` event back after `run`; then ask `next_event`. Ignored after the end."""
        if work is not self._work or self._state is State.CLOSED:
            return
        self._work = None
        try:
            if work.error is not None:
                raise work.error
            if work.then is not None:
                work.then()
        except KafkaError as error:
            self._end(error)
        if self._eof is not None:
            self.receive_eof(self._eof)

    def data_to_send(self) -> list[Segment]:
        """Return the segments to send now, in order. Mutates: they are handed out once."""
        out, self._out = self._out, []
        return out

    def close(self, error: KafkaError | None = None) -> None:
        """End the connection from this side; a `Closed` event follows. Idempotent."""
        if self._state is not State.CLOSED:
            self._end(error)

    @abstractmethod
    def _take_frame(self, frame: Frame) -> None:
        """Make events of a frame. May raise RemoteProtocolError."""

    @abstractmethod
    def _lost(self) -> tuple[int, ...]:
        """Return the correlation ids never to be answered; forget everything negotiated."""

    @property
    @abstractmethod
    def stage(self) -> str:
        """Return the stage that a NetworkError of this moment names."""

    def _do(self, function: Callable[[], T], then: Callable[[T], None]) -> None:
        """Call `then` with a long result; `function` may use nothing that changes meanwhile."""
        work = self._work = Work(function, then)
        if self.gives_work:
            self._events.append(work)
        else:
            work.run()
            self.finish(work)

    def _waits_for(self) -> NoEvent | None:
        if self._state is State.CLOSED:
            return NEED_DATA
        return None if self._work is None else PAUSED

    def _eof_error(self, how: str) -> KafkaError:
        return NetworkError(self._eof_text(how), stage=self.stage)

    def _eof_text(self, how: str) -> str:
        pending, announced = self._framer.pending_bytes, self._framer.announced_bytes
        if not pending:
            return how
        size = "an unknown number of" if announced is None else str(announced + 4)
        return f"{how}, inside a frame, after {pending} of {size} bytes"

    def _queue(self, segments: Sequence[Segment]) -> None:
        if self._state is State.CLOSED:
            raise LocalProtocolError("the connection is closed; open a new one")
        self._out += encode_frame(segments)

    def _end(self, error: KafkaError | None) -> None:
        self._state = State.CLOSED
        self._work = None
        self._events.append(Closed(error, self._lost()))
