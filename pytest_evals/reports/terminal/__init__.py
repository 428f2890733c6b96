"""Terminal reports: summary, comparison, plan, repeatability."""
