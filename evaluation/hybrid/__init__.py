"""The hybrid metric: design matrix, leave-bot-out fit, results."""
