"""A declared pipeline as users have it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from parley.errors import ConfigError, KafkaError, nearest_hint
from parley.pipelines.blocking import AsyncJob
from parley.pipelines.declared import keys
from parley.pipelines.declared.declaration import Declaration, Flow
from parley.pipelines.declared.flows import (
    Coming,
    FlowStatus,
    PlannedChange,
    Running,
    VerifyFlow,
    flow_at_work,
)
from parley.pipelines.declared.reading import read
from parley.pipelines.declared.state import DONE, DRAINED, FAILED, RUNNING, SPARK_LOG, State
from parley.pipelines.declared.trials import TrialResult
from parley.pipelines.queries import SharedSession
from parley.pipelines.verify import Verification
from parley.types import Names, texts

LOOK_S, NOTE_S = 0.2, 5.0


class AsyncPipeline(AsyncJob):
    """What a file declares, for one event loop.

    >>> async def work() -> None:
    ...     async with AsyncPipeline.from_file("orders.toml") as pipeline:
    ...         for change in await pipeline.plan():
    ...             print(change.flow, change.topic, change.what)
    ...         await pipeline.run()

    Flows are named, or those meant that are `auto`: of the kinds `copy`, `ingest` and `sql`, unless
    the file says otherwise.
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self._state = State(declaration.state)
        self._session = SharedSession(
            declaration.name, declaration.spark, declaration.state / SPARK_LOG
        )
        self._running: dict[str, Running] = {}
        self._ended: set[str] = set()
        self._stopping = False

    @classmethod
    def from_file(cls, path: str | Path) -> AsyncPipeline:
        """Return the pipeline of a TOML file.

        Raises ConfigError for what is wrong, with the file, the line and the nearest known key.
        """
        return cls(read(path))

    async def close(self) -> None:
        """End what runs, and close all clients, and Spark where it was started here. Idempotent."""
        self.stop()
        running, self._running = self._running, {}
        for one in running.values():
            await one.close()
        await asyncio.to_thread(self._session.close)

    # -- verbs -------------------------------------------------------------------------------------

    async def plan(self, flows: Names | None = None) -> list[PlannedChange]:
        """Return what flows would create, read and compare, and what is in the way. Changes
        nothing.
        """
        chosen = self._chosen(flows)
        coming: Coming = {}
        found = {}
        for name in self._in_order(chosen):
            with _named(name):
                found[name] = await self._flow(name).plan(coming)
        return [change for name in chosen for change in found[name]]

    async def run(self, flows: Names | None = None) -> None:
        """Run flows side by side: to their ends, until `stop` or until somebody drains the
        pipeline.

        What copies and queries create is there before any flow begins, for others may read it.
        Raises AlreadyRunningError where another process runs it; and what a flow raises, when the
        others have ended in order. What is begun again goes on where it was.
        """
        chosen = self._chosen(flows)
        with self._state.locked():
            at_work = {name: self._flow(name) for name in chosen}
            await self._prepare(at_work)
            tasks = {
                name: asyncio.ensure_future(self._run(name, one)) for name, one in at_work.items()
            }
            watching = asyncio.ensure_future(self._watch(at_work))
            try:
                await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
                for one in at_work.values():
                    one.stop()
                await asyncio.gather(*tasks.values(), return_exceptions=True)
            finally:
                for task in (watching, *tasks.values()):
                    task.cancel()
                await asyncio.gather(watching, *tasks.values(), return_exceptions=True)
        for task in tasks.values():
            task.result()

    def stop(self) -> None:
        """Let `run` return when all flows have ended in order. For handlers of signals, too."""
        self._stopping = True
        for one in self._running.values():
            one.stop()

    def drain(self) -> bool:
        """Ask the run that is under way, in whatever process, to end in order; return whether there
        is one.
        """
        return self._state.ask_to_drain()

    def records(self) -> dict[str, int]:
        """Return the records that each flow has done with in this process."""
        return {
            name: self._running[name].records if name in self._running else 0
            for name in self.declaration.flows
        }

    async def status(self) -> list[FlowStatus]:
        """Return how far each flow is. Disturbs no run, and raises nothing of what a flow's
        clusters say: that is in `error`.
        """
        is_running = self._state.is_running()
        found = []
        for name, flow in self.declaration.flows.items():
            noted = self._state.noted(name)
            state = noted.state
            if state == RUNNING and not is_running:
                state = FAILED  # it was killed
            lag, error = None, None
            try:
                lag = await self._flow(name).lag()
            except KafkaError as raised:
                error = raised
            found.append(FlowStatus(name, flow.kind, state, lag, noted.records, error))
        return found

    async def verify(self, flows: Names | None = None) -> dict[str, Verification]:
        """Run the flows that compare, named or all; return what each has found."""
        names = texts("flows", flows, "flows") if flows is not None else ()
        wanted = names or tuple(
            name for name, flow in self.declaration.flows.items() if flow.kind == keys.VERIFY
        )
        if not wanted:
            raise ConfigError(f'{self.declaration.path} has no flow with kind = "{keys.VERIFY}"')
        found: dict[str, Verification] = {}
        for name in self._chosen(wanted):
            one = self._flow(name)
            if not isinstance(one, VerifyFlow):
                raise ConfigError(f'"{name}" compares nothing: its kind is not "{keys.VERIFY}"')
            await one.run()
            if one.found is not None:
                found[name] = one.found
        return found

    async def test(self, flows: Names | None = None) -> list[TrialResult]:
        """Run the tests of flows, named or all that have any: the records that are given are
        written to embedded brokers, the flow reads them, and what it writes is compared.

        Raises ConfigError where there is no test. No cluster of the file is asked.
        """
        from parley.pipelines.declared.testing import run_trial

        known = self.declaration.flows
        tested = tuple(name for name, flow in known.items() if flow.trial is not None)
        names = self._chosen(flows) if flows else tested
        if not names:
            raise ConfigError(f"{self.declaration.path} has no [flow.NAME.test]")
        return [await run_trial(self.declaration, name, self._session) for name in names]

    def different(self) -> list[str]:
        """Return the flows of this run that compared, and found a difference."""
        return [
            name
            for name, one in self._running.items()
            if isinstance(one, VerifyFlow) and one.found is not None and not one.found.equal
        ]

    # -- inside ------------------------------------------------------------------------------------

    def _chosen(self, flows: Names | None) -> Sequence[str]:
        known: Mapping[str, Flow] = self.declaration.flows
        names = texts("flows", flows, "flows") if flows is not None else ()
        for name in names:
            if name not in known:
                raise ConfigError(
                    f'{self.declaration.path} has no flow "{name}".{nearest_hint(name, known)}'
                )
        chosen = names or tuple(name for name, flow in known.items() if flow.auto)
        if not chosen:
            raise ConfigError(
                f"no flow of {self.declaration.path} runs by itself: name those that should, of "
                f"{', '.join(known)}"
            )
        return chosen

    def _in_order(self, flows: Iterable[str]) -> list[str]:
        """Return flows as they are planned and prepared: copies first, whose topics others read,
        the others as they stand in the file.
        """
        at = list(self.declaration.flows)
        kinds = {name: flow.kind for name, flow in self.declaration.flows.items()}
        return sorted(flows, key=lambda name: (kinds[name] != keys.COPY, at.index(name)))

    async def _prepare(self, at_work: Mapping[str, Running]) -> None:
        """Let flows create the topics that other flows read, before any of those begins."""
        for name in self._in_order(at_work):
            if self._stopping:
                return
            try:
                with _named(name):
                    await at_work[name].prepare()
            except BaseException:
                self._state.note(name, FAILED, 0)
                raise

    def _flow(self, name: str) -> Running:
        if name not in self._running:
            flows = self.declaration.flows
            self._running[name] = flow_at_work(
                flows[name], self.declaration.clusters, flows, self._session
            )
        return self._running[name]

    async def _run(self, name: str, one: Running) -> None:
        """Run a flow, and write down how it ended."""
        state = FAILED
        try:
            if not self._stopping:
                with _named(name):
                    await one.run()
            state = DRAINED if self._stopping else DONE
        finally:
            self._ended.add(name)
            self._state.note(name, state, one.records)

    async def _watch(self, at_work: Mapping[str, Running]) -> None:
        """Look whether the pipeline is to be drained, and write down how far flows are."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if self._state.is_asked_to_drain() and not self._stopping:
                self.stop()
            if loop.time() >= due:
                due = loop.time() + NOTE_S
                for name in at_work.keys() - self._ended:
                    self._state.note(name, RUNNING, at_work[name].records)
            await asyncio.sleep(LOOK_S)


@contextmanager
def _named(flow: str) -> Iterator[None]:
    """Say of which flow an error is."""
    try:
        yield
    except KafkaError as error:
        error.add_note(f'this is of the flow "{flow}"')
        raise
