"""What runs have come to: statistics, figures and the page of a report."""
