"""IFBench: 58 instructions, of which an answer follows each or not."""
