"""The model kind ``ray``: replicas of a model on a Ray cluster.

- ``kind``, ``settings``: the kind and its arguments; both without Ray
- ``model``, ``pool``, ``scheduler``: the model, its replicas, and their work
- ``cluster``, ``replica``: the cluster, and the process of one replica
"""
