"""Instruction following: IFEval and IFBench."""
