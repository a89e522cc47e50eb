"""Studies, rubrics, participants and assignments; one file per study protocol."""
