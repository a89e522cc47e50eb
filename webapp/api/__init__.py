"""The front end for programs: HTTP with tokens, described by OpenAPI."""
