"""Training of the dialogue models: from a YAML config to a checkpoint with its figures.

    from chatbots.training.config import config_load
    from chatbots.training.loop import train

    result = train(config_load("hred.yaml", data="corpora"), "runs/hred")
    print(result.best["perplexity"])

The modules in the order of the work: `config` (what is asked, checked before anything starts), `data` (corpora
to windows), `targets` (EI targets, cached), `loop` (the training itself), `state` (resuming), `logs` (JSON Lines,
TensorBoard), `held_out` (perplexity, KL, embedding metrics, Table 3), `shipping` (the demo models).
"""
