"""HTTP API for programs, with token authentication and an OpenAPI description."""
