"""The words of the house: records that flow, without input or output. Standard library
only."""
