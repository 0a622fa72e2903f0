"""A pipeline's file, read and checked: what is wrong is named with its line."""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from parley.client import JAVA_NAMES, ClientOptions, option_names
from parley.errors import ConfigError, nearest_hint
from parley.pipelines.declared import keys
from parley.pipelines.declared.declaration import Compared, Declaration, Flow
from parley.pipelines.declared.lines import line_of
from parley.pipelines.declared.replays import replay_options
from parley.pipelines.declared.secrets import resolved
from parley.pipelines.declared.state import check_folder
from parley.pipelines.declared.streams import query_options
from parley.pipelines.declared.surroundings import (
    Registry,
    Surroundings,
    cluster_texts,
    declared_registry,
)
from parley.pipelines.declared.trials import Trial
from parley.pipelines.replay import ReplayOptions
from parley.pipelines.replication import ReplicationOptions
from parley.pipelines.verify import VerifyOptions
from parley.registry import RegistryOptions
from parley.spark.lakes.options import local_path
from parley.types.secret_names import is_secret

log = logging.getLogger("parley.pipelines")
T = TypeVar("T")
Table: TypeAlias = dict[str, Any]
"""What tomllib makes of a table."""
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")
_LINE = re.compile(r"\(at line (\d+), column \d+\)")
RELEASE = "release"
"""The key of a cluster that cannot be asked for its release (0.9 behind SASL)."""
_LOGINS = ("sasl_plain_username", "sasl_oauthbearer_client_credentials_client_id")
"""Options of a cluster that are no secrets, and may lie in a file beside one."""


def read(path: str | Path) -> Declaration:
    """Return what a file declares. Raises ConfigError with file, line and key of what is wrong."""
    path = Path(path)
    return read_text(text_of(path), path)


def text_of(path: Path) -> str:
    """Return a file's text, without the mark that editors put in front of UTF-8.

    Raises ConfigError for a file that cannot be read, or is in another encoding.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} cannot be read: TOML is UTF-8, and it is in another encoding ({error}); "
            "save it as UTF-8"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def read_text(text: str, path: Path) -> Declaration:
    """Return what a text declares; `path` is where it comes from."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        where = f"line {line[1]}" if line else "at its end"
        raise ConfigError(f"{path}, {where}: it is no TOML: {error}") from None
    return document_read(text, path, document)


def document_read(text: str, path: Path, document: Table) -> Declaration:
    """Return what a parsed text declares."""
    return _Reader(text, path, document).declaration()


class _Reader:
    """Knows where it is, so that what is wrong can be found."""

    def __init__(self, text: str, path: Path, document: Table) -> None:
        self._text, self._path, self._document = text, path, document

    def declaration(self) -> Declaration:
        self._known((), self._document, ("pipeline", "cluster", "registry", "spark", "flow"))
        pipeline = self._table(("pipeline",), self._document.get("pipeline"))
        self._known(("pipeline",), pipeline, keys.PIPELINE)
        name = pipeline.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise self._wrong(
                ("pipeline", "name"),
                f"name={name!r} cannot be used: letters, digits, dots, dashes and underscores",
            )
        if name in (".", ".."):
            raise self._wrong(
                ("pipeline", "name"),
                f"name={name!r} cannot be used: the pipeline's folder in state is called so",
            )
        settings = {
            found: self._settings(found, self._table(("cluster", found), table))
            for found, table in self._tables("cluster").items()
        }
        clusters = {
            found: self._at(("cluster", found), partial(ClientOptions.from_properties, given))
            for found, given in settings.items()
        }
        registries = {
            found: self._registry(found, self._table(("registry", found), table))
            for found, table in self._tables("registry").items()
        }
        state = self._state(name, pipeline)
        texts = {found: cluster_texts(given) for found, given in settings.items()}
        around = Surroundings(name, self._path.parent, state, texts, registries)
        flows = {
            found: self._flow(found, self._table(("flow", found), table), around)
            for found, table in self._tables("flow").items()
        }
        for flow in flows.values():
            self._check_flow(flow, flows)
            if flow.kind in keys.QUERIES:
                self._at(("flow", flow.name), partial(check_folder, flow.name, flows))
        if not flows:
            raise self._wrong((), "it has no [flow.NAME]: nothing is to be done")
        return Declaration(self._path, name, state, clusters, flows, self._spark())

    def _state(self, name: str, pipeline: Table) -> Path:
        given = pipeline.get("state", ".parley")
        key = ("pipeline", "state")
        path = self._at(key, partial(local_path, given)) if isinstance(given, str) else None
        if path is None:
            raise self._wrong(key, f"state={given!r} is no folder: give a path of this machine")
        return self._path.parent / path / name

    # -- clusters ----------------------------------------------------------------------------------

    def _settings(self, name: str, table: Table) -> Table:
        """Return a cluster's settings, with secrets."""
        path = ("cluster", name)
        known, secrets = option_names(ClientOptions), ClientOptions.secret_names()
        found: dict[str, object] = {}
        for key, value in table.items():
            if key in JAVA_NAMES and key not in known:
                self._at((*path, key), partial(resolved, key, value, secret=is_secret(key)))
                log.warning("%s: %s has no effect here", self._place((*path, key)), key)
                continue
            if key != RELEASE and key not in known:
                self._not_dotted((*path, key), value)
                raise self._unknown((*path, key), key, [RELEASE, *known])
            option = "broker_version_hint" if key == RELEASE else key
            how = {"secret": key in secrets, "from_file": known.get(key) in _LOGINS}
            found[option] = self._at((*path, key), partial(resolved, key, value, **how))
        if "bootstrap.servers" not in found and "bootstrap_servers" not in found:
            raise self._wrong(path, f'[cluster.{name}] has no "bootstrap.servers"')
        return found

    def _registry(self, name: str, table: Table) -> Registry:
        """Return a schema registry's settings."""
        path = ("registry", name)
        secrets = RegistryOptions.secret_names()
        for key, value in table.items():
            self._not_dotted((*path, key), value)
        found = {
            key: self._at((*path, key), partial(resolved, key, value, secret=key in secrets))
            for key, value in table.items()
        }
        if "@" in str(table.get("url", "")):
            raise self._wrong(
                (*path, "url"), 'url holds a login: give "basic.auth.user.info" = "env:NAME"'
            )
        return self._at(path, lambda: declared_registry(found))

    def _spark(self) -> dict[str, str]:
        """Return settings of Spark's session."""
        table = self._tables("spark")
        for key in table:
            if key != "master" and not key.startswith("spark."):
                self._not_dotted(("spark", key), table[key])
                raise self._wrong(
                    ("spark", key), f'[spark] has no key "{key}": it has "master", and "spark...."'
                )
        return {
            key: str(self._at(("spark", key), partial(resolved, key, value, secret=is_secret(key))))
            for key, value in table.items()
        }

    # -- flows -------------------------------------------------------------------------------------

    def _flow(self, name: str, table: Table, around: Surroundings) -> Flow:
        path = ("flow", name)
        if not _NAME.fullmatch(name):
            raise self._wrong(path, f'"{name}" cannot be used: letters, digits, dots and dashes')
        kind = table.get("kind")
        if kind not in keys.KINDS:
            hint = nearest_hint(str(kind), keys.KINDS)
            raise self._wrong(
                (*path, "kind"), f"kind={kind!r} is not one of {', '.join(keys.KINDS)}.{hint}"
            )
        own = {key: value for key, value in table.items() if key not in keys.FLOW}
        options = self._options(path, own, keys.FLOW_KEYS[kind], keys.FLOW)
        sides = {}
        for side in ("from", "to"):
            there = self._table((*path, side), table.get(side, {}))
            more = {key: value for key, value in there.items() if key != "cluster"}
            options |= self._options((*path, side), more, keys.SIDE_KEYS[kind, side], ("cluster",))
            sides[side] = self._side(path, side, there, around.clusters)
        source = sides["from"] or ""
        target = sides["to"] or source
        if not target and kind == keys.REPLAY:
            raise self._wrong((*path, "to"), "to names no cluster: [cluster.NAME]")
        auto = table.get("auto", kind not in (keys.REPLAY, keys.VERIFY))
        if not isinstance(auto, bool):
            raise self._wrong((*path, "auto"), f"auto={auto!r} is neither true nor false")
        if kind in keys.QUERIES:
            both = source, target
            query = self._at(path, lambda: query_options(name, kind, options, both, around))
            return Flow(name, kind, auto, source, target, query, self._trial(path, table))
        if "test" in table:
            which = " and ".join(keys.QUERIES)
            raise self._wrong((*path, "test"), f"only flows of the kinds {which} have a test")
        made = self._at(path, lambda: _made(kind, f"{around.name}-{name}", options, around))
        return Flow(name, kind, auto, source, target, made)

    def _trial(self, path: tuple[str, ...], table: Table) -> Trial | None:
        if "test" not in table:
            return None
        path = (*path, "test")
        given = self._options(path, self._table(path, table["test"]), keys.TEST, ())
        return self._at(path, lambda: Trial(**given))

    def _side(
        self,
        path: tuple[str, ...],
        side: str,
        table: Table,
        clusters: Iterable[str],
    ) -> str | None:
        name = table.get("cluster")
        known = list(clusters)
        if name is None and (
            side == "to"
            or any(key in table for key in keys.TABLES)
            or "flow" in self._document["flow"][path[1]].get("to", {})
        ):
            return None
        if name not in known:
            hint = nearest_hint(str(name), known)
            what = f"cluster={name!r} is not declared" if name else f"{side} names no cluster"
            raise self._wrong((*path, side, "cluster"), f"{what}: [cluster.NAME].{hint}")
        return str(name)

    def _check_flow(self, flow: Flow, flows: Mapping[str, Flow]) -> None:
        if not isinstance(flow.options, Compared) or flow.options.flow is None:
            return
        other = flows.get(flow.options.flow)
        if other is None or other.kind != keys.COPY:
            hint = nearest_hint(flow.options.flow, [one for one in flows if one != flow.name])
            raise self._wrong(
                ("flow", flow.name, "to", "flow"),
                f'"{flow.options.flow}" is no flow of the kind copy.{hint}',
            )

    def _options(
        self,
        path: tuple[str, ...],
        table: Table,
        known: keys.Keys,
        others: Iterable[str],
    ) -> Table:
        self._known(path, table, [*known, *others])
        found: Table = {}
        for key, value in table.items():
            option, read, inner, is_table = known[key]
            here = (*path, key)
            if inner is not None and (is_table or isinstance(value, dict)):
                found[option] = self._options(here, self._table(here, value), inner, ())
            else:
                found[option] = self._at(here, partial(read, value))
        return found

    # -- where -------------------------------------------------------------------------------------

    def _tables(self, name: str) -> Table:
        return self._table((name,), self._document.get(name, {}))

    def _table(self, path: tuple[str, ...], value: object) -> Table:
        if not isinstance(value, dict):
            what = "is missing" if value is None else "is no table"
            raise self._wrong(path, f"[{'.'.join(path)}] {what}")
        return value

    def _known(self, path: tuple[str, ...], table: Iterable[str], known: Iterable[str]) -> None:
        for key in table:
            if key not in known:
                raise self._unknown((*path, key), key, known)

    def _unknown(self, path: tuple[str, ...], key: str, known: Iterable[str]) -> ConfigError:
        where = f"[{'.'.join(path[:-1])}]" if path[:-1] else "the file"
        return self._wrong(path, f'{where} has no key "{key}".{nearest_hint(key, known)}')

    def _not_dotted(self, path: tuple[str, ...], value: object) -> None:
        """Raise ConfigError for a name with dots that TOML has made tables of."""
        names = [path[-1]]
        while isinstance(value, dict) and value:
            name, value = next(iter(value.items()))
            names.append(name)
        if len(names) > 1:
            raise self._wrong(
                path,
                f'"{names[0]}" is a table here: put the whole name in quotes, "{".".join(names)}"',
            )

    def _at(self, path: tuple[str, ...], work: Callable[[], T]) -> T:
        try:
            return work()
        except ConfigError as error:
            raise self._wrong(path, str(error)) from None

    def _wrong(self, path: tuple[str, ...], what: str) -> ConfigError:
        return ConfigError(f"{self._place(path)}: {what}")

    def _place(self, path: tuple[str, ...]) -> str:
        return f"{self._path}, line {line_of(self._text, path)}"


def _made(
    kind: str, name: str, options: Table, around: Surroundings
) -> ReplicationOptions | ReplayOptions | Compared:
    if kind == keys.COPY:
        topics = options.pop("topics", ())
        if isinstance(topics, str):
            return ReplicationOptions(name=name, topics_pattern=topics, **options)
        return ReplicationOptions(name=name, topics=topics, **options)
    if kind == keys.REPLAY:
        return replay_options(name, options, around)
    topics, other, flow = (options.pop(key, None) for key in ("topics", "other", "flow"))
    if (flow is None) == (topics is None):
        raise ConfigError(
            'give from = { topics = [...] }, or to = { flow = "..." } that copies them'
        )
    named = _list("topics", topics) if topics is not None else []
    others = _list("topics", other) if other is not None else named
    if len(named) != len(others):
        raise ConfigError(f"from has {len(named)} topics and to {len(others)}: give as many")
    return Compared(dict(zip(named, others, strict=True)), VerifyOptions(**options), flow)


def _list(name: str, value: object) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise ConfigError(f"{name}={value!r} are no names of topics")
    return found
