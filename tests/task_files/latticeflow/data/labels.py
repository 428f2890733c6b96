def compute_scores(sample):
    at = sample["level"] - 1
    return {"gt": "aabc"[at], "pred": "abbb"[at], "level": sample["level"]}
