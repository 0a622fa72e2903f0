"""What settings are for, in parley's own words: DescribeConfigs v3+ returns it to whoever asks.

Settings that are not listed are known by name, type and default only, and have no effect here.
"""

from __future__ import annotations

_TOPIC_TEXTS = {
    "cleanup.policy": "What becomes of old segments: they are deleted, or compacted to the newest "
    "record "
    "of "
    "each key.",
    "compression.gzip.level": "The level at which gzip compresses.",
    "compression.lz4.level": "The level at which lz4 compresses.",
    "compression.type": "The codec that batches are stored in; producer keeps the one they came "
    "in.",
    "compression.zstd.level": "The level at which zstd compresses.",
    "delete.retention.ms": "How long a compacted topic keeps the markers of deleted keys.",
    "file.delete.delay.ms": "How long a file stays after its segment was deleted.",
    "flush.messages": "After how many records the log is forced to the disk.",
    "flush.ms": "After how long the log is forced to the disk.",
    "follower.replication.throttled.replicas": "Followers whose replication is throttled: "
    "partition:broker, "
    "or "
    "*.",
    "index.interval.bytes": "How many bytes of records lie between two entries of the offset "
    "index.",
    "leader.replication.throttled.replicas": "Leaders whose replication is throttled: "
    "partition:broker, "
    "or "
    "*.",
    "local.retention.bytes": "How many bytes stay on the broker beside remote storage; -2 is "
    "retention.bytes.",
    "local.retention.ms": "How long records stay on the broker beside remote storage; -2 is "
    "retention.ms.",
    "max.compaction.lag.ms": "After how long at the latest a record may be compacted.",
    "max.message.bytes": "The largest record batch that is accepted, as it is stored.",
    "message.downconversion.enable": "Whether records are converted for consumers that know only "
    "older "
    "formats.",
    "message.format.version": "The release whose record format is stored.",
    "message.timestamp.after.max.ms": "How far ahead of the broker's clock a record's timestamp "
    "may "
    "lie.",
    "message.timestamp.before.max.ms": "How far behind the broker's clock a record's timestamp may "
    "lie.",
    "message.timestamp.difference.max.ms": "How far from the broker's clock a record's timestamp "
    "may "
    "lie.",
    "message.timestamp.type": "Whose timestamp is kept: the producer's (CreateTime) or the "
    "broker's "
    "(LogAppendTime).",
    "min.cleanable.dirty.ratio": "Which part of a log must be uncompacted before it is compacted "
    "again.",
    "min.compaction.lag.ms": "How long a record stays uncompacted at least.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be "
    "accepted.",
    "preallocate": "Whether a segment's file gets its full size at once.",
    "remote.log.copy.disable": "Whether segments are no longer copied to remote storage.",
    "remote.log.delete.on.disable": "Whether remote segments go when remote storage is switched "
    "off.",
    "remote.storage.enable": "Whether old segments go to remote storage.",
    "retention.bytes": "How large a partition may grow before its oldest segments are deleted; -1 "
    "is "
    "without "
    "limit.",
    "retention.ms": "How long records are kept; -1 is forever.",
    "segment.bytes": "The size at which a new segment is begun.",
    "segment.index.bytes": "The size of a segment's offset index.",
    "segment.jitter.ms": "The random part of segment.ms, so that segments are not begun all at "
    "once.",
    "segment.ms": "After how long a new segment is begun even if the old one is not full.",
    "unclean.leader.election.enable": "Whether a replica out of sync may lead at need: records can "
    "be "
    "lost.",
}

_BROKER_TEXTS = {
    "advertised.listeners": "The addresses that clients are given.",
    "auto.create.topics.enable": "Whether asking for a topic that does not exist creates it.",
    "broker.id": "The number of this broker.",
    "default.replication.factor": "How many replicas a topic has when its creator does not say.",
    "listeners": "The addresses at which the broker listens.",
    "log.cleanup.policy": _TOPIC_TEXTS["cleanup.policy"],
    "log.dirs": "Where the logs lie.",
    "log.message.timestamp.type": _TOPIC_TEXTS["message.timestamp.type"],
    "log.segment.bytes": _TOPIC_TEXTS["segment.bytes"],
    "message.max.bytes": _TOPIC_TEXTS["max.message.bytes"],
    "node.id": "The number of this broker.",
    "num.partitions": "How many partitions a topic has when its creator does not say.",
}

CONFIG_TEXTS = {**_TOPIC_TEXTS, **_BROKER_TEXTS}
"""What a setting is for, by name."""
