"""``iclbook probe``: one probe of a model in a local folder, at the paper's number of prompts, and its result with where it comes from."""

import io
import json
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...errors import UserError
from ...files import write_whole
from ...models.pretrained import Pretrained, read_pretrained, refuse_pointer, snapshot
from ...sources import short, source_of
from ...tasks.mixed_corpus import VOCABULARY
from . import probe_statistics, prompts, readout
from .pretrained import MODELS
from .prompts import CORPUS, Alphabet

Arrays = dict[str, Tensor]
Values = dict[str, float]
#: Lengths of the random block, unstated.
BLOCK_LENGTHS = (10, 25)
#: Groups of the prompts of pattern completion, so that what is read of all has an error: their numbers, as stated, are multiples of it.
GROUPS = 5


class Sizes(NamedTuple):
    """Prompts, as stated: 80 (section 8), 48 (8.2), 100 and 30 (9.3), 60 (9.4); of recall unstated."""

    lines: int = 80
    blocks: int = 48
    recall: int = 128
    patterns: int = 100
    ablated: int = 30
    sinks: int = 60


STATED = Sizes()


def _alignment(model: Pretrained, alphabet: Alphabet, sizes: Sizes) -> tuple[Arrays, Values]:
    digits = torch.tensor(alphabet.digits)
    found, values = {}, {}
    for order, suffix in (("true", ""), ("shuffled", "_shuffled_context")):
        lines = prompts.lines(alphabet, sizes.lines, shuffled=order == "shuffled")
        estimate = readout.estimates(model, lines.tokens, digits)
        found |= {f"estimate_{order}": estimate, "target": lines.target, "x": lines.x}
        statistics = probe_statistics.alignment(estimate.numpy(), lines.target.numpy())._asdict()
        values |= {f"{name}{suffix}": value for name, value in statistics.items()}
    drawn = probe_statistics.noise_around_prior(found["estimate_true"].double().numpy(), found["target"].numpy())
    for name in ("signs", "r2", "reduction"):
        values[f"p_{name}_noise"] = probe_statistics.exceeds(values[name], getattr(drawn, name))
    return found, values


def _induction(model: Pretrained, alphabet: Alphabet, sizes: Sizes) -> tuple[Arrays, Values]:
    found, values = {}, {}
    for m in BLOCK_LENGTHS:
        tokens, target = prompts.blocks(alphabet, sizes.blocks, m)
        found[f"surprisal{m}"] = readout.surprisals(model, tokens, target)
        found[f"margin{m}"] = readout.answers(model, tokens, target)[1]
        for name, value in probe_statistics.contraction(found[f"surprisal{m}"].numpy())._asdict().items():
            values[f"{name}{m}"] = value
        values[f"accuracy{m}"] = float((found[f"margin{m}"] > 0).float().mean())
    return found, values


def _truncation(model: Pretrained, alphabet: Alphabet, sizes: Sizes) -> tuple[Arrays, Values]:
    tokens, target = prompts.blocks(alphabet, sizes.blocks, BLOCK_LENGTHS[0])
    found: Arrays = {"singular": readout.singular_values(model.embed)}
    singular, width = found["singular"].double().numpy(), model.width
    ranks = {f"tau{tau:g}": readout.rank_tau(singular, tau) for tau in readout.THRESHOLDS}
    values: Values = {f"rank_{name}": float(rank) for name, rank in ranks.items()}
    values["effective_rank"] = readout.effective_rank(singular)
    for drop in readout.DROPS:
        margin = readout.truncated(model, tokens, target, readout.truncations(model.embed, drop))
        found[f"margin_{drop}"] = margin
        gaps = {
            n: readout.emergence_gap((margin > 0).double().mean(1).numpy(), width, rank) for n, rank in ranks.items()
        }
        values |= {f"gap_{drop}_{name}": gap for name, gap in gaps.items() if np.isfinite(gap)}
    return found, values


def _grouped(measure: Callable[[prompts.Patterns], Tensor], every: prompts.Patterns) -> Tensor:
    """What is measured on each of :data:`GROUPS` parts of the prompts, ``(G, ...)``."""
    groups = min(GROUPS, len(every.read))
    return torch.stack([measure(prompts.Patterns(*(of[i::groups] for of in every))) for i in range(groups)])


def _attention(model: Pretrained, every: prompts.Patterns) -> Arrays:
    """:func:`.readout.attention_shares` of each group, ``(G, L, H)``."""
    found = _grouped(lambda part: torch.stack(readout.attention_shares(model, part)), every)
    return dict(zip(("sink", "match", "sink_all"), found.unbind(1), strict=True))


def _sinks(model: Pretrained, alphabet: Alphabet, sizes: Sizes) -> tuple[Arrays, Values]:
    found = _attention(model, prompts.patterns(alphabet, sizes.sinks))
    every = found["sink_all"].mean(0)
    values = {f"late_over_early_{n}": probe_statistics.late_over_early(every.numpy(), n) for n in (2, 3)}
    return found, values | {"sink": float(every.mean())}


def _recall(model: Pretrained, alphabet: Alphabet, sizes: Sizes) -> tuple[Arrays, Values]:
    logp, margin = readout.answers(model, *prompts.recall(alphabet, sizes.recall))
    values = {"logp": float(logp.mean()), "accuracy": float((margin > 0).float().mean())}
    return {"logp": logp, "margin": margin}, values


def _patterns(model: Pretrained, alphabet: Alphabet, sizes: Sizes) -> tuple[Arrays, Values]:
    every = prompts.patterns(alphabet, sizes.patterns)
    few = prompts.patterns(alphabet, sizes.ablated)
    loss, alone = readout.pattern_losses(model, every)
    heads = [[head] for head in range(model.n_heads)]
    found = {"loss": loss, "alone": alone, "read": every.read} | _attention(model, every)
    found["intact"] = _grouped(lambda part: readout.pattern_losses(model, part)[0].mean(), few)
    found["ablated"] = _grouped(lambda part: readout.ablations(model, part, heads), few)
    found["ablated_layer"] = _grouped(lambda part: readout.ablations(model, part, [range(model.n_heads)])[:, 0], few)
    return found, {"loss": float(loss.mean()), "alone": float(alone.mean())}


PROBES: dict[str, Callable[[Pretrained, Alphabet, Sizes], tuple[Arrays, Values]]] = {
    "alignment": _alignment,
    "induction": _induction,
    "truncation": _truncation,
    "sinks": _sinks,
    "recall": _recall,
    "patterns": _patterns,
}


def alphabet_of(folder: Path, tokenizer: str | None, digits: str, vocabulary: int) -> Alphabet:
    """Alphabet in which prompts are written for a model.

    Args:
        folder: the model's.
        tokenizer: a ``tokenizer.json``, its folder, or ``corpus`` for the mixed corpus; by default the model's folder.
        digits: ``spaced`` (" 3 -> 4") or ``plain`` ("3->4").
        vocabulary: tokens that the model knows.

    Raises:
        UserError: no tokenizer, a damaged one, one of another model, one of too few ordinary tokens, or digits that are not single tokens.
    """
    if tokenizer == "corpus":
        if vocabulary != VOCABULARY:
            raise UserError(f"a vocabulary of {vocabulary}", "Name the model's own tokenizer: --tokenizer PATH")
        return CORPUS
    path, known = _read_tokenizer(folder if tokenizer is None else Path(tokenizer))

    def tokens(text: str) -> tuple[int, ...]:
        return tuple(known.encode(text, add_special_tokens=False).ids)

    space = " " if digits == "spaced" else ""
    written = [tokens(f"{space}{d}") for d in range(10)]
    if any(len(t) != 1 for t in written) or len({*written}) != 10:
        other = "plain" if space else "spaced"
        raise UserError(f"digits are not single tokens of {path}", f"Try --digits {other}, or another tokenizer.")
    special = {*known.get_added_tokens_decoder()}
    symbols = tuple(t for t in range(min(vocabulary, known.get_vocab_size())) if t not in special)
    alphabet = Alphabet(tuple(t[0] for t in written), tokens(f"{space}->"), tokens("\n"), symbols)
    if max(*alphabet.digits, *alphabet.arrow, *alphabet.line) >= vocabulary:
        raise UserError(f"{path} has tokens that the model lacks", "Name the model's own tokenizer: --tokenizer PATH")
    if len(symbols) < max(BLOCK_LENGTHS):
        few = f"{path} has {len(symbols)} ordinary tokens, and a block needs {max(BLOCK_LENGTHS)} different ones"
        raise UserError(few, "Name the model's own tokenizer: --tokenizer PATH")
    return alphabet


def _read_tokenizer(path: Path) -> tuple[Path, Any]:
    """The file at ``path``, or ``tokenizer.json`` in this folder, and the tokenizer in it; errors as for :func:`alphabet_of`."""
    path = path / "tokenizer.json" if path.is_dir() else path
    refuse_pointer(path)
    from tokenizers import Tokenizer  # it comes with transformers, which has read the model

    try:
        return path, Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare exceptions
        hint = "Name one: --tokenizer PATH (a tokenizer.json, or a folder with it)"
        raise UserError(f"no tokenizer at {path} ({error})", hint) from error


#: Folders that are named after a checkpoint, and not after a model.
CHECKPOINT = re.compile(r"(stage\d-)?step\d+(-tokens\d+B)?|[0-9a-f]{40}|snapshots|main")


def named(folder: Path, revision: str | None = None, name: str | None = None) -> tuple[str, str | None]:
    """The name that the rows know a model by, such as ``pythia-160m``, and its checkpoint, such as ``step4000``: as they are given, else of the folder, of
    the one above a checkpoint's, of a hub cache's ``models--EleutherAI--pythia-160m``, or of ``config.json``.

    Raises:
        UserError: a folder that is named after a checkpoint, and nothing around it names a model of :data:`.pretrained.MODELS`.
    """
    at = folder = folder.resolve()
    while CHECKPOINT.fullmatch(at.name) and at != at.parent:
        refs = [ref for ref in at.parent.parent.glob("refs/*") if ref.read_text(encoding="utf-8").strip() == at.name]
        found = refs[0].name if refs else at.name
        revision = revision or (found if "step" in found else None)
        at = at.parent
    known = at.name.rpartition("--")[2].lower()
    if name is None and known not in MODELS:
        config = snapshot(folder, revision if at == folder else None) / "config.json"
        written = json.loads(config.read_text(encoding="utf-8")).get("_name_or_path")
        of_config = str(written or "").rpartition("/")[2].lower()
        known = of_config if of_config in MODELS else known
        if at != folder and known not in MODELS:
            hint = f"Say which model it is, such as --name {MODELS[0]}; `iclbook probe --plan` lists the names."
            raise UserError(f"{folder} names a checkpoint and no model that a row asks for", hint)
    return name or known, revision


@torch.no_grad()
def probe_folder(
    folder: Path,
    probe: str,
    out: Path,
    revision: str | None = None,
    tokenizer: str | None = None,
    digits: str = "spaced",
    sizes: Sizes = STATED,
    name: str | None = None,
) -> Values:
    """Probe a model and write ``out``: raw arrays by name, and ``about``, JSON with values and provenance.

    Returns:
        The values.

    Raises:
        UserError: an unknown probe, what :func:`read_pretrained` and :func:`alphabet_of` refuse, numbers that are not finite, or a file that cannot be
            written.
    """
    if probe not in PROBES:
        raise UserError(f"unknown probe {probe!r}", f"Choose one of: {', '.join(PROBES)}.")
    if out.suffix != ".npz":
        raise UserError(f"--out {out}", "Give a file name that ends in .npz.")
    model, place = read_pretrained(folder, revision)
    name, revision = named(folder, revision, name)
    alphabet = alphabet_of(place, tokenizer, digits, model.vocabulary)
    arrays, values = PROBES[probe](model, alphabet, sizes)
    bad = [name for name, x in arrays.items() if not torch.isfinite(x).all()]
    if bad:
        raise UserError(f"{bad[0]} of {folder} is not finite", "Check the weights: fetch the folder anew.")
    about = {
        "probe": probe,
        "values": values,
        "model": model.about | {"name": name, "revision": revision},
        "prompts": {"seed": prompts.SEED, "digits": digits, "tokenizer": tokenizer} | sizes._asdict(),
        "source": short(source_of(probe_folder)),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
    buffer = io.BytesIO()
    numbers = {key: x.numpy() for key, x in arrays.items()}
    np.savez_compressed(buffer, allow_pickle=False, about=np.array(json.dumps(about)), **numbers)
    write_whole(out, buffer.getvalue())
    return values
