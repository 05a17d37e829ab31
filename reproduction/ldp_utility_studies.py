"""Zheng & Hu 2025, section 7: stroke, bank and MNIST (Figures 6 to 16), on our fits of the same tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from epsworth.arrays import Floats
from reproduction import studies
from reproduction.items import Item, Outcome, Setting, claims, judged
from reproduction.panels import Panel, Series, curve, curves
from reproduction.studies import BANK, EPSILONS, STROKE, Study, fitted, published

# the paper's four, and two that it leaves out: its Laplace leaves the range of a pixel, this one is clipped to it
FIRST = ("pm", "exponential", "laplace_clipped")


def named_row(mechanisms: Sequence[str], name: str) -> int:
    """Return the number of the mechanism of this family."""
    return next(i for i, words in enumerate(mechanisms) if words.partition(":")[0] == name)


def best(shares: Floats, mechanisms: Sequence[str], among: Sequence[str]) -> tuple[bool, bool, str]:
    """Tell whether the piecewise mechanism leads at each epsilon, whether at most of them, and where it does not."""
    rows = [named_row(mechanisms, name) for name in among]
    lead = np.array([among[i] for i in shares[rows].argmax(axis=0)])
    ahead = [f"{name} at {spans(EPSILONS[lead == name])}" for name in among if name in lead]
    ahead = [words for words in ahead if not words.startswith("pm ")]
    return not ahead, (lead != "pm").sum() < len(EPSILONS) / 2, ", ".join(ahead)


def spans(epsilons: Iterable[float]) -> str:
    """Return whole epsilons as a text, neighbours as from and to."""
    runs: list[list[float]] = []
    for one in epsilons:
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(f"{run[0]:g} to {run[-1]:g}" if len(run) > 1 else f"{run[0]:g}" for run in runs)


def numbers_of(shares: Floats, mechanisms: Sequence[str], among: Sequence[str], epsilon: int = 4) -> str:
    """Return the shares at one epsilon, in the order of these mechanisms."""
    return ", ".join(f"{shares[named_row(mechanisms, name), epsilon - 1]:.3f}" for name in among)


def shown(
    title: str, shares: Floats, mechanisms: Sequence[str], among: Sequence[str], besides: tuple[Series, ...] = ()
) -> Panel:
    """Return a panel of lower bounds on the share of labels that stay."""
    rows = {name: shares[named_row(mechanisms, name)] for name in among}
    return curves(title, ("epsilon per feature", EPSILONS), "share of labels that stay", rows, besides=besides)


def figure_6(setting: Setting) -> Outcome:
    """Bound record 4 of the stroke table exactly, and compare the masses of the printed boxes."""
    numbers: list[str] = []
    said, panels, main = [], [], True
    for name in studies.MODELS:
        found = fitted(setting.file(""), STROKE, name)
        record = found.record(STROKE)
        bounds = studies.ask(found.model, record, STROKE, tolerance=1e-3)
        lower, upper = bounds.lower[..., 0], bounds.upper[..., 0]
        always, mostly, where = best(lower, STROKE.mechanisms, FIRST)
        box, values = STROKE.box(name), [float(record[column][0]) for column in STROKE.sensitive]
        assert box is not None
        late = _ahead_unclipped(values, box)
        claimed = np.array([[published(w, float(e), values, box) for e in EPSILONS] for w in STROKE.mechanisms])
        rows = [named_row(STROKE.mechanisms, mechanism) for mechanism in FIRST]
        exponential, laplace = (lower[named_row(STROKE.mechanisms, m)] for m in ("exponential", "laplace_clipped"))
        main &= mostly
        said += [
            (f"{name}: PM is best ({where or 'at every epsilon'})", always),
            (f"{name}: exponential above Laplace", bool((exponential > laplace).all())),
            (f"{name}: utility grows with epsilon", bool((np.diff(lower[rows]) > -1e-3).all())),
            (f"{name}: the printed box keeps our label", bool((claimed[rows] <= upper[rows]).all())),
            (f"{name}: there above Laplace (not at {late or 'any'})", not late),
        ]
        numbers.append(f"{name} {numbers_of(lower, STROKE.mechanisms, FIRST)}")
        printed = tuple(curve("" if i else "mass of the printed box", EPSILONS, claimed[row], "paper")
                        for i, row in enumerate(rows))  # fmt: skip
        panels.append(shown(name, lower, STROKE.mechanisms, FIRST, printed))
    return claims(said, "; ".join(numbers), main, panels=panels)


def _ahead_unclipped(values: list[float], box: studies.Box) -> str:
    """Return the epsilons at which Laplace leads even where what leaves [0, 1] counts as lost."""
    laplace, exponential = (
        [published(words, float(e), values, box) for e in EPSILONS] for words in ("laplace", "exponential")
    )
    return spans(e for e, one, other in zip(EPSILONS, laplace, exponential, strict=True) if one >= other)


def figure_7(setting: Setting) -> Outcome:
    """Bound the bank record exactly."""
    numbers: list[str] = []
    said, panels, main = [], [], True
    names = (*FIRST, "gaussian_clipped")
    for name in studies.MODELS:
        found = fitted(setting.file(""), BANK, name)
        lower = studies.ask(found.model, found.record(BANK), BANK, tolerance=1e-3).lower[..., 0]
        always, mostly, where = best(lower, BANK.mechanisms, names)
        gaussian = lower[named_row(BANK.mechanisms, "gaussian_clipped")]
        others = np.array([lower[named_row(BANK.mechanisms, m)] for m in FIRST])
        behind = EPSILONS[gaussian >= others.min(axis=0)]
        main &= mostly
        said += [
            (f"{name}: PM is best ({where or 'at every epsilon'})", always),
            (f"{name}: Gaussian behind the others (except at {spans(behind) or 'none'})", behind.size == 0),
        ]
        numbers.append(f"{name} {numbers_of(lower, BANK.mechanisms, names)}")
        panels.append(shown(name, lower, BANK.mechanisms, names))
    return claims(said, "; ".join(numbers), main, panels=panels)


def figure_9(setting: Setting) -> Outcome:
    """Bound record 0 of the stroke table under the square wave and k-ary response."""
    numbers: list[str] = []
    said, panels, main = [], [], False
    for name in studies.MODELS:
        found = fitted(setting.file(""), STROKE, name)
        lower = studies.ask(found.model, found.record(STROKE, 0), STROKE, tolerance=1e-3).lower[..., 0]
        wave, response = (lower[named_row(STROKE.mechanisms, m)] for m in ("sw", "krr"))
        crossed = EPSILONS[response > wave]
        where = f"from {crossed[0]:g} on" if crossed.size else "nowhere"
        said.append((f"{name}: k-RR is ahead of SW above 6 ({where})", set(crossed) == {7.0, 8.0}))
        main |= bool({7.0, 8.0} <= set(crossed) and crossed.size < len(EPSILONS))
        numbers.append(f"{name} {numbers_of(lower, STROKE.mechanisms, ('krr', 'sw'), 8)}")
        panels.append(shown(name, lower, STROKE.mechanisms, ("sw", "krr")))
    return claims(said, "at epsilon 8, " + "; ".join(numbers), main, panels=panels)


def figure_10(setting: Setting) -> Outcome:
    """Count how often the label changes along the lines of a grid over age and bmi."""
    changes, panels = {}, []
    for name in studies.MODELS:
        found = fitted(setting.file(""), STROKE, name)
        row = found.record(STROKE).to_numpy()[0]
        grid = np.repeat(row[np.newaxis], 101 * 101, axis=0)
        at = [found.table.columns.index(column) for column in STROKE.sensitive]
        grid[:, at] = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
        plane = type(found.table)(grid, schema=found.table.columns, orient="row")
        labels = np.asarray(found.model.predict(plane)).reshape(101, 101)
        changes[name] = int((labels[1:] != labels[:-1]).sum() + (labels[:, 1:] != labels[:, :-1]).sum())
        panels.append(Panel(name, "age", "bmi", plane=labels.astype(float), equal=True))
    return Outcome(
        judged(changes["RF"] > 2 * changes["LR"]),
        f"label changes on a 101 x 101 grid: LR {changes['LR']}, RF {changes['RF']}",
        panels=tuple(panels),
    )


def _over_dataset(setting: Setting, study: Study, model: str) -> Outcome:
    """Bound the average and the worst case over held-out records."""
    found = fitted(setting.file(""), study, model)
    rows = found.test[:40] if setting.quick else found.test
    whole = studies.ask(found.model, found.table[rows], study, tolerance=0.02)
    names = (*FIRST, "gaussian_clipped") if study is BANK else FIRST
    average, worst = whole.average().lower, whole.worst()
    always, mostly, where = best(average, study.mechanisms, names)
    last, _, there = best(worst.lower, study.mechanisms, names)
    exponential, laplace = (average[named_row(study.mechanisms, m)] for m in ("exponential", "laplace_clipped"))
    said = [
        (f"on average PM is best ({where or 'at every epsilon'})", always),
        (f"in the worst case ({there or 'at every epsilon'})", last),
        ("exponential above Laplace on average", bool((exponential > laplace).all())),
    ]
    ours = (
        f"{len(rows)} records, average {numbers_of(average, study.mechanisms, names)}; "
        f"worst {numbers_of(worst.lower, study.mechanisms, names)}"
    )
    panels = [
        shown(title, shares, study.mechanisms, names)
        for title, shares in (("average", average), ("worst case", worst.lower))
    ]
    return claims(said, ours, mostly, panels=panels)


_STROKE, _BANK = (STROKE.file,), (BANK.file,)
ITEMS = (
    Item(
        "ldp-utility/fig-6",
        "Figure 6, section 7.2.1",
        "Stroke, record 4: PM, exponential, Laplace; the box bounds from below.",
        figure_6,
        quick=True,
        needs=_STROKE,
    ),
    Item(
        "ldp-utility/fig-7",
        "Figure 7, section 7.2.2",
        "A bank customer: of PM, exponential, Laplace, Gaussian the first is best, the last worst.",
        figure_7,
        quick=False,
        needs=_BANK,
    ),
    Item(
        "ldp-utility/fig-9",
        "Figure 9, appendix C.4.1",
        "Stroke, record 0: k-RR beats SW above epsilon 6.",
        figure_9,
        quick=True,
        needs=_STROKE,
    ),
    Item(
        "ldp-utility/fig-10",
        "Figure 10, appendix C.4.3",
        "The forest's boundary is far more ragged.",
        figure_10,
        quick=True,
        needs=_STROKE,
    ),
    Item(
        "ldp-utility/fig-11",
        "Figure 11, appendix C.4.4",
        "Stroke, LR: PM, exponential, Laplace, on average and at worst.",
        lambda setting: _over_dataset(setting, STROKE, "LR"),
        quick=True,
        needs=_STROKE,
    ),
    Item(
        "ldp-utility/fig-12",
        "Figure 12, appendix C.4.4",
        "Stroke, forest: the same order.",
        lambda setting: _over_dataset(setting, STROKE, "RF"),
        needs=_STROKE,
    ),
    Item(
        "ldp-utility/fig-13",
        "Figure 13, appendix C.5.2",
        "Bank, LR: PM, exponential, Laplace, Gaussian.",
        lambda setting: _over_dataset(setting, BANK, "LR"),
        needs=_BANK,
    ),
    Item(
        "ldp-utility/fig-14",
        "Figure 14, appendix C.5.2",
        "Bank, forest: the same order.",
        lambda setting: _over_dataset(setting, BANK, "RF"),
        needs=_BANK,
    ),
)
