"""What is on disk of a cluster besides its logs: the journal, and whether all was closed in order.

Rules of this file:
1. Entries are kept all or none; where the disk takes none, the caller changes nothing.
2. Images are different: leaders and in-sync sets must change even on a full disk. They are
   journaled as far as possible, and after a restart every epoch rises above what the logs have
   seen.
3. Without a directory nothing is kept, and nothing fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from parley.devcluster.state.groups.share.registry import ShareGroups
from parley.devcluster.state.image import ClusterImage
from parley.devcluster.state.journal import Entry, Journal
from parley.devcluster.state.log.bytestore import (
    FileStores,
    MemoryStores,
    StoreFactory,
    make_private,
)
from parley.devcluster.state.log.replica import ReplicaKey
from parley.devcluster.state.persistence import Restored, image_entries, restore
from parley.types import format_uuid

JOURNAL = "cluster.journal"
# present only while nothing runs on the directory and all logs were closed
CLEAN_STOP = "clean-stop"

Snapshot = Callable[[ClusterImage], Iterable[Entry]]
"""Returns the shortest journal that says everything, with an image."""


class Keeper:
    """The data directory of one cluster, if it has one. `snapshot` begins a new journal."""

    def __init__(self, directory: Path | None, snapshot: Snapshot) -> None:
        self._directory = directory
        self._snapshot = snapshot
        self.journal: Journal | None = None
        self.is_clean = False
        """Whether the logs need no check: the last life ended in order."""
        self._checked: set[str] = set()  # directories of brokers whose logs this life has opened
        self._unwritten: list[Entry] = []
        self._journaled: ClusterImage | None = None

    def restore(self, share_groups: ShareGroups) -> Restored:
        """Return what an earlier life left. Raises ConfigError."""
        if self._directory is None:
            return Restored()
        make_private(self._directory)
        self._directory.chmod(0o700)
        self.journal = Journal(self._directory / JOURNAL)
        found = restore(self.journal.read(), share_groups)
        self.is_clean = (self._directory / CLEAN_STOP).exists()
        (self._directory / CLEAN_STOP).unlink(missing_ok=True)
        return found

    def begin(self, image: ClusterImage) -> None:
        """Keep from now on what follows this image, which is in force."""
        self._journaled = image
        if self.journal is not None and self._directory is not None:
            self.journal.begin(self._snapshot(image))
            self._remove_strays(self._directory, image)

    @staticmethod
    def _remove_strays(directory: Path, image: ClusterImage) -> None:
        """Remove the logs of topics that were deleted while their broker was stopped."""
        known = {format_uuid(topic.topic_id) for topic in image.topics.values()}
        for place in directory.glob("broker-*/*/*.*"):
            if place.is_dir() and place.name.partition(".")[0] not in known:
                FileStores(place).delete()

    # -- entries -------------------------------------------------------------------------------

    def keep(self, *entries: Entry) -> None:
        """Journal entries, all or none. Raises OSError when the disk refuses."""
        if self.journal is not None:
            if self.journal.is_long and self._journaled is not None:
                with suppress(OSError):  # the long one is as good
                    self.journal.begin(self._snapshot(self._journaled))
            self.journal.append(*self._unwritten, *entries)
            self._unwritten.clear()

    def keep_new(self, image: ClusterImage) -> None:
        """Journal an image. Raises OSError when the disk refuses: nothing is kept then."""
        self.keep(*self._entries(image))
        self._journaled = image

    def follow(self, image: ClusterImage) -> None:
        """Journal an image, now or with the next entry that the disk takes (rule 2)."""
        if image is self._journaled:
            return
        entries = self._entries(image)
        self._journaled = image
        if self.journal is None or not entries:
            return
        try:
            self.keep(*entries)
        except OSError:
            self._unwritten += entries

    def _entries(self, image: ClusterImage) -> Sequence[Entry]:
        return () if self._journaled is None else list(image_entries(self._journaled, image))

    # -- logs ----------------------------------------------------------------------------------

    def directory_of(self, broker_id: int) -> Path | None:
        """Return where a broker's logs lie, None when they are in memory."""
        return None if self._directory is None else self._directory / f"broker-{broker_id}"

    def stores(self, broker_id: int, topic: str, key: ReplicaKey) -> StoreFactory:
        """Return where the segments of a broker's replica lie."""
        directory = self.directory_of(broker_id)
        if directory is None:
            return MemoryStores()
        return FileStores(directory / topic / f"{format_uuid(key.topic_id)}.{key.partition}")

    def opened(self, broker_id: int) -> None:
        """Note that the logs of a broker were opened, and so checked."""
        self._checked.add(f"broker-{broker_id}")

    def close(self) -> None:
        """Stop for good, the logs closed already: the next start need not check them.

        It must where an earlier life ended unclean and this one did not open the logs of every
        broker.
        """
        if self.journal is not None and self._directory is not None:
            self.journal.close(sync=True)
            if self.is_clean or self._checked.issuperset(
                place.name for place in self._directory.glob("broker-*")
            ):
                (self._directory / CLEAN_STOP).touch(mode=0o600)
