"""One line asked, one line answered, over a Unix socket that only its owner may use.

The socket has mode 0600 from its first moment, and a peer of another user is refused by its
credentials too. A line has a bound in both directions; one that is longer is answered and ends the
connection.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from parley.errors import ConfigError, NetworkError

OWNER_ONLY = 0o600
ROOT_USER = 0
MAX_LINE_BYTES = 1024 * 1024
"""The longest line that is taken."""

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""The longest line that an asker waits for."""

_LONGEST_PATH = 100  # sun_path holds 108 bytes, or 104 elsewhere
_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: process, user, group

Answer = Callable[[bytes], Awaitable[bytes]]
"""Turns a line into its answer, both without their ends."""


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """Yield a name of the socket that fits into a socket address, however long the path is."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{folder}/{path.name}"
        if not os.path.isdir(os.path.dirname(short)):
            raise ConfigError(
                f"{path}: the path is too long for a Unix socket here; use a shorter data directory"
            )
        yield short
    finally:
        os.close(folder)


class LineServer:
    """Answers lines until it is closed. Made by `serve_lines`."""

    def __init__(self, path: Path, answer: Answer, max_line_bytes: int, too_long: bytes) -> None:
        self.path = path
        self._answer = answer
        self._max_line_bytes = max_line_bytes
        self._too_long = too_long
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Raises NetworkError without a socket, ConfigError if somebody has it."""
        _make_way(self.path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Linux gives the file the mode that the socket has
            os.fchmod(sock.fileno(), OWNER_ONLY)
            with _reachable(self.path) as name:
                sock.bind(name)
            self.path.chmod(OWNER_ONLY)
            self._server = await asyncio.start_unix_server(
                self._accept, sock=sock, limit=self._max_line_bytes
            )
        except OSError as error:
            sock.close()
            raise NetworkError(
                f"{self.path}: {error.strerror}", address=str(self.path), stage="listen"
            ) from error

    async def close(self) -> None:
        """Take no more lines, end every connection, remove the socket."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            if _is_owner(writer.get_extra_info("socket")):
                await self._converse(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the asker left, or the server closes
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # longer than the limit
                writer.write(self._too_long + b"\n")
                await writer.drain()
                return
            if not line:
                return
            if line.strip():
                writer.write(await self._answer(line.rstrip(b"\r\n")) + b"\n")
                await writer.drain()


def _is_owner(sock: socket.socket) -> bool:
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the file's mode decides
    _, user, _ = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return user in (os.getuid(), ROOT_USER)


def _make_way(path: Path) -> None:
    """Remove a dead process's socket. Raises ConfigError when a live one answers there."""
    if not path.is_socket():
        return
    with _reachable(path) as name, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(name)
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.ENOENT):
                raise NetworkError(
                    f"{path}: {error.strerror}", address=str(path), stage="listen"
                ) from error
            path.unlink(missing_ok=True)
            return
    raise ConfigError(
        f"{path} is in use: another process runs there; stop it, or use another directory"
    )


async def serve_lines(
    path: Path,
    answer: Answer,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    too_long: bytes = b"the line is too long",
) -> LineServer:
    """Listen on a Unix socket, answer each line; `too_long` if above `max_line_bytes`."""
    server = LineServer(path, answer, max_line_bytes, too_long)
    await server.start()
    return server


class LineClient:
    """A blocking connection to a `LineServer`. A context manager."""

    def __init__(self, path: Path, *, timeout_s: float = 60.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            with _reachable(path) as name:
                self._socket.connect(name)
        except OSError as error:
            self._socket.close()
            raise NetworkError(
                f"{path}: {error.strerror}", address=str(path), stage="connect"
            ) from error
        self._path = path
        self._file = self._socket.makefile("rb")

    def ask(self, line: bytes) -> bytes:
        """Send a line, return the answer. NetworkError if the other leaves or says too much."""
        try:
            self._socket.sendall(line + b"\n")
        except BrokenPipeError:
            pass  # it may have answered before it left
        except OSError as error:
            raise self._lost(str(error)) from error
        try:
            answer = self._file.readline(MAX_ANSWER_BYTES)
        except OSError as error:
            raise self._lost(str(error)) from error
        if not answer.endswith(b"\n"):
            raise self._lost(
                "the answer has no end" if answer else "the other side closed the connection"
            )
        return answer[:-1]

    def _lost(self, why: str) -> NetworkError:
        return NetworkError(f"{self._path}: {why}", address=str(self._path), stage="request")

    def __enter__(self) -> LineClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._socket.close()
