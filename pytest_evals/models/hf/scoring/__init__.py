"""Log-likelihood scoring: shared prefixes are computed once."""
