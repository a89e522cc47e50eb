"""Language models as judges, compared with human raters."""
