"""Training of dialogue models: from a YAML config to a checkpoint.

    from chatbots.training.config import config_load
    from chatbots.training.loop import train

    result = train(config_load("hred.yaml", data="corpora"), "runs/hred")
    print(result.best["perplexity"])

The modules in the order of the work: `config` (parameters, validated before anything starts), `data` (corpora
to windows), `ei` (EI targets, cached), `initialisation`, `loop` over `engine` (the training itself), `run_folder`
(resuming, JSON Lines, TensorBoard), `held_out` (perplexity, KL, embedding metrics, Table 3), `shipping` (the demo
models).
"""
