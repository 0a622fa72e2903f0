"""What a user gives to the data source: read, checked, and typed."""
