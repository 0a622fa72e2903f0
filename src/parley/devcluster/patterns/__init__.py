"""Regular expressions that brokers match for clients: RE2's syntax, whole texts, in linear time.

Kafka matches them with RE2/J (KIP-848, KIP-1152), because whoever may ask may choose the pattern.
Python's `re` goes back and tries again, for hours where the pattern wants it.

    syntax.py     a pattern's text → a tree, or PatternError
    program.py    the tree → instructions, bounded in number
    automaton.py  instructions and a text → whether it matches; every state at once, character by
    character

Map: `syntax` and `chars` read a pattern, `program` compiles it, `automaton` runs it.
"""

from parley.devcluster.patterns.automaton import Pattern
from parley.devcluster.patterns.syntax import PatternError

__all__ = ["Pattern", "PatternError"]
