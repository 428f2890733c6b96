"""Corpus metrics: metrics computed over all documents."""
