"""The commands of pipelines that are declared in a file.

Map: `plan`, `run`, `status` and `drain` are the commands, `verifying` is `parley verify FILE`;
`arguments` is what they share.
"""
