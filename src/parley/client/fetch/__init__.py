"""Reading: positions that know their history, and sessions that fetch what they point at."""
