"""What is brought in from outside once every app is ready: plug-ins and the metrics of `metrics.yaml`."""
