"""Front end for participants: entry, chat and its socket, rating, done."""
