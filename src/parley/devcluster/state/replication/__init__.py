"""Leaders and followers inside one process, and the links between them."""
