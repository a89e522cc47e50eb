"""People, pages, sockets, database and queues: Django, Channels, Celery."""
