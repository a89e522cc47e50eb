"""Training of learned metrics, from a corpus to a checkpoint.

The command is `manage.py train_metric CONFIG.yaml`; the Python interface:

    result = train(config_load("grade.yaml", data="corpora"), "metrics/grade")
    print(result.to_json())        # {"checkpoint", "epochs", "best": {"validation_loss", "step", …}}

A learned metric consists of three files:

1. `evaluation/models/<name>.py`: the network, a `torch.nn.Module` with `loss(batch) -> ExampleLoss`. The examples
   define the form of a batch; the network moves it to its own device. Only parameters with `requires_grad` are stored.
2. `evaluation/training/metrics/<name>.py`: a `LearnedMetric` (`contract.py`) under `@register_learned`. It makes the
   examples (`Prepared`: train, validation, optionally test, a digest, and files for scoring) from a validated config
   (`config.py`; the metric's own keys are under `options`, parsed by `options_type`) and split dialogues
   (`contract.py`), and the network from config and examples. `backbone.py` loads the encoder named in the config:
   frozen, with adapters (LoRA of `peft`), or fully trained.
3. `evaluation/metrics/<name>.py`: a `TrainedMetric` (`evaluation/metrics/trained.py`) of the same name under
   `@register_metric`, whose `score` runs the network returned by `self.restored(device)`.

The loop (`loop.py`) is shared with dialogue models (`chatbots/training/engine.py`): bit-exact resuming, `log.jsonl` and
TensorBoard, early stopping, the lowest validation loss kept in `best/`. Decisions during training, such as relabelling
examples, belong in `Prepared.train.begin_epoch(network, epoch)`; `remember` and `recall` preserve them across restarts.
Each stage of a training has its own config: `start` names a finished training in the same folder to take weights from.

A checkpoint (`checkpoint.py`) is a folder: `manifest.json`, `model.safetensors`, and the files of `Prepared.files`.
Every folder `metrics/<name>/best` of the data folder is a metric `<name>` (hyphens become underscores) in lists, runs
and `evaluate_metrics`; other folders are configured in `metrics.yaml` (`kind: grade, params: {checkpoint: FOLDER}`).
"""
