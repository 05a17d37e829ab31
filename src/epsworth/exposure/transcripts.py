"""Noisy gradient descent: what its whole transcript says about each row.

Every step releases ``sum of clipped gradients + N(0, s^2 I)``.  The transcript's loss for one row is a sum over steps;
for full batches the steps compose as Gaussian mechanisms at the realised trajectory.  The last iterate is a function of
the transcript, so on average it leaks no more.  **Not private**; ``mu`` depends on the data: a budget that is fixed in
advance needs an individual privacy filter (Feldman & Zrnic 2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from epsworth.arrays import Floats, as_floats
from epsworth.exposure.fitting import check_data
from epsworth.exposure.glm import ExposureError, loss_named
from epsworth.exposure.inputs import NOT_PRIVATE, Classes, NotPrivate, finite, generator, number, positive, whole
from epsworth.numerals import short
from epsworth.rounding import show_up

if TYPE_CHECKING:
    import torch

Gradients = Callable[[Floats], Floats]  # parameters (p,) -> gradients per row (n, p)


@dataclass(frozen=True, eq=False)
class Transcript(NotPrivate):
    """A run of noisy gradient descent and what it says about each row.

    Attributes
    ----------
    models : ndarray of shape ``(steps + 1, p)``
        Parameters before each step, and the last ones.
    losses : ndarray of shape ``(n,)``
        Ex-post loss of each row over the whole transcript (with the row over without).
    mu : ndarray of shape ``(n,)``
        Realised Gaussian privacy of each row, ``sqrt(sum |g|^2) / s``; with Poisson sampling, that of a row which is in
        every batch: an upper bound.
    nominal : float
        The mu of a row whose gradient is clipped at every step.
    sampled : bool
        Batches were sampled: losses are conditional on the other rows' batches, an upper-bound analysis.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import descend, linear_gradients
    >>> X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(500, 2))
    >>> gradients = linear_gradients(X, X[:, 0] > 0)
    >>> run = descend(gradients, [0, 0], steps=20, learning_rate=0.01, clip=1.0, noise=10.0, rng=1)
    >>> run.models.shape, run.losses.shape, bool(run.advantage.max() < 0.2)
    ((21, 2), (500,), True)
    """

    models: Floats
    losses: Floats
    mu: Floats
    nominal: float
    sampled: bool

    @property
    def advantage(self) -> Floats:
        """Membership advantage of Gaussian noise at ``mu``: ``2 Phi(mu/2) - 1``."""
        return as_floats(2 * ndtr(self.mu / 2) - 1)

    def __str__(self) -> str:
        return (
            f"{len(self.models) - 1} noisy steps: Gaussian privacy mu {show_up(float(self.mu.max()), 3)} of the most "
            f"exposed of {len(self.mu)} rows, {show_up(self.nominal, 3)} in advance ({NOT_PRIVATE})"
        )


def linear_gradients(
    X: ArrayLike, y: ArrayLike, *, loss: str = "logistic", classes: Classes | None = None
) -> Gradients:
    """Return the per-row gradients of a linear model as a function of its coefficients.

    ``classes`` are the two labels, -1 first, where they are declared: the data may then hold one of them only.

    Parameters
    ----------
    X, y : array_like of shape ``(n, d)``, ``(n,)``
        Rows in the unit ball; two different labels.
    loss : {"logistic", "squared", "probit"}
        Loss of the margin.
    classes : pair of labels, optional
        The two labels, -1 first, where they are declared: the data may then hold one of them only.

    Raises
    ------
    ExposureError
        For rows outside the unit ball and other than two labels.

    Examples
    --------
    >>> from epsworth.exposure import linear_gradients
    >>> gradients = linear_gradients([[0.6, 0.2], [0.2, 0.6]], [1, -1])
    >>> gradients([0.0, 0.0])  # one row each; at zero the logistic loss falls with slope 1/2
    array([[-0.3, -0.1],
           [ 0.1,  0.3]])
    """
    rows, labels = check_data(X, y, classes)
    law = loss_named(loss)

    def gradients(f: Floats) -> Floats:
        return as_floats((law.slope(labels * (rows @ f)) * labels)[:, None] * rows)

    return gradients


def torch_gradients(
    module: torch.nn.Module, loss: Callable[[Any, Any], Any], X: Any, y: Any
) -> tuple[Gradients, Floats]:
    """Return the per-row gradients of a small PyTorch module, and its parameters as the starting point.

    Parameters
    ----------
    module : torch.nn.Module
        Without batch normalisation or other layers that mix rows.
    loss : callable
        ``loss(output, target)`` of a batch of one row.
    X, y : tensor
        Rows and targets.

    Raises
    ------
    ExposureError
        Without PyTorch, naming the extra that brings it.

    Examples
    --------
    >>> import torch
    >>> from epsworth.exposure import descend, torch_gradients
    >>> X, y = torch.zeros(50, 2), torch.ones(50, 1)
    >>> gradients, start = torch_gradients(torch.nn.Linear(2, 1), torch.nn.functional.mse_loss, X, y)
    >>> gradients(start).shape, start.shape
    ((50, 3), (3,))
    >>> descend(gradients, start, steps=5, learning_rate=0.01, clip=1.0, noise=5.0, rng=0).models.shape
    (6, 3)
    """
    try:
        import torch
        from torch.func import functional_call, grad, vmap
    except ImportError:
        raise ExposureError("gradients of PyTorch modules need the extra: pip install 'epsworth[torch]'") from None
    named = {name: p.detach() for name, p in module.named_parameters()}
    shapes = [(name, p.shape, p.numel()) for name, p in named.items()]

    def of_one_row(parameters: Any, x: Any, target: Any) -> Any:
        return loss(functional_call(module, parameters, (x.unsqueeze(0),)), target.unsqueeze(0))

    per_row = vmap(grad(of_one_row), in_dims=(None, 0, 0))
    kind = next(iter(named.values())).dtype

    def gradients(flat: Floats) -> Floats:
        parts = torch.as_tensor(flat, dtype=kind).split([count for *_, count in shapes])
        parameters = {name: part.view(shape) for (name, shape, _), part in zip(shapes, parts, strict=True)}
        found = per_row(parameters, X, y)
        return as_floats(torch.cat([found[name].reshape(len(X), -1) for name, *_ in shapes], dim=1).numpy())

    return gradients, as_floats(torch.cat([p.reshape(-1) for p in named.values()]).numpy())


def descend(
    gradients: Gradients,
    start: ArrayLike,
    *,
    steps: int,
    learning_rate: float,
    clip: float,
    noise: float,
    rng: np.random.Generator | int | None,
    l2: float = 0.0,
    sampling: float = 1.0,
) -> Transcript:
    """Run noisy gradient descent in a simulation, and account for every row as it goes.

    Parameters
    ----------
    gradients : callable
        Parameters to per-row gradients, from `linear_gradients` or `torch_gradients`.
    start : array_like of shape ``(p,)``
        Starting point, independent of the data.
    steps, learning_rate, clip, noise : int, float, float, float
        Number of steps; learning rate on the summed gradient; norm to clip to; standard deviation s per coordinate.
    rng : numpy.random.Generator, int or None
        For noise and batches; a simulation, not a release.
    l2 : float
        Weight of ``|f|^2 / 2`` beside the *summed* loss.
    sampling : float
        Probability with which each row enters a batch (Poisson); 1 takes all.

    Returns
    -------
    Transcript

    Raises
    ------
    ExposureError
        For steps, rates and scales that are not positive, and a start that is no vector of finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from epsworth.exposure import descend, linear_gradients
    >>> X = np.random.default_rng(0).uniform(-0.7, 0.7, size=(500, 2))
    >>> run = descend(linear_gradients(X, X[:, 0] > 0), [0, 0], steps=20, learning_rate=0.01, clip=1.0, noise=10.0,
    ...     rng=np.random.default_rng(1))
    >>> bool((run.mu <= run.nominal).all()), round(run.nominal, 3)
    (True, 0.447)
    """
    clip, noise, rate = positive("clip", clip), positive("noise", noise), positive("learning_rate", learning_rate)
    steps, rng = whole("steps", steps, 1), generator(rng)
    if not 0 < number(sampling) <= 1:
        raise ExposureError(f"sampling must lie in (0, 1], got {short(sampling)}")
    if not 0 <= number(l2) < math.inf:
        raise ExposureError(f"l2 must be finite and not negative, got {short(l2)}")
    models = [finite(start, "start", (None,))]
    losses: Floats | float = 0.0
    squares: Floats | float = 0.0
    for _ in range(steps):
        g = finite(gradients(models[-1]), "gradients (of these parameters)", (None, len(models[0])))
        g = g * np.minimum(1.0, clip / np.maximum(np.linalg.norm(g, axis=1), 1e-300))[:, None]
        batch = rng.random(len(g)) < sampling
        z = rng.normal(scale=noise, size=g.shape[1])
        losses = losses + _step_losses(g, batch, z, noise, sampling)
        squares = squares + np.einsum("ij,ij->i", g, g)
        models.append(as_floats(models[-1] - rate * (g[batch].sum(axis=0) + z + l2 * models[-1])))
    mu = as_floats(np.sqrt(squares) / noise)
    return Transcript(np.stack(models), as_floats(losses), mu, math.sqrt(steps) * clip / noise, sampling < 1)


def _step_losses(g: Floats, batch: Any, z: Floats, noise: float, sampling: float) -> Floats:
    """Return log density of the released sum with each row over without, given the other rows' batch."""
    square = np.einsum("ij,ij->i", g, g)
    # the release minus the others' sum is z, plus the row's own gradient where it was in the batch
    ratio = (g @ z + batch * square - square / 2) / noise**2
    if sampling == 1:
        return as_floats(ratio)
    return as_floats(np.logaddexp(math.log1p(-sampling), math.log(sampling) + ratio))
