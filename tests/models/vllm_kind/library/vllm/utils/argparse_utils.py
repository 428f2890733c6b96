"""``vllm.utils.argparse_utils``."""

from argparse import ArgumentParser


class FlexibleArgumentParser(ArgumentParser):
    """The parser of the standard library."""
