"""``vllm.engine.arg_utils``."""


class EngineArgs:
    """No arguments."""

    @staticmethod
    def add_cli_args(parser):
        """Return the parser as it is."""
        return parser
