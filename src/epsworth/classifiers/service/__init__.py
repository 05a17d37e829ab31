"""A service as a classifier: asked over HTTP, by the Open Inference Protocol, version 2.

``client``     `remote`: the address of a model -> a Classifier; what is known is not asked again
``cache``      answers by the exact bytes of a record, in memory or in a file
``layout``     which tensors the service takes, and records written as such
``protocol``   requests and replies: JSON and binary tensors, checked
``transport``  HTTP: time-outs, limits, retries
"""

from epsworth.classifiers.service.client import Service, remote

__all__ = ["Service", "remote"]
