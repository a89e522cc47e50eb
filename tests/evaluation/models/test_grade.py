"""GRADE's network against plain loops, its graph and its keywords against cases worked by hand."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from evaluation.models import grade_graph
from evaluation.models.grade import GradeNetwork, Lexicon, PairBatch, Reader, abar
from evaluation.models.grade_graph import FAR, Graph, GraphError, Neighbours, graph_read
from evaluation.models.grade_keywords import Keywords, _lemma, analyser_missing, tokens_of

D, T, HEADS, LAYERS, K = 8, 6, 2, 2, 2
HOPS = np.zeros((2, 5, 5), dtype=np.float32)
for i, j, hops in ((0, 2, 1), (0, 3, 4), (1, 2, 20), (1, 3, 2)):
    HOPS[0, i, j] = HOPS[0, j, i] = hops
REAL = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], dtype=bool)


def pairs(seed: int) -> PairBatch:
    draw = np.random.default_rng(seed)
    return PairBatch(
        draw.normal(size=(2, T)).astype(np.float32),
        draw.normal(size=(2, 5, D)).astype(np.float32),
        draw.normal(size=(2, K, 5, D)).astype(np.float32),
        HOPS,
        REAL,
    )


def network(**options: bool) -> GradeNetwork:
    torch.manual_seed(0)
    result = GradeNetwork(text_width=T, width=D, heads=HEADS, layers=LAYERS, hidden=12, **options)
    with torch.no_grad():  # larger than at first, so that attention differs between nodes
        for parameter in result.parameters():
            parameter.normal_(0, 0.5)
    return result.eval()


def elu(x: float) -> float:
    return x if x > 0 else math.exp(x) - 1


def by_hand(net: GradeNetwork, batch: PairBatch, row: int, *, by_hops: bool = True) -> float:
    """Compute the score of one pair from the paper's equations, number by number."""
    w = {name: value.detach().double().numpy() for name, value in net.state_dict().items()}
    nodes = [i for i in range(5) if batch.real[row, i]]
    h = {}
    for i in nodes:
        h[i] = batch.nodes[row, i].astype(float)
        for k in range(K):
            h[i] = h[i] + w[f"near.{k}.weight"] @ batch.near[row, k, i] + w["near_bias"]
    a = {(i, j): float(i == j) for i in nodes for j in nodes}
    for i in nodes:
        for j in nodes:
            if batch.hops[row, i, j]:
                a[i, j] += 1 / float(batch.hops[row, i, j])
    degree = {i: sum(a[i, j] for j in nodes) for i in nodes}
    normal = {(i, j): a[i, j] / math.sqrt(degree[i] * degree[j]) for i, j in a}
    for layer in range(LAYERS):
        weight, v = w[f"layers.{layer}.w.weight"], w[f"layers.{layer}.v.weight"]
        attention = w[f"layers.{layer}.a"]  # (2, M, d/M)
        after = {}
        for i in nodes:
            heads = []
            for m in range(HEADS):
                part = slice(m * D // HEADS, (m + 1) * D // HEADS)
                near = [j for j in nodes if normal[i, j] > 0]
                raw = []
                for j in near:
                    both = np.concatenate([(weight @ h[i])[part], (weight @ h[j])[part]])
                    dot = float(np.concatenate([attention[0, m], attention[1, m]]) @ both)
                    e = dot if dot > 0 else 0.2 * dot
                    raw.append(e * normal[i, j] if by_hops else e)
                total = sum(math.exp(e) for e in raw)
                heads.append(sum(math.exp(e) / total * (weight @ h[j])[part] for e, j in zip(raw, near, strict=True)))
            z = np.concatenate(heads)
            after[i] = np.array([elu(x) for x in v @ h[i] + z])
        h = after
    mean = sum(h.values()) / len(nodes)
    graph = np.array([elu(x) for x in w["fc_graph.weight"] @ mean + w["fc_graph.bias"]])
    text = w["fc_text.weight"] @ batch.text[row] + w["fc_text.bias"]
    x = np.concatenate([text, graph])
    for name in ("fc1", "fc2"):
        x = np.array([elu(y) for y in w[f"{name}.weight"] @ x + w[f"{name}.bias"]])
    return 1 / (1 + math.exp(-float((w["fc3.weight"] @ x + w["fc3.bias"])[0])))


@pytest.mark.parametrize("by_hops", [True, False])
def test_the_forward_pass_is_that_of_the_equations(by_hops: bool) -> None:
    net, batch = network(by_hops=by_hops), pairs(1)
    result = net(batch).detach().numpy()
    expected = [by_hand(net, batch, row, by_hops=by_hops) for row in (0, 1)]
    np.testing.assert_allclose(result, expected, atol=1e-5)
    assert abs(expected[0] - expected[1]) > 1e-3


def test_the_adjacency_has_no_edges_but_across() -> None:
    result = abar(torch.as_tensor(HOPS), torch.as_tensor(REAL, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(result, result.transpose(0, 2, 1), atol=1e-7)
    assert result[0, 0, 1] == result[0, 2, 3] == 0  # within the context, within the reply
    np.testing.assert_array_equal(result[1, :2, :2], np.eye(2))  # no edges: unit vectors
    assert not result[1, 2:].any()
    assert result[0, 0, 2] == pytest.approx(1 / math.sqrt((1 + 1 + 1 / 4) * (1 + 1 + 1 / 20)))


def test_edges_are_dropped_in_training_only_and_both_ways() -> None:
    net, batch = network(), pairs(1)
    assert torch.equal(net(batch), net(batch))
    net.train()
    drawn = {tuple(net(batch).detach().tolist()) for _ in range(20)}
    assert len(drawn) > 1
    assert len({row[1] for row in drawn}) == 1  # a graph without edges has none to lose
    kept = net._edges_kept(torch.as_tensor(HOPS))
    assert torch.equal(kept, kept.transpose(1, 2))


GRAPH = Graph(
    [
        ("dog", "animal"), ("animal", "live_thing"), ("live_thing", "water"), ("water", "drink"), ("drink", "dog"),
        ("t_shirt", "cotton"), ("cat", "animal"), ("cat", "purr_loudly"), ("dog", "dog"), ("dog", "animal"),
    ]
)  # fmt: skip


def test_hops_are_path_lengths_and_one() -> None:
    params = {
        ("dog", "dog"): 1, ("dog", "animal"): 2, ("dog", "water"): 4, ("dog", "drink"): 5, ("animal", "dog"): 5,
        ("water", "cat"): FAR, ("dog", "unicorn"): FAR, ("unicorn", "unicorn"): 1, ("unicorn", "horn"): FAR,
        ("cat", "dog"): 6, ("dog", "live-thing"): 3, ("live-thing", "drink"): 3, ("live-thing", "live-thing"): 1,
        ("t-shirt", "cotton"): FAR,  # a phrase that no edge leads to lies on no path, so it is not searched
    }  # fmt: skip
    first, second = (list(dict.fromkeys(words)) for words in zip(*params, strict=True))
    for graph in (GRAPH, GRAPH.pruned()):
        result = graph.hops(first, second)
        assert {(a, b): result[first.index(a), second.index(b)] for a, b in params} == params
    assert "purr_loudly" not in GRAPH.pruned().nodes
    assert GRAPH.reaches("live-thing")
    assert not GRAPH.reaches("t-shirt")
    assert GRAPH.hops([], ["dog"]).shape == (0, 1)


@pytest.mark.parametrize("n_words", [60, 400])
def test_hops_are_those_of_networkx(n_words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import networkx as nx

    draw = np.random.default_rng(0)
    names = [f"w{k}" if k % 3 else f"w_{k}" for k in range(n_words)]
    edges = [(names[i], names[j]) for i, j in draw.integers(n_words, size=(2 * n_words, 2))]
    edges += [(f"end{k}", f"end{k + 1}") for k in range(30)]  # a path longer than "far"
    graph, other = Graph(edges), nx.DiGraph([(a, b) for a, b in edges if a != b])
    single = [name for name in graph.nodes if "_" not in name]
    lengths = dict(nx.all_pairs_shortest_path_length(other))
    expected = [[lengths[a].get(b, FAR - 1) + 1 for b in single] for a in single]
    assert graph.hops(single, single).tolist() == expected
    assert graph.hops(["end0"], ["end30"]) == 31
    # One by one, the other way round, and where only a few are kept.
    monkeypatch.setattr(grade_graph, "_KEPT", 5 * len(graph.nodes))
    few = Graph(edges)
    for a in single[::-7]:
        assert few.hops([a], single).tolist() == [expected[single.index(a)]]
    assert 0 < len(few._hops) <= 7
    assert few.hops(single, single).tolist() == expected


def test_neighbours_are_those_most_like_the_word() -> None:
    graph = Graph([("a", "b"), ("a", "c"), ("a", "x_y"), ("b", "d"), ("c", "d"), ("c", "a")])
    vectors = {
        "a": np.array([1.0, 0.0]), "b": np.array([0.0, 2.0]), "c": np.array([1.0, 1.0]), "d": np.array([4.0, 4.0]),
    }  # fmt: skip
    result = Neighbours(graph, vectors.get, [1, 2], 2).mean_vectors("a")
    np.testing.assert_allclose(result, [[1, 1], [4, 4]])  # c is nearer than b; d stands twice, a is left out
    # More are wanted than there are: some of b and c, drawn again, and of the phrase nothing is known.
    fifty = Neighbours(graph, vectors.get, [50], 2)
    mean_vector = fifty.mean_vectors("a")[0]
    assert 0 < mean_vector[0] < 1 < mean_vector[1] < 2
    np.testing.assert_array_equal(mean_vector, fifty.mean_vectors("a")[0])
    assert not fifty.mean_vectors("x-y").any()
    assert not fifty.mean_vectors("d").any()
    lexicon = Lexicon(graph, vectors, [1, 2], 2)
    assert lexicon.near("a").any()
    assert not lexicon.near("typpo").any()
    assert list(lexicon._near) == ["a"], "words that the graph lacks would fill the memory"


def test_neighbours_are_those_that_plain_loops_find() -> None:
    """Sheet, section 4: a node stands in a ring once for each way that leads there; of equals the earlier name."""
    draw = np.random.default_rng(3)
    names = [f"w{k:02}" for k in range(40)] + [f"p_{k}" for k in range(10)]
    edges = [(names[i], names[j]) for i, j in draw.integers(50, size=(260, 2))]
    graph = Graph(edges)
    vectors = {name: draw.integers(-1, 2, size=3).astype(np.float32) for name in names[:35]}

    def cosine(a: np.ndarray, b: np.ndarray | None) -> float:
        if b is None:
            return -2.0
        norms = float(np.linalg.norm(a) * np.linalg.norm(b))
        return round(float(a @ b) / norms, 6) if norms else -1.0

    neighbours = Neighbours(graph, vectors.get, [3, 8], 3)
    n_checked = 0
    for word in names[:40]:
        result = neighbours.mean_vectors(word)
        if word not in vectors:
            assert not result.any()
            continue
        ring = graph.out_of(word)
        for k, n in enumerate((3, 8)):
            if k:
                ring = [far for near in ring for far in graph.out_of(near) if far != word]
            if len(ring) < n:
                continue  # drawn
            order = sorted(ring, key=lambda one: (-cosine(vectors[word], vectors.get(one)), one))
            known = [vectors[one] for one in order[:n] if one in vectors]
            expected = np.mean(known, axis=0) if known else np.zeros(3)
            np.testing.assert_allclose(result[k], expected, atol=1e-6)
            n_checked += 1
    assert n_checked > 40


def test_a_file_without_triples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.jsonl"
    path.write_text(json.dumps({"head": "dog", "tail": "T-shirt"}) + "\nIsA\tdog\tlive thing\n")
    assert graph_read(path).nodes == ["dog", "live_thing", "t_shirt"]
    more = tmp_path / "more.tsv"
    more.write_text("Synonym\tdog\thound\nIsA\tdog\tlive thing\n")
    both = graph_read(path, more)
    assert both.nodes == ["dog", "hound", "live_thing", "t_shirt"]
    assert both.edges.nnz == 3  # what both files tell counts once
    assert both.digest != graph_read(path).digest
    path.write_text("dog\n")
    with pytest.raises(GraphError, match=r"line 1: 'dog.*tabs"):
        graph_read(path)


def test_a_score_of_keywords_is_tag_frequency_and_idf() -> None:
    # log10(1000 / 10) = 2; a noun among eight tokens: 2 · 1/8 · 2 = .5, a verb .25, an adjective .125.
    keywords = Keywords("textblob", 1000, {"dog": 9, "walk": 9, "happy": 9, "be": 900})
    assert keywords.extract("My happy dog walks to the park .") == ["dog", "walk", "park"]
    assert keywords.extract("When is it?") == []
    # Of 14 tokens, some of them alike: 2 · 1/14 · 2 = .29 for the noun and .14 for the verb, which is too little.
    assert keywords.extract("to the dog to walk to the to the to the to the .") == ["dog"]
    assert keywords.extract("A dog, a dog") == ["dog", "dog"]
    again = Keywords.load(keywords.dump())
    assert again.extract("My happy dog walks") == keywords.extract("My happy dog walks")
    counted = Keywords.from_utterances(["My dog runs.", "A dog, a dog"], "textblob")
    assert counted.df == {"dog": 2, "run": 1}
    assert counted.idf("dog") == pytest.approx(math.log10(2 / 3))


SAID = {
    "christopher columbus was my great great grandfather , he travelled a lot !": [
        "christopher", "columbus", "grandfather", "travel", "lot",
    ],
    "i'm a college student studying psychology": ["'m", "college", "student", "study", "psychology"],
    "Yes, and you will succeed eventually.": ["succeed"],
    "When is it?": [],
}  # fmt: skip


@pytest.mark.parametrize("text", SAID)
def test_the_published_examples(text: str) -> None:
    """Find them with the published tools; TextBlob takes "travelled" for an adjective."""
    known = {"be": 30_000, "great": 2_000, "'m": 5_000}
    name = "nltk" if analyser_missing("nltk") is None else "textblob"
    result = Keywords(name, 100_000, known).extract(text)  # type: ignore[arg-type]
    expected = SAID[text]
    if name == "textblob":
        result, expected = ([w for w in words if not w.startswith("travel")] for words in (result, expected))
    assert [word for word in result if word not in ("great", "eventually")] == expected


def test_a_full_stop_is_no_part_of_its_word_wherever_the_sentence_stands() -> None:
    result = tokens_of("I'm sorry. Is it your dog? 3.5 miles... Yes.", "textblob")
    assert [token.surface for token in result] == [
        "i", "'m", "sorry", ".", "is", "it", "your", "dog", "?", "3.5", "miles", "...", "yes", ".",
    ]  # fmt: skip


def test_a_full_stop_before_a_mark_or_a_bracket_is_no_part_of_its_word_either() -> None:
    for text in ('Their "piggy bank." It is fun.', "by the bank.) Then", "near a bank.: ("):
        surfaces = [token.surface for token in tokens_of(text, "textblob")]
        assert surfaces[surfaces.index("bank") + 1] == ".", text
    assert [token.surface for token in tokens_of("U.S., (e.g.) it", "textblob")][:2] == ["u.s.", ","]


def test_context_keywords_come_first_and_push_the_reply_out() -> None:
    keywords = Keywords("textblob", 100_000, {})
    reader = Reader(keywords, GRAPH, Lexicon(GRAPH, {}, (), D), 0, D, 3)
    context = ("Dog cat.", "Water animal.")
    made = reader.batch([(context, "drink"), (("Dog.",), "Drink, drink.")], np.zeros((2, T)))
    assert made.real.tolist() == [[True] * 3, [True] * 3]
    assert not made.hops[0].any()  # three of the context, none of the reply
    assert made.hops[1].tolist() == [[0, 5, 5], [5, 0, 0], [5, 0, 0]]


def test_a_batch_holds_what_its_pairs_hold_alone() -> None:
    keywords = Keywords("textblob", 100_000, {})
    vectors = {
        word: np.random.default_rng(k).normal(size=D).astype(np.float32)
        for k, word in enumerate(["dog", "animal", "water"])
    }
    reader = Reader(keywords, GRAPH, Lexicon(GRAPH, vectors, (2, 2), D), 2, D, 5)
    asked = [
        (("Dog cat.", "Water animal."), "drink water"), (("Dog.",), "Drink, drink dog."), (("Hm.",), "Oh."),
        (("Unicorn dog.",), "unicorn"), ((), "dog water"),
    ]  # fmt: skip
    whole = reader.batch(asked, np.zeros((5, T)))
    for k, pair in enumerate(asked):
        alone = reader.batch([pair], np.zeros((1, T)))
        n = alone.real.shape[1]
        assert not whole.real[k, n:].any()
        assert not whole.hops[k, n:].any()
        assert not whole.hops[k, :, n:].any()
        np.testing.assert_array_equal(whole.real[k, :n], alone.real[0])
        np.testing.assert_array_equal(whole.nodes[k, :n], alone.nodes[0])
        np.testing.assert_array_equal(whole.near[k, :, :n], alone.near[0])
        np.testing.assert_array_equal(whole.hops[k, :n, :n], alone.hops[0])
        said, answered = reader.placed(pair)
        words = [*said, *answered]
        np.testing.assert_array_equal(
            alone.nodes[0, : len(words)], [vectors.get(word, np.zeros(D)) for word in words] or np.zeros((0, D))
        )
        for i, first in enumerate(words):
            for j, second in enumerate(words):
                across = i < len(said) <= j
                expected = GRAPH.hops([first], [second])[0, 0] if across else 0
                assert alone.hops[0, i, j] == (
                    expected or (GRAPH.hops([second], [first])[0, 0] if j < len(said) <= i else 0)
                )
    assert whole.hops[3].max() == FAR


@pytest.mark.parametrize(
    ("word", "tag", "lemma"),
    [
        ("bring", "VB", "bring"),
        ("clever", "JJ", "clever"),
        ("bringing", "VBG", "bring"),
        ("ring", "NN", "ring"),
        ("quickly", "RB", "quickly"),
    ],
)
def test_a_base_form_keeps_its_ending(word: str, tag: str, lemma: str) -> None:
    assert _lemma(word, tag) == lemma
