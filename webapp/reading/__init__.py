"""Reading what was said: the index over conversations, the line that asks for some of them, and what readers note."""
