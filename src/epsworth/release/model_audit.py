"""Whether a classifier is still the one that a tailored policy copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epsworth.classifiers.fingerprints import ASKED, fingerprint
from epsworth.release.given import Given, as_policy
from epsworth.results import Result


@dataclass(frozen=True)
class ModelAudit(Result):
    """What a classifier's answers say.

    Attributes
    ----------
    policy : str
        Its fingerprint.
    model : str
        The classifier's fingerprint.
    copied : tuple of str
        Those of the classifiers that the policy copied.
    """

    policy: str
    model: str
    copied: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the classifier is one of those that were copied, as far as its answers tell."""
        return self.model in self.copied

    def __str__(self) -> str:
        """Return the finding in a sentence."""
        if self.passed:
            return f"model {self.model[:12]}: answers {ASKED} fixed records as the classifier that was copied: passed"
        shown = ", ".join(one[:12] for one in self.copied) or "none that is named"
        return (
            f"model {self.model[:12]}: another classifier than the one that was copied ({shown}): FAULT; epsilon "
            "holds, labels may not: tailor a policy for this model"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON form."""
        document: dict[str, Any] = super().to_dict()
        return document | {"passed": self.passed}


def audit_model(policy: Given, model: Any) -> ModelAudit:
    """Compare a classifier's answers with those of the one that a tailored policy copied (see `fingerprint`).

    Raises
    ------
    ValueError
        If the policy is no tailored one, or the classifier reads columns that it does not declare.
    """
    policy = as_policy(policy)
    if policy.tailoring is None:
        raise ValueError("model: the policy has rules alone, which fit any classifier; drop the model")
    seen = [grid.feature for grid in policy.tailoring.grids]
    return ModelAudit(policy.fingerprint, fingerprint(model, seen), policy.tailoring.classifiers)
