"""What makes a broker speak as its release: ranges, behaviours, settings."""
