"""Loads rows: from the Hub, JSON, JSON lines, CSV, Parquet and Arrow files, or
inline."""
