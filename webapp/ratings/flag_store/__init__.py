"""Tables of flags: the Django app with the label `quality`."""
