from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa
from pyarrow import parquet

from invariance.core.errors import BadValue, DataError, UnknownName
from invariance.tabular.labelled_rows import Schema, infer_schema
from invariance.tabular.roles import stated_roles
from invariance.tabular.source import TableSource


def understood(path: Path, *arguments, **options) -> Schema:
    return infer_schema(TableSource.open(path), *arguments, **options)


def column(values, name: str = "v") -> list[list[str]]:
    """A table with one column of interest."""
    return [[name, "label", "site"], *([str(v), str(i % 2), "ab"[i % 3 == 0]] for i, v in enumerate(values))]


def kinds(path, **wanted) -> dict[str, str]:
    return {role.name: role.kind for role in understood(path, **wanted).roles}


def test_roles_are_guessed_from_names_and_values(table, patients):
    assert kinds(table(patients()), label="sick") == {
        "age": "numeric",
        "crp": "numeric",
        "ward": "categorical",
        "visits": "numeric",
        "sick": "label",
        "hospital": "environment",
    }


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        (range(40), "id", "row numbers"),
        ([7] * 40, "ignored", "the same in every row"),
        (["NA"] * 40, "ignored", "no value in any row"),
        ([f"id-{i}" for i in range(40)], "id", "nearly every row has its own value"),
        (range(1000, 1120, 3), "numeric", "1000 to 1117, each row its own; --id if it is an identifier"),
        ([i % 7 for i in range(40)], "numeric", "0 to 6, 7 different values"),
        (["yes", "no"] * 20, "categorical", "2 different values"),
        (["1", "2", "3+"] * 14, "categorical", "3 different values"),
        ([f"{i % 28 + 1}.3.2021" for i in range(40)], "date", "read as day.month.year"),
        ([f"patient {i} was seen by doctor {i}" for i in range(40)], "text", "hashed word counts"),
        ([f"{i:056x}deadbeef" for i in range(40)], "id", "nearly every row has its own value"),
    ],
)
def test_a_guess_says_why(table, values, kind, why):
    rows = [[*row, str(i * 7 % 40)] for i, row in enumerate(column(values))]
    rows[0][-1] = "other"
    (role,) = [role for role in understood(table(rows)).roles if role.name == "v"]
    assert role.kind == kind
    assert why in role.why


@pytest.mark.parametrize(
    ("values", "what", "advice"),
    [
        (["<5", *range(40)], "numbers mixed with words, such as '<5'", "--numeric"),
        ([f"{i},5" for i in range(40)], "numbers with commas or signs, such as '0,5'", "write them as 1234.5"),
        ([f"{i}" for i in range(30)] + [f"1,{i}00" for i in range(1, 9)], "numbers with commas or signs", "1234.5"),
        ([*range(10**42, 10**42 + 40)], "numbers beyond 3.4e+38", "--ignore"),
        ([f"{i} %" for i in range(40)], "numbers with commas or signs, such as '0 %'", "--categorical"),
    ],
)
def test_what_is_no_feature_is_refused_with_advice_and_may_be_left_out(table, values, what, advice):
    path = table([[*row, str(i * 7 % 40)] for i, row in enumerate(column(values))])
    with pytest.raises(DataError) as caught:
        understood(path)
    assert f"'v' holds {what}" in str(caught.value)
    assert advice in str(caught.value)
    assert "--ignore v" in str(caught.value)
    assert kinds(path, stated={"v": "ignored"})["v"] == "ignored"


def test_who_knows_better_is_believed(table):
    path = table(column([*range(39), "<5"]))
    assert kinds(path, stated={"v": "numeric"})["v"] == "numeric"
    assert kinds(path, stated={"v": "categorical"})["v"] == "categorical"


def test_a_wish_names_columns_one_by_one_or_joined_by_commas(table):
    source = TableSource.open(table('a,b,"c,d"\n1,2,3\n'))
    assert stated_roles(source, numeric=["a,b"], ignored=["c,d"]) == {"a": "numeric", "b": "numeric", "c,d": "ignored"}
    with pytest.raises(UnknownName, match="no column 'e'"):
        stated_roles(source, numeric=["a,e"])
    with pytest.raises(BadValue, match="'a' cannot be both numeric and ignored"):
        stated_roles(source, numeric=["a"], ignored=["a"])


def test_label_and_environment_are_two_columns_that_are_there(table, patients):
    path = table(patients())
    with pytest.raises(BadValue, match=r"which column of .* is the label"):
        understood(path)
    with pytest.raises(BadValue, match="cannot be both label and environment"):
        understood(path, "hospital", "hospital")
    assert kinds(path, label="sick", stated={"hospital": "categorical"})["hospital"] == "categorical"
    with pytest.raises(UnknownName, match="Did you mean 'sick'"):
        understood(path, "sic")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["1"] * 40, "is '1' in every row; at least two classes are needed"),
        ([""] * 40, "has no value in any row"),
        ([f"id-{i}" for i in range(40)], "40 different values; expected numbers, or at most 100 classes"),
    ],
)
def test_a_label_without_classes_is_refused(table, labels, message):
    rows = [["x", "label"], *([str(i * 7 % 40), label] for i, label in enumerate(labels))]
    with pytest.raises(DataError, match=message):
        understood(table(rows))


@pytest.mark.parametrize(
    "labels", [["0", "1"], ["0.0", "1.0"], ["-1", "1"], [str(i) for i in range(1, 21)], ["1", "2", "3+"]]
)
def test_few_whole_numbers_are_classes(table, labels):
    rows = [["x", "label"], *([str(i * 7 % 40), labels[i % len(labels)]] for i in range(60))]
    assert understood(table(rows)).encoder.label == "label"


@pytest.mark.parametrize(
    "labels", [[f"{i / 7:.3f}" for i in range(40)], ["0.5", "1.5"] * 20, [str(i % 21) for i in range(63)]]
)
def test_fractions_and_many_whole_numbers_are_amounts(table, labels):
    rows = [["x", "label"], *([str(i * 7 % 40), label] for i, label in enumerate(labels))]
    known = understood(table(rows))
    assert known.encoder.numeric_label
    assert "regression" in next(role.why for role in known.roles if role.name == "label")


def test_a_label_is_a_number_where_it_is_said_to_be(table):
    rows = [["x", "label"], *([str(i * 7 % 40), str(i % 3)] for i in range(60))]
    assert understood(table(rows), "label", stated={"label": "numeric"}).encoder.numeric_label
    words = [["x", "label"], *([str(i * 7 % 40), "ab"[i % 2]] for i in range(60))]
    with pytest.raises(DataError, match="holds no number, such as 'a'"):
        understood(table(words), "label", stated={"label": "numeric"})


def test_numbers_that_hardly_repeat_are_an_id_only_if_they_are_called_so(table):
    values = [str(i * i) for i in range(40)]
    for name, kind in (("patient_id", "id"), ("income", "numeric")):
        rows = [[*row, str(i * 7 % 40)] for i, row in enumerate(column(values, name))]
        rows[0][-1] = "other"
        assert kinds(table(rows))[name] == kind
        assert kinds(table(rows), stated={name: "categorical"})[name] == "categorical"


def test_a_date_that_is_none_is_refused_by_name(table):
    path = table([[*row, str(i * 7 % 40)] for i, row in enumerate(column(["a", "b"] * 20))])
    with pytest.raises(DataError, match="'v' holds no dates of a known format, such as 'a'"):
        understood(path, stated={"v": "date"})


def test_true_and_false_are_classes_in_a_file_that_knows_them(tmp_path):
    columns = {"x": [i * 7 % 40 for i in range(40)], "label": [i % 2 == 0 for i in range(40)]}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert understood(tmp_path / "t.parquet").encoder.label == "label"


def test_many_numbers_are_classes_where_they_are_said_to_be_names(table):
    rows = [["x", "label"], *([str(i * 7 % 40), f"{i % 30}"] for i in range(90))]
    known = understood(table(rows), "label", stated={"label": "categorical"})
    assert [(role.name, role.kind) for role in known.roles] == [("x", "numeric"), ("label", "label")]


def test_a_table_with_nothing_to_learn_from_is_refused(table):
    with pytest.raises(DataError, match="no column is left to predict 'label' from"):
        understood(table(column(["x"] * 40)))
    with pytest.raises(DataError, match="a header and no rows"):
        understood(table("v,label\n"))
