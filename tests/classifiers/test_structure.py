"""The structure of a model: every form is read once, whoever asks, and never travels to another process."""

import pickle

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

import epsworth as ew
from epsworth.classifiers import structure
from epsworth.classifiers.reading import Unsupported

rng = np.random.default_rng(0)
X = rng.random((120, 3))
Y = (X[:, 0] + X[:, 1] > 1).astype(int)
MODELS = {
    "trees": RandomForestClassifier(3, random_state=0),
    "linear": LogisticRegression(),
    "quadratic": GaussianNB(),
    "network": MLPClassifier((3,), max_iter=5, random_state=0),
}
READERS = {"trees": "read_trees", "linear": "scored", "quadratic": "read_quadratic", "network": "read_network"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("form", MODELS)
def test_a_form_is_read_once_and_the_others_say_why_there_is_none(form, monkeypatch):
    reader, reads = getattr(structure, READERS[form]), []
    counting = lambda model: reads.append(model) or reader(model)  # noqa: E731  of one line, as a reader is
    monkeypatch.setattr(structure, READERS[form], counting)
    classifier = ew.as_classifier(MODELS[form].fit(X, Y))
    assert getattr(classifier.structure, form) is getattr(classifier.structure, form)
    assert reads == [classifier.model]
    for other in MODELS.keys() - {form, "linear"}:  # any estimator may have scores
        for _ in range(2):
            with pytest.raises(Unsupported):
                getattr(classifier.structure, other)


def test_a_question_reads_the_trees_once_and_the_next_one_sees_that_they_were_fitted_again(monkeypatch):
    reader, reads = structure.read_trees, []
    monkeypatch.setattr(structure, "read_trees", lambda model: reads.append(model) or reader(model))
    model = RandomForestClassifier(3, random_state=0).fit(X, Y)
    classifier = ew.as_classifier(model)
    given = {"sensitive": [0, 1], "mechanisms": "pm", "epsilons": [1.0], "domain": {0: (0, 1), 1: (0, 1)}}
    assert (ew.stability(classifier, X[:2], **given).method == "cells").all()
    assert len(reads) == 1
    model.fit(X, Y & (X[:, 0] > 0.9))
    again, anew = (ew.stability(one, X[:2], **given) for one in (classifier, model))
    assert (again.method == "cells").all()
    np.testing.assert_array_equal(again.lower, anew.lower)


def test_what_was_read_stays_in_the_process():
    classifier = ew.as_classifier(MODELS["trees"].fit(X, Y))
    read = classifier.structure.trees
    copy = pickle.loads(pickle.dumps(classifier.structure))
    assert not copy._forms
    np.testing.assert_array_equal(copy.trees.threshold, read.threshold)


def test_nothing_is_read_of_a_function():
    function = ew.as_classifier(lambda records: records[:, 0] > 0.5)
    for form in MODELS:
        with pytest.raises(Unsupported):
            getattr(function.structure, form)
