"""Encoders: models that return the embedding of a text"""
