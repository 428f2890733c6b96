"""Metrics of instructions that an answer follows: IFEval and IFBench."""
