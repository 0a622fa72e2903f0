"""Changes of the cluster: topics.

Map: `topics` creates and deletes them, through the controller.
"""
