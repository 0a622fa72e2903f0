"""A cluster driven from outside: commands as JSON lines on a Unix socket in its data directory.

One line asks, one line answers, in order:

    {"command": "move-leader", "arguments": {"topic": "t", "partition": 0, "to": 2}}
    {"ok": true, "result": null}
    {"command": "move-leader", "arguments": {"topic": "t"}}
    {"ok": false, "error": "move-leader needs partition: move-leader --topic TOPIC ..."}

`id`, if a request has one, comes back with its answer. Whatever a line is, the cluster runs on.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import logging
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

from parley.devcluster.cluster import AsyncLocalCluster
from parley.devcluster.control.commands import commands, find_command
from parley.devcluster.faults.requests import JournalEntry
from parley.devcluster.state.agreement import Agreement
from parley.devcluster.state.replication.ledger import LostRecords
from parley.errors import ConfigError, KafkaError
from parley.net.lines import MAX_LINE_BYTES, LineServer, serve_lines

SOCKET_NAME = "control.sock"
_KNOWN_KEYS = {"command", "arguments", "id"}
_log = logging.getLogger("parley.devcluster")


class Control:
    """The control socket of a running cluster. `async with
    Control(cluster, folder) as control:`.
    """

    def __init__(self, cluster: AsyncLocalCluster, folder: Path) -> None:
        self.path = folder / SOCKET_NAME
        self._cluster = cluster
        self._server: LineServer | None = None

    async def __aenter__(self) -> Control:
        too_long = (
            f"a line has at most {MAX_LINE_BYTES} bytes; send smaller commands, one line each"
        )
        self._server = await serve_lines(self.path, self.answer, too_long=_refused(too_long))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            await self._server.close()

    async def answer(self, line: bytes) -> bytes:
        """Carry out one line and return its answer. Raises nothing but what ends the process."""
        echo: dict[str, object] = {}
        try:
            request = _read(line)
            if "id" in request:
                echo["id"] = request["id"]
            result = await self._carry_out(request)
        except (KafkaError, OSError) as error:
            return _refused(str(error), echo)
        except Exception as error:
            _log.exception("the control command %r failed", line[:200])
            return _refused(
                f"the command failed inside the cluster, which is a fault of parley: {error!r}",
                echo,
            )
        return _line({**echo, "ok": True, "result": as_json(result, self._cluster)})

    async def _carry_out(self, request: Mapping[str, object]) -> object:
        if request["command"] == "help":
            return {
                name: {"usage": one.usage, "help": one.help} for name, one in commands().items()
            }
        command = find_command(request["command"])
        given = request.get("arguments")
        keywords = command.keywords(given if isinstance(given, dict) else {})
        result = attrgetter(command.call)(self._cluster)(**keywords)
        return await result if inspect.isawaitable(result) else result


def _read(line: bytes) -> dict[str, object]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f'the line is no JSON ({error}); send {{"command": "help"}}, on one line'
        ) from error
    if not isinstance(request, dict) or "command" not in request:
        raise ConfigError(
            'a request is an object with a "command", and "arguments" if it has any; try "help"'
        )
    unknown = sorted(request.keys() - _KNOWN_KEYS)
    if unknown:
        raise ConfigError(
            f'a request has command, arguments and id, not "{unknown[0]}"; arguments go into '
            '"arguments"'
        )
    if not isinstance(request.get("arguments") or {}, dict):
        raise ConfigError('"arguments" is an object: {"topic": "t", "partition": 0}')
    return request


def _refused(text: str, echo: Mapping[str, object] | None = None) -> bytes:
    return _line({**(echo or {}), "ok": False, "error": text})


def _line(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":"), default=str).encode()


def as_json(value: object, cluster: AsyncLocalCluster) -> object:
    """Return what a control call returned as plain JSON values."""
    if isinstance(value, JournalEntry):
        shown = {
            f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name != "message"
        }
        return {**shown, "asked": value.asked(cluster.state.image.names)}
    if isinstance(value, LostRecords):
        return {**dataclasses.asdict(value), "records": value.records}
    if isinstance(value, Agreement):
        lost = [as_json(one, cluster) for one in value.lost]
        return {**dataclasses.asdict(value), "lost": lost, "agrees": value.agrees}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return as_json(dataclasses.asdict(value), cluster)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): as_json(one, cluster) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [
            as_json(one, cluster)
            for one in (sorted(value) if isinstance(value, set | frozenset) else value)
        ]
    return value
