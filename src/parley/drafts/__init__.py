"""The discovery designs that KIP-35 weighed, on one wire: its draft, its options, its sub-proposal.

Nothing outside this package uses them. `dialects` teaches the embedded cluster to speak them,
`strategies` are the client's side, `compare` runs one against the other and counts.

Map: `strategies` are ways to learn what a broker speaks and `compare` counts what each costs;
`dialects` are brokers that speak drafts, in `messages` of their own; `numbering` is option 3's
number. `global_order` is KIP-232's first draft.
"""

from parley.drafts.compare import Cost, ask, compare, shared_apis
from parley.drafts.dialects import DocumentedDialect, DraftDialect, EmptyAnswerDialect
from parley.drafts.strategies import STRATEGIES, Outcome, Strategy

__all__ = [
    "STRATEGIES",
    "Cost",
    "DocumentedDialect",
    "DraftDialect",
    "EmptyAnswerDialect",
    "Outcome",
    "Strategy",
    "ask",
    "compare",
    "shared_apis",
]
