"""Search over conversations: its index, its query language, and readers' notes."""
