"""PyTorch modules: labels from logits, reading sequences, certificates in single precision."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris

import epsworth as ew
from epsworth.classifiers.frameworks import module_network
from epsworth.classifiers.networks import Network
from epsworth.classifiers.structure import read_network
from epsworth.utility.engines.propagation import NetworkBoxes
from readings import said

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; it is the extra 'torch'")
nn = torch.nn
torch.set_num_threads(1)  # starting more takes longer than these small products
torch.manual_seed(0)  # the weights of modules that are not trained

IRIS, SPECIES = load_iris(return_X_y=True)
RANGES = {0: (4, 8), 1: (2, 5), 2: (1, 7), 3: (0, 3)}
SETTINGS = {"mechanisms": "pm", "epsilons": [2.0], "domain": RANGES, "sensitive": [0, 2]}


def trained(*layers, outputs=3, dtype=None):
    """Fit the last linear layer's scores to the species (or to being the first one) by a few steps of Adam."""
    module = nn.Sequential(*layers).to(dtype or torch.float32)
    rows = torch.tensor(IRIS, dtype=dtype or torch.float32)
    truth = torch.tensor(SPECIES)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(150):
        logits = module(rows)
        if outputs == 1:
            loss = nn.functional.binary_cross_entropy_with_logits(logits[:, 0], (truth > 0).to(logits.dtype))
        else:
            loss = nn.functional.cross_entropy(logits, truth)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return module.eval()


MODULES = {
    "relu": lambda: trained(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)),
    "one logit": lambda: trained(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1), outputs=1),
    "smooth": lambda: trained(nn.Linear(4, 8, bias=False), nn.Sigmoid(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)),
    "double": lambda: trained(nn.Linear(4, 8), nn.LeakyReLU(0.1), nn.Linear(8, 3), dtype=torch.float64),
    "everything else": lambda: trained(
        nn.Flatten(),
        nn.BatchNorm1d(4),
        nn.Sequential(nn.Linear(4, 12), nn.BatchNorm1d(12, affine=False), nn.ReLU(), nn.Dropout(0.2)),
        nn.Identity(),
        nn.Linear(12, 8),
        nn.Linear(8, 3),
        nn.LogSoftmax(dim=1),
    ),
}


@functools.cache
def trained_module(name):
    torch.manual_seed(0)  # also of the initial weights
    return MODULES[name]()


every_module = pytest.mark.parametrize("name", MODULES)


@every_module
def test_labels_are_those_of_the_logits(name):
    module = trained_module(name)
    classifier = ew.as_classifier(module)
    dtype = next(module.parameters()).dtype
    logits = module(torch.tensor(IRIS, dtype=dtype)).detach().numpy()
    expected = (logits[:, 0] > 0).astype(int) if logits.shape[1] == 1 else logits.argmax(axis=1)
    frame = pd.DataFrame(IRIS, columns=list("abcd"))
    for table in (IRIS, frame, pl.from_pandas(frame)):
        np.testing.assert_array_equal(classifier.labels(table), expected)
    assert classifier.count == 4
    assert classifier.classes == tuple(range(max(2, logits.shape[1])))
    assert len(np.unique(expected)) > 1


@every_module
def test_sequences_are_read_as_they_answer(name):
    module = trained_module(name)
    found, _ = read_network(module)
    assert isinstance(found, Network)
    Z = np.random.default_rng(0).uniform(0, 8, (2_000, 4))
    scores = found.scores(Z)
    lead = np.diff(np.sort(scores, axis=1)[:, -2:]).ravel()
    agree = found.classes[scores.argmax(axis=1)] == ew.as_classifier(module).labels(Z)
    assert agree[lead > 1e-4].all()
    assert (lead > 1e-4).mean() > 0.9


@every_module
def test_the_logits_as_computed_lie_between_the_bounds(name):
    """Points and small boxes: what single precision makes of the score is inside, by the model's own arithmetic."""
    module = trained_module(name)
    found = module_network(module)
    boxes = NetworkBoxes(found, found.affine[0], np.zeros(4), np.full(4, 8.0))
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-6, 0.01):
        low = rng.uniform(0, 7, (1_000, 4))
        high = low + size
        below, above = boxes.leads(low, high, 1)
        inside = rng.uniform(low, high)
        with torch.no_grad():
            logits = module(torch.tensor(inside, dtype=next(module.parameters()).dtype)).double().numpy()
        if logits.shape[1] == 1:
            logits = np.column_stack([np.zeros(len(logits)), logits])
        leads = logits[:, [1]] - np.delete(logits, 1, axis=1)
        assert (below[:, -1] - np.abs(below[:, :-1]).sum(axis=1) <= leads).all()
        assert (above[:, -1] + np.abs(above[:, :-1]).sum(axis=1) >= leads).all()


@every_module
def test_certificates_meet_the_whole_grid(name):
    settings = SETTINGS | {"mechanisms": ["pm:quantise=17", "krr:k=9"], "epsilons": [1, 4], "tolerance": 0.02}
    exact = ew.stability(trained_module(name), IRIS[[0, 60, 120]], method="grid", **settings)
    found = ew.stability(trained_module(name), IRIS[[0, 60, 120]], method="propagation", **settings)
    assert found.confidence == 1
    assert (found.lower <= exact.upper).all()
    assert (exact.lower <= found.upper).all()
    assert (found.upper - found.lower).max() <= 0.04


def test_certificates_hold_the_sampled_truth_and_are_the_default():
    """Nine sampled bounds miss with probability 1e-6 together."""
    settings = SETTINGS | {"mechanisms": ["pm", "laplace_clipped", "sw"], "epsilons": [1.0], "rng": 0}
    module = trained_module("relu")
    drawn = ew.stability(module, IRIS[[0, 60, 120]], method="sampled", confidence=1 - 1e-6, **settings)
    found = ew.stability(module, IRIS[[0, 60, 120]], **settings)
    assert (found.method == "propagation").all()
    assert found.confidence == 1
    assert (found.lower <= drawn.upper).all()
    assert (drawn.lower <= found.upper).all()


def test_a_flat_logit_is_one_label():
    class Flat(nn.Module):
        def forward(self, rows):
            return rows[:, 0] - 5

    assert ew.as_classifier(Flat().eval()).labels(np.array([[4.0], [5.0], [6.0]])).tolist() == [0, 0, 1]


class Odd(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, rows):
        return self.answer(rows)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Linear(4, 3)), r"in training mode.*call \.eval\(\)"),
        (nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()).eval(), "ends in a Sigmoid; leave it out"),
        (nn.Sequential(nn.Linear(4, 1), nn.Softmax(dim=1)).eval(), "Softmax over one output, which is always the same"),
        (nn.Sequential(nn.Linear(4, 1), nn.LogSoftmax(-1), nn.Identity()).eval(), "LogSoftmax over one output"),
        (nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=0)).eval(), "over dimension 0, the batch"),
        (nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(dim=-2)).eval(), "over dimension -2, the batch"),
        (nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=0), nn.Linear(3, 3)).eval(), "the other rows of the batch"),
        (nn.Sequential(nn.Linear(4, 1), nn.ReLU(), nn.Softmax(dim=1)).eval(), "all lie between 0 and 1"),
        (Odd(lambda rows: torch.softmax(100 * rows, 0)).eval(), "the other rows of the batch"),
        (nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)).eval(), "keep running statistics"),
        (Odd(lambda rows: rows[:, :, None]).eval(), "one row of logits, or one logit, per record"),
        (Odd(lambda rows: rows.sum()).eval(), "one row of logits, or one logit, per record"),
        (Odd(lambda rows: rows * float("nan")).eval(), "a logit is NaN"),
        (nn.Linear, "is the class Linear, not an instance"),
    ],
)
def test_what_does_not_answer_with_labels_is_refused(module, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ew.stability(module, IRIS[:2], **SETTINGS)


def test_a_part_left_in_training_mode_is_found():
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).eval()
    module[1].train()
    with pytest.raises(ValueError, match="training mode"):
        ew.as_classifier(module)


def hooked():
    layer = nn.Linear(4, 3)
    layer.register_forward_hook(lambda layer, rows, logits: -logits)
    return layer


class Reversed(nn.Sequential):
    def forward(self, rows):
        return -super().forward(rows)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 3)), "its layer GELU is not supported"),
        (nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(2.0), nn.Linear(4, 3)), "its layer LeakyReLU is not supported"),
        (nn.Sequential(nn.Flatten(), hooked()), "its layer Linear is not supported"),
        (nn.Sequential(nn.Linear(4, 3), nn.ReLU()), "its last layer is not linear"),
        (nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3).double()), "in single or in double precision"),
        (Reversed(nn.Linear(4, 3)), "the module Reversed is not a torch.nn.Sequential"),
        (nn.Sequential(), "in single or in double precision"),
    ],
)
def test_what_cannot_be_read_says_why_and_is_sampled(module, message):
    assert message in said(module_network, module.eval())


def test_refusals_name_the_way_out():
    module = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 3)).eval()
    with pytest.raises(ValueError, match=r"its layer GELU is not supported; use method='auto'"):
        ew.stability(module, IRIS[:1], method="propagation", **SETTINGS)
    assert ew.stability(module, IRIS[:1], rng=0, tolerance=0.2, **SETTINGS).method.item() == "sampled"


def test_reduced_precision_is_not_certified(monkeypatch):
    module = trained_module("relu")
    torch.set_float32_matmul_precision("high")
    try:
        assert "single or in double precision" in said(module_network, module)
    finally:
        torch.set_float32_matmul_precision("highest")

    def mixed():
        raise RuntimeError("precision set for one backend only")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    assert "single or in double precision" in said(module_network, module)


def test_autocast_around_a_question_changes_nothing():
    module, rows = trained_module("relu"), np.random.default_rng(0).uniform(0, 8, (2_000, 4))
    expected = ew.as_classifier(module).labels(rows)
    with torch.autocast("cpu"):
        np.testing.assert_array_equal(ew.as_classifier(module).labels(rows), expected)
        assert (module(torch.tensor(rows).float()).argmax(dim=1).numpy() != expected).any()


class Probability(nn.Module):
    """A network that squashes its only output."""

    def __init__(self, squash, flat=False):
        super().__init__()
        self.layers = nn.Linear(4, 1)
        self.squash, self.flat = squash, flat

    def forward(self, rows):
        out = self.squash(self.layers(rows))
        return out[:, 0] if self.flat else out


@pytest.mark.parametrize("squash", [torch.sigmoid, nn.functional.hardsigmoid, lambda z: z.clamp(0, 1), nn.Sigmoid()])
@pytest.mark.parametrize("flat", [False, True])
def test_a_probability_is_not_taken_for_a_logit(squash, flat):
    """One in [0, 1] is positive nearly always: every record would get label 1."""
    with pytest.raises(ew.ClassifierError, match=r"all lie between 0 and 1, as behind torch\.sigmoid"):
        ew.stability(Probability(squash, flat).eval(), IRIS[:1], **SETTINGS)


@pytest.mark.parametrize(
    ("squash", "side"),
    [
        (lambda z: 100 * z.sigmoid(), "below"),
        (lambda z: 1 + z.sigmoid(), "below"),
        (lambda z: z.exp().clamp(max=1e6), "below"),
        (nn.functional.logsigmoid, "above"),
    ],
)
@pytest.mark.parametrize("kind", ["module", "sequence"])
def test_an_output_that_never_changes_its_sign_is_not_taken_for_a_logit(squash, side, kind):
    module = Probability(squash)
    if kind == "sequence":
        module = nn.Sequential(nn.Linear(4, 1), Odd(squash))
    with pytest.raises(ew.ClassifierError, match=f"outputs are never {side} 0, so they look like scores"):
        ew.stability(module.eval(), IRIS[:1], **SETTINGS)


@pytest.mark.parametrize("squash", [torch.tanh, lambda z: 2 * z.sigmoid() - 1, lambda z: 100 * z.sigmoid() - 50])
def test_a_score_with_the_sign_of_the_logit_is_one(squash):
    module = Probability(squash).eval()
    expected = (module.layers(torch.tensor(IRIS).float())[:, 0] > 0).long().tolist()
    assert ew.as_classifier(module).labels(IRIS).tolist() == expected


def test_a_constant_logit_of_a_linear_layer_is_taken():
    module = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 1)).eval()
    with torch.no_grad():
        module[2].weight[:], module[2].bias[:] = 0, 3
    assert ew.as_classifier(module).labels(IRIS[:3]).tolist() == [1, 1, 1]


def test_logits_that_happen_to_lie_between_0_and_1_are_taken():
    module = Probability(lambda z: z).eval()
    with torch.no_grad():
        module.layers.weight[:], module.layers.bias[:] = 0.01, 0.2
    for model in (module, nn.Sequential(module.layers).eval(), Probability(torch.tanh).eval()):
        found = ew.stability(model, IRIS[:1], rng=0, tolerance=0.2, **SETTINGS)
        assert found.labels.tolist() == ew.as_classifier(model).labels(IRIS[:1]).tolist()
    assert ew.as_classifier(module).labels(IRIS[:3]).tolist() == [1, 1, 1]


def test_modules_that_compute_by_other_code_are_not_read(monkeypatch):
    def fresh():
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)).eval()

    assert isinstance(module_network(fresh()), Network)
    whole, part = fresh(), fresh()
    whole.forward = lambda rows: rows[:, :3]
    part[1].forward = lambda rows: -rows
    compiled = fresh()
    compiled._compiled_call_impl = lambda *rows: rows[0]
    for module in (whole, part, compiled):
        assert isinstance(said(module_network, module), str)
    with monkeypatch.context() as patched:  # the class itself: what is read is compared with the answers
        patched.setattr(nn.ReLU, "forward", lambda self, rows: -rows)
        domain = ew.Domain.of({f"x{j}": (0, 1) for j in range(4)})
        asked = {"mechanisms": "pm", "epsilons": [2], "domain": domain, "sensitive": [0], "method": "propagation"}
        with pytest.raises(ValueError, match="its answers are not those of its weights"):
            ew.stability(fresh(), np.random.default_rng(0).uniform(size=(5, 4)), **asked)
    handle = nn.modules.module.register_module_forward_hook(lambda module, rows, out: -out)
    try:
        assert "hooks are set on all modules" in said(module_network, fresh())
    finally:
        handle.remove()
