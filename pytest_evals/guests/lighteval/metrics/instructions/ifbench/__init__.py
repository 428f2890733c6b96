"""Checks for IFBench's 58 instructions."""
