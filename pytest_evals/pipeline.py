"""The flow on one page, without pytest: ask, answer, score, summarise, judge."""
