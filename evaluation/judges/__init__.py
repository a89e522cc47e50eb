"""Language models as judges, compared with the people whose ratings they would replace."""
