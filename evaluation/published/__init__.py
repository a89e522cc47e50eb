"""Published correlations of metrics of single replies with people: two files of facts, and their reader."""
