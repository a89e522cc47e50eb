"""The models once more, in NumPy and double precision, one conversation and one word at a time.

Written from the published equations (Serban et al. 2016, 2017; Park et al. 2018; Luong et al. 2015), with loops
instead of batches, masks and packing. They read the weights of the models under test by name.
"""

import numpy as np

SOS, EOS = 2, 3


class Weights:
    """A state dict as NumPy arrays; `w["decoder.project"]` is (weight, bias)."""

    def __init__(self, model) -> None:
        self.arrays = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        bias = self.arrays.get(f"{name}.bias", 0.0)
        return self.arrays[f"{name}.weight"] @ x + bias

    def gru(self, name: str, x: np.ndarray, h: np.ndarray, suffix: str = "l0") -> np.ndarray:
        """Make one step: r, z, n; h' = (1 − z) n + z h (Cho et al. 2014, PyTorch's form)."""
        a = self.arrays[f"{name}.weight_ih_{suffix}"] @ x + self.arrays[f"{name}.bias_ih_{suffix}"]
        b = self.arrays[f"{name}.weight_hh_{suffix}"] @ h + self.arrays[f"{name}.bias_hh_{suffix}"]
        H = len(h)
        r = sigmoid(a[:H] + b[:H])
        z = sigmoid(a[H : 2 * H] + b[H : 2 * H])
        n = np.tanh(a[2 * H :] + r * b[2 * H :])
        return (1 - z) * n + z * h

    def both_ways(self, name: str, xs: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Run a bidirectional GRU: [forward last; backward last], and [forward; backward] at each place."""
        H = self.arrays[f"{name}.weight_hh_l0"].shape[1]
        ahead, back = [np.zeros(H)], [np.zeros(H)]
        for x in xs:
            ahead.append(self.gru(name, x, ahead[-1]))
        for x in reversed(xs):
            back.append(self.gru(name, x, back[-1], "l0_reverse"))
        places = [np.concatenate([f, b]) for f, b in zip(ahead[1:], reversed(back[1:]), strict=True)]
        return np.concatenate([ahead[-1], back[-1]]), places


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def log_softmax(x):
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def kl_normal(m_q, v_q, m_p, v_p) -> float:
    return 0.5 * float(np.sum(np.log(v_p / v_q) + (v_q + (m_q - m_p) ** 2) / v_p - 1))


def log_normal(z, mean, variance) -> float:
    return float(np.sum(-0.5 * np.log(2 * np.pi * variance) - (z - mean) ** 2 / (2 * variance)))


def encode(w: Weights, utterance: list[int]) -> np.ndarray:
    embedding = w.arrays["encoder.embedding.weight"]
    return w.both_ways("encoder.rnn", [embedding[i] for i in utterance])[0]


def contexts(w: Weights, read: list[np.ndarray], start: np.ndarray | None = None) -> list:
    C = w.arrays["context.rnn.weight_hh_l0"].shape[1]
    states = [np.zeros(C) if start is None else start]
    for x in read:
        states.append(w.gru("context.rnn", x, states[-1]))
    return states  # states[t + 1] has read utterance t


def decoder_logits(w: Weights, first: np.ndarray, utterance: list[int]) -> list[np.ndarray]:
    """Return the logits of each token of `utterance`."""
    embedding = w.arrays["encoder.embedding.weight"]
    h = np.tanh(w.linear("decoder.start.0", first))
    logits = []
    for previous in [SOS, *utterance[:-1]]:
        h = w.gru("decoder.rnn", embedding[previous], h)
        logits.append(w.linear("decoder.project", h))
    return logits


def said(logits: list[np.ndarray], utterance: list[int]) -> float:
    return -sum(log_softmax(row)[token] for row, token in zip(logits, utterance, strict=True))


def gaussian(w: Weights, name: str, *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    g = np.concatenate(inputs)
    layer = 0
    while f"{name}.features.{layer}.weight" in w.arrays:
        g = np.tanh(w.linear(f"{name}.features.{layer}", g))
        layer += 2
    return w.linear(f"{name}.mean", g), softplus(w.linear(f"{name}.variance", g))


def hred(w: Weights, conversation: list[list[int]]) -> dict:
    """Compute NLL and contexts of one conversation whose utterances end in `<eos>`."""
    read = [encode(w, u) for u in conversation]
    c = contexts(w, read)
    nll = sum(
        said(decoder_logits(w, c[t + 1], conversation[t + 1]), conversation[t + 1])
        for t in range(len(conversation) - 1)
    )
    return {"nll": nll, "c": c[1:-1]}


def vhred(w: Weights, conversation: list[list[int]], noise: np.ndarray, extras=None) -> dict:
    """Compute the terms of one conversation.

    Args:
        noise: (n − 1, Z).
        extras: what is read beside each utterance.
    """
    read = [encode(w, u) for u in conversation]
    if extras is not None:
        read = [np.concatenate([h, e]) for h, e in zip(read, extras, strict=True)]
    c = contexts(w, read)
    nll = kl = ratio = bow = 0.0
    for t in range(len(conversation) - 1):
        target = conversation[t + 1]
        m_p, v_p = gaussian(w, "prior", c[t + 1])
        m_q, v_q = gaussian(w, "posterior", c[t + 1], read[t + 1])
        z = m_q + np.sqrt(v_q) * noise[t]
        nll += said(decoder_logits(w, np.concatenate([c[t + 1], z]), target), target)
        kl += kl_normal(m_q, v_q, m_p, v_p)
        ratio += log_normal(z, m_p, v_p) - log_normal(z, m_q, v_q)
        if "bow.project.weight" in w.arrays:
            log_p = log_softmax(w.linear("bow.project", np.tanh(w.linear("bow.features.0", z))))
            words = target[:-1]
            for word in words:
                bow += np.log(words.count(word) / len(words)) - log_p[word]
    return {"nll": nll, "kl": kl, "ratio": ratio, "bow": bow, "c": c[1:-1]}


def vhcr(
    w: Weights,
    conversation: list[list[int]],
    noise: np.ndarray,
    noise_conv: np.ndarray,
    dropped: set[int] = frozenset(),
    inference_sees_holes: bool = False,
) -> dict:
    """Compute the terms of one conversation.

    Args:
        noise: (n − 1, Z).
        noise_conv: (Z,).
        dropped: places that the context is not shown.
    """
    read = [encode(w, u) for u in conversation]
    hole = w.arrays["dropped_utterance"]
    shown = [hole if t in dropped else h for t, h in enumerate(read)]
    last, _ = w.both_ways("inference", shown if inference_sees_holes else read)
    m, v = gaussian(w, "z_conv_posterior", last)
    z_conv = m + np.sqrt(v) * noise_conv
    start = np.tanh(w.linear("context_start.0", z_conv))
    c = contexts(w, [np.concatenate([h, z_conv]) for h in shown], start)
    nll, kl = 0.0, kl_normal(m, v, 0.0, 1.0)
    ratio = log_normal(z_conv, 0.0, np.ones_like(v)) - log_normal(z_conv, m, v)
    for t in range(len(conversation) - 1):
        target = conversation[t + 1]
        m_p, v_p = gaussian(w, "prior", c[t + 1], z_conv)
        m_q, v_q = gaussian(w, "posterior", c[t + 1], read[t + 1], z_conv)
        z = m_q + np.sqrt(v_q) * noise[t]
        nll += said(decoder_logits(w, np.concatenate([c[t + 1], z, z_conv]), target), target)
        kl += kl_normal(m_q, v_q, m_p, v_p)
        ratio += log_normal(z, m_p, v_p) - log_normal(z, m_q, v_q)
    return {"nll": nll, "kl": kl, "ratio": ratio, "c": c[1:-1]}


def seq2seq_logits(w: Weights, source: list[int], target: list[int]) -> list[np.ndarray]:
    """Compute the logits of Luong et al. (2015), Eq. 5-8, one decoder word and one memory place at a time."""
    embedding = w.arrays["embedding.weight"]
    last, memory = w.both_ways("encoder", [embedding[i] for i in source])
    h = np.tanh(w.linear("start.0", last))
    logits = []
    for previous in [SOS, *target[:-1]]:
        h = w.gru("decoder", embedding[previous], h)
        scores = np.array([h @ w.linear("score", m) for m in memory])
        weights = np.exp(scores) / np.exp(scores).sum()
        seen = sum(a * m for a, m in zip(weights, memory, strict=True))
        logits.append(w.linear("project", np.tanh(w.linear("combine", np.concatenate([seen, h])))))
    return logits


def head(w: Weights, name: str, c: np.ndarray) -> np.ndarray:
    """Compute an EI head: one hidden ReLU layer."""
    return w.linear(f"ei.{name}.2", np.maximum(w.linear(f"ei.{name}.0", c), 0))
