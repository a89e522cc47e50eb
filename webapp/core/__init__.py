"""What every app uses: base model, errors, health check, page skeleton."""
