"""Shared code of all apps: base model, errors, health check, page skeleton."""
