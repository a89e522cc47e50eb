"""Training of learned metrics: `manage.py train_metric CONFIG.yaml`, from a corpus to a checkpoint that is a metric.

    result = train(config_load("grade.yaml", data="corpora"), "metrics/grade")
    print(result.to_json())        # {"checkpoint", "epochs", "best": {"validation_loss", "step", …}}

A learned metric is three things, each in a file of its own:

1. `evaluation/models/<name>.py`: the network, a `torch.nn.Module` with `loss(batch) -> ExampleLoss`. A batch is
   whatever its examples yield; the network moves it to its own device. Only parameters with `requires_grad` are
   stored.
2. `evaluation/training/metrics/<name>.py`: a `LearnedMetric` (`contract.py`) under `@register_learned`, which makes
   of a checked config (`config.py`; its own keys stand under `options`, read by `options_type`) and of split
   dialogues (`contract.py`) the examples (`Prepared`: train, validation, maybe test, a digest, and files that scoring
   needs), and of both the network. `backbone.py` gives the encoder the config names: frozen, with adapters (LoRA of
   `peft`), or learning whole.
3. `evaluation/metrics/<name>.py`: a `TrainedMetric` (`evaluation/metrics/trained.py`) under `@register_metric`, of the
   same name, whose `score` asks the network that `self.restored(device)` gives.

The loop (`loop.py`) is that of dialogue models (`chatbots/training/engine.py`): resuming to the bit, `log.jsonl` and
TensorBoard, early stopping, lowest validation loss kept in `best/`. What is decided while it learns (relabelled
examples, say) happens in `Prepared.train.begin_epoch(network, epoch)` and goes on after a kill by `remember` and
`recall`. Several stages are several configs: `start` names a finished training next to this one whose weights are
taken over.

A checkpoint (`checkpoint.py`) is a folder: `manifest.json`, `model.safetensors`, and the files of `Prepared.files`.
Every folder `metrics/<name>/best` of the data folder is a metric `<name>` (hyphens become underscores) in lists, runs
and `evaluate_metrics`; any other is named in `metrics.yaml` (`kind: grade, params: {checkpoint: FOLDER}`).
"""
