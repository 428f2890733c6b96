"""What a terminal shows, in lines that fit it: summary, comparison, plan, noise."""
