"""Damaged inputs of every kind (:mod:`fuzz`): a few at each run, thousands with the full tests."""

import fuzz
import pytest

#: Trials of each kind: half a minute in all. A model is read by transformers, which takes the longest.
FEW = dict.fromkeys(fuzz.KINDS, 40) | {"model": 12}


@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_damaged_inputs_end_well(kind, tmp_path):
    assert fuzz.complaints(kind, range(FEW[kind]), tmp_path) == []


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("kind", fuzz.KINDS)
def test_a_thousand_damaged_inputs_end_well(kind, part, tmp_path):
    begin = FEW[kind] * (1 + 4 * part)
    assert fuzz.complaints(kind, range(begin, begin + 4 * FEW[kind]), tmp_path) == []


def test_a_reader_that_trusts_its_file_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("iclbook.inputs.is_as_written", lambda _: True)
    found = fuzz.complaints("executed", range(FEW["executed"]), tmp_path)
    assert any("silent" in each for each in found)
