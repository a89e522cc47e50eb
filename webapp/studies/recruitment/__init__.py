"""Recruitment of participants: settings, links, the funnel, and completion for pay."""
