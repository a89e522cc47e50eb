"""Studies, rubrics, participants and tasks; one file per study protocol."""
