"""The controller of pytest-xdist: assignment of documents, reports of gates."""
