"""Groups, as their coordinators know them: committed offsets."""
