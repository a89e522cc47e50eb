"""Redaction of personal data before publication: rules, a person's decisions, and their application to exports."""
