"""The commands of pipelines that are declared in a file.

Map: `plan`, `run`, `status` and `drain` are the commands, `verifying` is `parley verify FILE`,
`trying` is `parley test`; `arguments` is what they share.
"""
