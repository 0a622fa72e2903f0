"""What a client, its reads, its writes and its calls may be given: declared once, checked before use."""
