"""The words of a page, explained: those that it uses, folded away below it."""

from __future__ import annotations

import html
import re

TERMS = {  # by term: how a page uses it, and what it means
    "attacker's certainty": (
        r"attacker",
        "How probable a suspicion about a person can become for somebody who sees the release. From 50 % means that "
        "the suspicion and its opposite were equally likely before.",
    ),
    "accuracy": (r"accuracy|true one|labels right", "The share of records that get their true label."),
    "average": (r"average", "The mean over all records of the table: some records keep less."),
    "ceiling": (
        r"ceiling",
        "What no mechanism can promise at this ε, whoever invents it. It follows from the ε and the number of labels.",
    ),
    "cell": (
        r"\bcells?\b",
        "One of the boxes into which the ranges of the features are cut; all its points share a label.",
    ),
    "certificate": (r"certif", "A statement on a cell's label that is wrong with at most the probability told."),
    "confidence, sure": (
        r"\bsure\b|confidence",
        "How likely bounds that rest on random draws are right; the rest of 100 % is the risk that one is wrong.",
    ),
    "δ (delta)": (r"δ", "The probability with which a release may say more of a record than its ε allows."),
    "ε (epsilon)": (
        r"ε|epsilon",
        "How much a release may say of a record: no output is more than e^ε times as likely from one record as from "
        "another. The smaller it is, the better the record is protected.",
    ),
    "label": (r"\blabels?\b", "What the classifier answers for a record, for example yes or no."),
    "label retention": (
        r"stability|label (?:stays|is kept)|labels? kept|labels stay",
        "The probability that a record gets the same label after it was perturbed as before. It is also called "
        "stability.",
    ),
    "margin": (r"\bmargin|signed mean", "How clearly one label outweighs the other in a cell: 0 is undecided."),
    "mechanism": (r"mechanism", "A rule that replaces values by random ones before they leave."),
    "membership advantage": (
        r"advantage",
        "How much better than blindly the best attack tells whether a row was used: 0 is no better, 1 is certain.",
    ),
    "nat": (
        r"\bnats?\b",
        "The unit of what a release tells of the secret: 0 is nothing; the outcome of a toss-up is about seven tenths.",
    ),
    "noise": (r"\bnoises?\b", "A random number that is added to an answer before it is released."),
    "policy": (
        r"\bpolicy",
        "The file that devices run: which columns are perturbed, how, and which are sent as they are.",
    ),
    "population": (
        r"[Pp]opulation|people like",
        "All people from whom the records were drawn, not these records alone.",
    ),
    "record": (r"\brecords?\b|\brows?\b", "One row of the table, as a rule one person."),
    "split": (r"\bsplit\b", "How the ε of a record is shared out over its perturbed features."),
    "sub-sample": (r"sub-sampl", "The secret part of the pool that was used. A row that lies outside it was not used."),
    "tailored policy": (
        r"[Tt]ailored",
        "A policy that is made for one classifier: it perturbs a record as a whole, so that its label stays often.",
    ),
    "worst record": (r"worst", "The one for which least is guaranteed. What is said of it holds for every record."),
}


def glossary(content: str) -> str:
    """Return what the words of a page mean, folded away; ``content`` is the page's HTML.

    Examples
    --------
    >>> "as a rule one person" in glossary("<p>A record.</p>"), glossary("<p>A word.</p>")
    (True, '')
    """
    text = html.unescape(re.sub(r"<[^>]*>", " ", content))
    used = {term: meaning for term, (pattern, meaning) in TERMS.items() if re.search(pattern, text)}
    told = "".join(f"<div><dt>{html.escape(term)}</dt><dd>{meaning}</dd></div>" for term, meaning in used.items())
    return f'<details class="glossary"><summary>What the words mean</summary><dl>{told}</dl></details>' if told else ""
