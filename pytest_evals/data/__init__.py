"""Read rows: the Hub, JSON, JSON lines, CSV, Parquet and Arrow files, inline rows."""
