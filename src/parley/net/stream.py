"""The interface to the network: what a connection needs of a byte stream, and nothing else.

A stream *pushes*: it asks its receiver for memory, receives into it and says how much came. That is
one copy less than a `read()` that returns bytes, and it is how asyncio's BufferedProtocol works.

Not part of the contract: threads (everything happens in the event loop's thread), partial writes
(segments are queued whole and in order), and the meaning of the bytes.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from parley.net.address import Address

Segment = bytes | memoryview
_SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
SystemPlace: TypeAlias = tuple[int, int, int, str, _SocketAddress]
"""What getaddrinfo says of one address: family, kind, protocol, canonical name, the address."""
Place: TypeAlias = SystemPlace | Address
"""What a backend's `lookup` returns and its `connect` takes. A network in memory has only names."""


class Receiver(Protocol):
    """The user of a stream, called by it."""

    def get_buffer(self, size_hint_bytes: int = -1) -> memoryview:
        """Return memory for received bytes; never empty."""
        ...

    def buffer_updated(self, received_bytes: int) -> None:
        """Take note that so many bytes were received into the last buffer."""
        ...

    def connection_lost(self, cause: Exception | None) -> None:
        """Take note that the stream is over; comes exactly once. None: it ended in order."""
        ...


class Stream(Protocol):
    """A connected, ordered byte stream in both directions."""

    @property
    def peer(self) -> Address:
        """The address of the other end."""
        ...

    @property
    def local(self) -> Address:
        """The address of this end."""
        ...

    @property
    def is_writable(self) -> bool:
        """False while so much waits to be sent that callers should `await drained()` first."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """How much waits to be sent."""
        ...

    def write(self, segments: Sequence[Segment]) -> None:
        """Queue bytes; never blocks. The segments must not change until they are sent."""
        ...

    async def drained(self) -> None:
        """Return when the stream is writable again, or over."""
        ...

    def pause_reading(self) -> None:
        """Receive nothing until `resume_reading`; the peer feels it by its full buffers."""
        ...

    def resume_reading(self) -> None:
        """Receive again."""
        ...

    def close(self) -> None:
        """Send what is queued, then end the stream. Idempotent."""
        ...

    def abort(self, *, reset: bool = False) -> None:
        """End the stream at once; what is queued is lost. `reset`: as a killed process (RST)."""
        ...

    async def wait_closed(self) -> None:
        """Return when `connection_lost` was called."""
        ...


class Listener(Protocol):
    """Accepts connections until it is closed."""

    @property
    def address(self) -> Address:
        """Where it listens; the port that was chosen when 0 was asked for."""
        ...

    async def pause(self) -> None:
        """Accept nothing for now: who connects waits, as at a stopped process (SIGSTOP)."""
        ...

    async def resume(self) -> None:
        """Accept again, those who waited first."""
        ...

    async def close(self) -> None:
        """Accept no more; streams that were accepted live on."""
        ...


Accept = Callable[[Stream], Receiver]
"""Called for each accepted stream; returns its receiver."""


class Backend(Protocol):
    """Makes streams. Errors are NetworkErrors with the stage; cancelled, nothing is left."""

    async def lookup(self, address: Address) -> Sequence[Place]:
        """Return the places that a name stands for, best first ("name lookup")."""
        ...

    async def connect(
        self,
        address: Address,
        place: Place,
        receiver: Receiver,
        tls: ssl.SSLContext | None,
        entered: Callable[[str], None],
    ) -> Stream:
        """Connect to one place ("connect") and shake hands if `tls` is given ("tls").

        `entered` is called with each stage as it begins.
        """
        ...

    async def listen(
        self, address: Address, accept: Accept, tls: ssl.SSLContext | None
    ) -> Listener:
        """Listen on an address; port 0 lets the system choose."""
        ...

    def hold(self, address: Address) -> Callable[[], None]:
        """Keep an address for later: who connects is refused, and nobody is given its port.

        Returns what gives it up again; call it before `listen`. Where somebody has the address
        nothing is held.
        """
        ...
