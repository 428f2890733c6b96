"""What has come out so far: references, verdicts, results.json as it grows."""
