"""Groups, as their coordinators know them: committed offsets.

Map: `offsets` are the committed ones.
"""
