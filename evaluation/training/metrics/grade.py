"""Training of GRADE (Huang et al. 2020).

The network learns to rank true replies above hard negatives, using the text and a keyword graph (fact sheet, sections 2
to 6).
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from torch import Tensor, nn

from chatbots.corpora.dialogues import CorpusError, Dialogue
from chatbots.encoders.published_files import FileVectors
from chatbots.encoders.sentence import encoder_get
from chatbots.encoders.word_vectors import WORD_DIMENSION, word_vectors
from chatbots.identity import canonical_json, derive_seed
from chatbots.training.ei import embeddings_cached
from chatbots.validation import InputModel, Many, Number, Share, Size
from evaluation.models.grade import UTTERANCES, GradeNetwork, Lexicon, Pair, Ranked, Reader, VocabularyTable, features
from evaluation.models.grade_graph import RELATIONS, WORDNET, Graph, graph_read
from evaluation.models.grade_keywords import Keywords, analyser_missing, analyser_usual
from evaluation.training.backbone import backbone_load
from evaluation.training.checkpoint import Checkpoint
from evaluation.training.config import MetricTrainingConfig, register_learned
from evaluation.training.contract import Examples, LearnedMetric, Prepared, Splits
from evaluation.training.negatives import MiddleRule, embedding_negatives, lexical_negatives, random_negatives

STATIC = "static"
KEYWORDS, GRAPH, WORDS, NEAR = "keywords.json", "graph.tsv.gz", "words.txt", "near.npy"


_File = Annotated[str, Field(min_length=1)]


def _several(files: Any) -> Any:
    """Accept a single file as a list of one."""
    return [files] if isinstance(files, str) else files


class GradeOptions(InputModel):
    """Options of GRADE, by default as published.

    Attributes:
        graph: one or more files of ConceptNet triples, relative to the corpora
            (`evaluation.models.grade_graph.graph_read`); "wordnet": the relations shipped with Confab.
        vectors: "static": distilled from MiniLM; otherwise a file of word vectors (Numberbatch), relative to the
            corpora.
        nodes: "learned": a trained table of the training keywords, with one row for all other words; "fixed": the
            vectors themselves.
        text: "pair": the encoder reads context and reply together; "two": a frozen encoder reads them separately, and
            the network uses products and distances of the vectors.
        analyser: keyword analyser; "usual": NLTK if its data are installed, otherwise TextBlob.
        neighbours: numbers of neighbours at 1 hop, 2 hops, …; empty: none (an ablation in the paper's Table 3).
        use_graph: False: text only (an ablation).
        hop_attention: False: attention without distances (an ablation).
        negatives: kind of false replies; "random" is an ablation.
        middle_rule: rule for lexical negatives (`evaluation.training.negatives`).
        max_keywords: maximum number of keywords per pair.
        data_seed: seed of the false replies.
    """

    graph: Annotated[Many[_File], Field(min_length=1), BeforeValidator(_several)]
    vectors: str = Field(default=STATIC, min_length=1)
    nodes: Literal["learned", "fixed"] = "learned"
    text: Literal["pair", "two"] = "pair"
    analyser: Literal["usual", "nltk", "textblob"] = "usual"
    neighbours: Many[Size] = (10, 10)
    use_graph: bool = True
    hop_attention: bool = True
    negatives: Literal["both", "lexical", "embedding", "random"] = "both"
    middle_rule: MiddleRule = "half"
    max_keywords: Size = 16
    hidden: int = Field(default=512, ge=4)
    heads: Size = 4
    layers: Size = 3
    drop_edge: Share = 0.2
    margin: Number = Field(default=0.1, gt=0)
    data_seed: int = 23

    @field_validator("nodes")
    @classmethod
    def _fixed_ones_are_static(cls, nodes: str, info: ValidationInfo) -> str:
        if nodes == "fixed" and info.data.get("vectors", STATIC) != STATIC:
            raise ValueError("it must be learned if vectors is a file; otherwise scoring would need the file")
        return nodes


class GradePairs(Examples):
    """Triples of two utterances and a reply, with false replies.

    Args:
        pairs: true pairs.
        false: other replies to the same contexts.
        vectors: text vectors; None if the network reads texts.
    """

    def __init__(
        self, pairs: Sequence[Pair], false: Sequence[str], reader: Reader, vectors: Mapping[str, np.ndarray] | None
    ) -> None:
        self.pairs, self.false, self.reader, self.vectors = pairs, false, reader, vectors
        self.n = len(pairs)

    def batches(self, batch_size: int, seed: int, epoch: int, start: int = 0) -> Iterator[Ranked]:
        order = np.random.default_rng(derive_seed(seed, epoch)).permutation(self.n)
        for offset in range(start * batch_size, self.n, batch_size):
            yield self._batch(order[offset : offset + batch_size].tolist())

    def in_order(self, batch_size: int) -> Iterator[Ranked]:
        for offset in range(0, self.n, batch_size):
            yield self._batch(list(range(offset, min(offset + batch_size, self.n))))

    def _batch(self, rows: list[int]) -> Ranked:
        true = [self.pairs[k] for k in rows]
        false = [(self.pairs[k][0], self.false[k]) for k in rows]
        return Ranked(*(self.reader.batch(part, text_of(part, self.vectors)) for part in (true, false)))


@register_learned
class GradeTraining(LearnedMetric):
    """GRADE, or `grade-lite` with other options."""

    name = "grade"
    options_type = GradeOptions

    def missing(self, config: MetricTrainingConfig) -> dict[str, str]:
        options: GradeOptions = config.metric_options
        problems = {}
        if absent := [path for path in graph_paths(config) if not path.is_file()]:
            problems["graph"] = f"there is no file {absent[0]}"
        if options.vectors != STATIC and not config.path(options.vectors).is_file():
            problems["vectors"] = f"there is no file {config.path(options.vectors)}"
        if options.analyser != "usual" and (reason := analyser_missing(options.analyser)):
            problems["analyser"] = reason
        if options.text == "two" and config.backbone.learns != "frozen":
            problems["text"] = "two requires backbone.learns: frozen; use pair to train the encoder"
        return problems

    def prepare(self, config: MetricTrainingConfig, splits: Splits, device: str) -> Prepared:
        options: GradeOptions = config.metric_options
        analyser = analyser_usual() if options.analyser == "usual" else options.analyser
        utterances = [turn for _, part in splits.parts() for dialogue in part for turn in dialogue.turns]
        keywords = Keywords.from_utterances(utterances, analyser)
        graph = graph_read(*graph_paths(config)).pruned()
        table = self._table(config, splits, keywords, graph) if options.nodes == "learned" else None
        reader = reader_of(options, keywords, graph, table[0] if table else None)
        triples = {name: triples_of(part) for name, part in splits.parts()}
        vectors = self._vectors(config, triples, device)
        examples, digest = {}, hashlib.sha256()
        for name, pairs in triples.items():
            if not pairs:
                if name == "test":
                    continue
                raise CorpusError(f"the {name} part has no dialogue of three utterances; give more dialogues")
            kinds = {"both": ("lexical", "embedding")}.get(options.negatives, (options.negatives,))
            false = [reply for kind in kinds for reply in self._false(kind, options, name, pairs, vectors, device)]
            examples[name] = GradePairs(pairs * len(kinds), false, reader, vectors if options.text == "two" else None)
            digest.update(canonical_json([name, pairs, false]).encode())
        files = {KEYWORDS: keywords.dump(), GRAPH: _packed(graph)}
        if table is not None:
            rows = io.BytesIO()
            np.save(rows, table[1].astype(np.float16))
            files |= {WORDS: "\n".join(table[0].rows).encode(), NEAR: rows.getvalue()}
            self._start = table[2]
        return Prepared(
            train=examples["train"],
            validation=examples["validation"],
            test=examples.get("test"),
            digest=hashlib.sha256(canonical_json([digest.hexdigest(), graph.digest, analyser]).encode()).hexdigest()[
                :16
            ],
            files=files,
            facts={
                "analyser": analyser,
                "n_examples": {name: part.n for name, part in examples.items()},
                "n_keywords": len(keywords.df),
                "n_graph_nodes": len(graph.nodes),
                "graph": graph.digest,
            },
        )

    def _table(
        self, config: MetricTrainingConfig, splits: Splits, keywords: Keywords, graph: Graph
    ) -> tuple[VocabularyTable, np.ndarray, np.ndarray]:
        """Return the keyword table, its neighbours (V + 1, K, d) and initial rows."""
        options: GradeOptions = config.metric_options
        utterances = [turn for dialogue in splits.train for turn in dialogue.turns]
        words = sorted({word for turn in utterances for word in keywords.extract(turn)})
        if options.vectors == STATIC:
            vectors: Mapping[str, np.ndarray | None] = DistilledVectors()
            width = WORD_DIMENSION
        else:
            vocabulary = {*words, *graph.nodes}
            file = _vectors_file(config.path(options.vectors)).table(words=vocabulary)
            vectors, width = {w: file.lookup(w) for w in vocabulary}, file.dimension
        lexicon = Lexicon(graph, vectors, options.neighbours, width)
        near = np.zeros((len(words) + 1, len(options.neighbours), width), dtype=np.float32)
        rows = np.random.default_rng(derive_seed(config.seed, "words")).uniform(-0.05, 0.05, (len(words) + 1, width))
        for k, word in enumerate(words, start=1):
            near[k] = lexicon.near(word)
            vector = lexicon.vector(word)
            if vector is not None:
                rows[k] = vector
        return VocabularyTable(words, near), near, rows.astype(np.float32)

    def _vectors(
        self, config: MetricTrainingConfig, triples: Mapping[str, Sequence[Pair]], device: str
    ) -> dict[str, np.ndarray] | None:
        """Encode every text once if network or negatives need vectors."""
        options: GradeOptions = config.metric_options
        if options.text != "two" and options.negatives not in ("both", "embedding"):
            return None
        texts = list(
            dict.fromkeys(t for part in triples.values() for context, reply in part for t in (*context, reply))
        )
        rows = embeddings_cached(texts, encoder_get(config.backbone.model, device))
        return dict(zip(texts, rows, strict=True))

    def _false(
        self,
        kind: str,
        options: GradeOptions,
        part: str,
        pairs: Sequence[Pair],
        vectors: Mapping[str, np.ndarray] | None,
        device: str,
    ) -> list[str]:
        replies, seed = [reply for _, reply in pairs], derive_seed(options.data_seed, part)
        if kind == "lexical":
            return lexical_negatives(replies, seed, middle_rule=options.middle_rule)
        if kind == "random":
            return random_negatives(replies, seed)
        assert vectors is not None
        return embedding_negatives(replies, np.stack([vectors[reply] for reply in replies]), seed)

    def measure(self, network: nn.Module, examples: Examples, batch_size: int) -> dict[str, float]:
        """Compute the usual measures, and mean and standard deviation of the scores.

        Scores are those of true and false pairs before the sigmoid.
        """
        network.eval()
        known: list[Tensor] = []
        sums, n = {"loss": 0.0, "accuracy": 0.0}, 0
        with torch.no_grad():
            for batch in examples.in_order(batch_size):
                true, false = network.logits(batch.true), network.logits(batch.false)  # type: ignore[operator]
                parts = network.loss_of(true, false)  # type: ignore[operator]
                sums["loss"] += float(parts.total) * parts.n
                sums["accuracy"] += float(parts.told["accuracy"]) * parts.n
                n += parts.n
                known += [true, false]
        logits = torch.cat(known)
        return {
            **{name: total / max(n, 1) for name, total in sums.items()},
            "level": float(logits.mean()),
            "spread": float(logits.std()),
        }

    def network(self, config: MetricTrainingConfig, prepared: Prepared) -> nn.Module:
        return _network(config, self._start if config.metric_options.nodes == "learned" else None)

    def restored(self, checkpoint: Checkpoint) -> nn.Module:
        config = checkpoint.config
        table = None
        if config.metric_options.nodes == "learned":
            near = np.load(io.BytesIO(checkpoint.file(NEAR)))
            table = np.zeros((near.shape[0], near.shape[2]), dtype=np.float32)
        return _network(config, table)


def _network(config: MetricTrainingConfig, table: np.ndarray | None) -> GradeNetwork:
    options: GradeOptions = config.metric_options
    text = backbone_load(config.backbone) if options.text == "pair" else None
    if text is None:
        from transformers import AutoConfig

        from chatbots.encoders.sentence import encoder_folder

        width = 4 * AutoConfig.from_pretrained(encoder_folder(config.backbone.model)).hidden_size
    else:
        width = text.width
    return GradeNetwork(
        text_width=width,
        text=text,
        table=table,
        width=WORD_DIMENSION if table is None else table.shape[1],
        heads=options.heads,
        layers=options.layers,
        hidden=options.hidden,
        n_rings=len(options.neighbours),
        graph=options.use_graph,
        by_hops=options.hop_attention,
        drop_edge=options.drop_edge,
        margin=options.margin,
    )


def reader_of(options: GradeOptions, keywords: Keywords, graph: Graph, table: VocabularyTable | None) -> Reader:
    """Return the reader that makes batches; without a table, it uses static vectors."""
    lexicon = table or Lexicon(graph, DistilledVectors(), options.neighbours, WORD_DIMENSION)
    width = WORD_DIMENSION if table is None else table.width
    return Reader(keywords, graph, lexicon, len(options.neighbours), width, options.max_keywords)


def reader_restored(checkpoint: Checkpoint) -> Reader:
    """Return the reader of a checkpoint."""
    options: GradeOptions = checkpoint.config.metric_options
    keywords = Keywords.load(checkpoint.file(KEYWORDS))
    lines = gzip.decompress(checkpoint.file(GRAPH)).decode().splitlines()
    graph = Graph((head, tail) for head, tail in (line.split("\t") for line in lines))
    table = None
    if options.nodes == "learned":
        near = np.load(io.BytesIO(checkpoint.file(NEAR)))
        table = VocabularyTable(checkpoint.file(WORDS).decode().splitlines(), near)
    return reader_of(options, keywords, graph, table)


def triples_of(dialogues: Sequence[Dialogue]) -> list[Pair]:
    """Return distinct triples of consecutive utterances."""
    triples = {
        (dialogue.turns[k - UTTERANCES : k], dialogue.turns[k]): None
        for dialogue in dialogues
        for k in range(UTTERANCES, len(dialogue.turns))
    }
    return list(triples)


def text_of(
    pairs: Sequence[Pair], vectors: Mapping[str, np.ndarray] | None
) -> np.ndarray | tuple[list[str], list[str]]:
    """Return the text branch's input: features of the vectors, or both texts."""
    if vectors is None:
        return [" ".join(context[-UTTERANCES:]) for context, _ in pairs], [reply for _, reply in pairs]
    reply = np.stack([vectors[reply] for _, reply in pairs])
    nothing = np.zeros(reply.shape[1], dtype=reply.dtype)
    last = np.stack([vectors[c[-1]] if c else nothing for c, _ in pairs])
    before = np.stack([vectors[c[-2]] if len(c) > 1 else nothing for c, _ in pairs])
    return features([last, before], reply)


def graph_paths(config: MetricTrainingConfig) -> list[Path]:
    """Return the paths of the config's triple files."""
    return [RELATIONS if name == WORDNET else config.path(name) for name in config.metric_options.graph]


def _vectors_file(path: Path) -> FileVectors:
    """Load word vectors from a file.

    Numberbatch's and fastText's `.txt` files have a header line, GloVe's have none.
    """
    with path.open("rb") as file:
        has_header = len(file.readline(100).split()) == 2
    return FileVectors(path, "fasttext" if path.suffix == ".txt" and has_header else None)


class DistilledVectors(dict[str, "np.ndarray | None"]):
    """Unit vectors distilled from MiniLM, looked up on demand."""

    def get(self, word: str, default: Any = None) -> np.ndarray | None:  # type: ignore[override]
        """Return a word's vector, or None."""
        if word not in self:
            vector = word_vectors().lookup(word)
            norm = 0.0 if vector is None else float(np.linalg.norm(vector))
            if vector is None or not norm:
                return None  # not cached: the number of words without a vector is unlimited
            self[word] = vector / norm
        return self[word]


def _packed(graph: Graph) -> bytes:
    """Return the subgraph for scoring as compressed lines of edges."""
    edges = graph.edges.tocoo()
    lines = (f"{graph.nodes[i]}\t{graph.nodes[j]}\n" for i, j in zip(edges.row, edges.col, strict=True))
    return gzip.compress("".join(lines).encode(), mtime=0)
