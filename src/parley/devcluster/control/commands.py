"""The control calls as commands with arguments: one table, made from the cluster's own methods.

Rules of this file:
1. A command is a method of `AsyncLocalCluster`, or of its `faults` or `scenes`, by its name with
   dashes; its arguments are the method's, with their types and defaults, and its help the
   docstring. Nothing is written twice.
2. Values come from JSON, or as text from a command line; both are checked against the types here.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parley.devcluster.cluster import AsyncLocalCluster
from parley.devcluster.faults.calls import AsyncFaults
from parley.devcluster.group_calls import AsyncGroups
from parley.devcluster.scenes import AsyncScenes
from parley.errors import ConfigError, nearest_hint

CALLS = (
    "status", "create_topic", "delete_topic", "scenes.recreate_topic", "add_partitions",
    "delete_records", "apply_retention", "compact", "leaders", "isr", "move_leader",
    "scenes.elect_preferred", "scenes.elect_unclean", "start_broker", "stop_broker", "kill_broker",
    "scenes.isolate",
    "scenes.heal", "scenes.freeze", "scenes.thaw", "scenes.hold_metadata",
    "scenes.release_metadata", "scenes.hold_loading", "scenes.release_loading", "scenes.lag",
    "scenes.catch_up", "scenes.shrink_isr",
    "transactions", "move_coordinator", "move_group_coordinator", "groups.expire_member",
    "groups.expire_offsets", "faults.fail", "faults.cut", "faults.delay", "faults.drop",
    "faults.reorder", "faults.corrupt", "faults.clear", "requests",
    "clear_requests", "versions_used", "advance", "faults.seed", "check_replicas", "replicas_agree",
)  # fmt: skip
"""The control calls, in the documentation's order: methods of the cluster, or of a part of it."""

_PARTS: dict[str, type] = {
    "": AsyncLocalCluster,
    "faults": AsyncFaults,
    "groups": AsyncGroups,
    "scenes": AsyncScenes,
}
_COMMANDS = {"faults.clear": "clear-faults", "groups.expire_member": "expire-group-member"}
"""The commands that are not called like their method."""

_SHOWN_AS = {"broker_id": "broker"}
_KINDS = {int: "number", str: "text", float: "number", bool: "yes or no"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: `types` are what it takes, `many` whether it is a list, `pairs`
    whether it maps text to text.
    """

    name: str
    parameter: str
    types: tuple[type, ...]
    required: bool
    default: object = None
    many: bool = False
    pairs: bool = False
    nullable: bool = False

    @property
    def option(self) -> str:
        """Its option on a command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def takes(self) -> str:
        """What it takes, in words."""
        if self.pairs:
            return "name=value,…"
        kinds = " or ".join(dict.fromkeys(_KINDS[one] for one in self.types))
        return f"{kinds}, …" if self.many else kinds

    def check(self, value: object) -> object:
        """Return a value that came as JSON. Raises ConfigError for one of another type."""
        if value is None and self.nullable:
            return None
        if self.pairs:
            if isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
                return value
        elif self.many:
            if isinstance(value, list) and all(self._is_right(one) for one in value):
                return value
        elif self._is_right(value):
            return value
        raise ConfigError(f"{self.name} takes {self.takes}, not {value!r}")

    def _is_right(self, value: object) -> bool:
        if isinstance(value, bool):  # a bool is an int for Python
            return bool in self.types
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return False
        return isinstance(value, self.types) or (float in self.types and isinstance(value, int))

    def parse(self, text: str) -> object:
        """Return a value that came as text. Raises ConfigError for text that cannot be one."""
        if self.pairs:
            pairs = [part.partition("=") for part in text.split(",") if part]
            if not all(sign for _, sign, _ in pairs):
                raise ConfigError(f"{self.option} {text}: expected name=value,…")
            return {name: value for name, _, value in pairs}
        if self.many:
            return [self._one(part) for part in text.split(",") if part]
        return self._one(text)

    def _one(self, text: str) -> object:
        for kind in sorted(self.types, key=lambda one: one is str):  # a number, where it can be one
            if kind is bool:
                if text.lower() in ("yes", "true", "no", "false"):
                    return text.lower() in ("yes", "true")
                continue
            try:
                return kind(text)
            except ValueError:
                continue
        raise ConfigError(f"{self.option} takes {self.takes}, not {text!r}")


@dataclass(frozen=True, slots=True)
class Command:
    """One command: `call` is what it calls at a cluster, `summary` its help's first paragraph."""

    name: str
    call: str
    arguments: tuple[Argument, ...]
    help: str

    @property
    def summary(self) -> str:
        """The first paragraph of the help, on one line."""
        return " ".join(self.help.split("\n\n")[0].split())

    @property
    def usage(self) -> str:
        """How it is called on a command line."""
        parts = [self.name]
        for one in self.arguments:
            shown = (
                f"{one.option} {one.name.upper()}"
                if bool not in one.types
                else f"[{one.option} yes|no]"
            )
            parts.append(shown if one.required or bool in one.types else f"[{shown}]")
        return " ".join(parts)

    def keywords(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return the method's arguments for arguments that came as JSON. Raises ConfigError."""
        known = {one.name: one for one in self.arguments}
        for name in given:
            if name not in known:
                have = ", ".join(known) or "none"
                raise ConfigError(
                    f'{self.name} has no argument "{name}".{nearest_hint(name, known)} It '
                    f"takes: {have}"
                )
        for one in self.arguments:
            if one.required and one.name not in given:
                raise ConfigError(f"{self.name} needs {one.name}: {self.usage}")
        return {known[name].parameter: known[name].check(value) for name, value in given.items()}


def find_command(name: object) -> Command:
    """Return a command by its name. Raises ConfigError with the nearest one, or what there is."""
    known = commands()
    found = known.get(name) if isinstance(name, str) else None
    if found is None:
        hint = nearest_hint(name, known) if isinstance(name, str) else ""
        raise ConfigError(f"there is no command {name!r}.{hint} Commands: {', '.join(known)}")
    return found


@functools.cache
def commands() -> dict[str, Command]:
    """Return every command by its name."""
    made = [_command_of(call) for call in CALLS]
    return {one.name: one for one in made}


def _command_of(call: str) -> Command:
    part, _, method = call.rpartition(".")
    function = getattr(_PARTS[part], method)
    hints = typing.get_type_hints(function)
    arguments: list[Argument] = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        hint = hints[parameter.name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:  # Unpack[On]: the keys of a TypedDict
            keys = typing.get_type_hints(typing.get_args(hint)[0])
            arguments += [
                _argument(name, kind, inspect.Parameter.empty, optional=True)
                for name, kind in keys.items()
            ]
        else:
            arguments.append(_argument(parameter.name, hint, parameter.default, optional=False))
    name = _COMMANDS.get(call, method.replace("_", "-"))
    return Command(name, call, tuple(arguments), inspect.getdoc(function) or "")


def _argument(name: str, hint: object, default: object, *, optional: bool) -> Argument:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    members = [
        one for one in (typing.get_args(hint) if union else (hint,)) if one is not type(None)
    ]
    pairs = any(
        typing.get_origin(one) is not None and issubclass(typing.get_origin(one), Mapping)
        for one in members
    )
    many = not pairs and any(
        typing.get_origin(one) is not None and issubclass(typing.get_origin(one), Sequence)
        for one in members
    )
    if many:
        members = list(typing.get_args(members[0]))
    required = default is inspect.Parameter.empty and not optional
    return Argument(
        _SHOWN_AS.get(name, name),
        name,
        (str,) if pairs else tuple(members),
        required,
        None if required or default is inspect.Parameter.empty else default,
        many,
        pairs,
        nullable=union and type(None) in typing.get_args(hint),
    )


def markdown_table() -> str:
    """Return the commands as a table in Markdown, for docs/guide/cluster.md."""
    lines = ["| command | in Python | arguments | what it does |", "|---|---|---|---|"]
    for one in commands().values():
        arguments = ", ".join(_shown(argument) for argument in one.arguments) or "–"
        summary = one.summary.replace("|", "/")
        lines.append(f"| `{one.name}` | `{one.call}` | {arguments} | {summary} |")
    return "\n".join(lines)


def _shown(argument: Argument) -> str:
    if argument.required:
        return f"**{argument.name}**"
    unset = argument.default in (None, ()) or argument.default is inspect.Parameter.empty
    return argument.name if unset else f"{argument.name}={argument.default}"
