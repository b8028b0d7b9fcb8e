"""Tables from files and from memory: what is written is what is read."""

import gzip
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, strategies as st

from cases import each
from refusals import refused
from veilsum.errors import InvalidInputError
from veilsum.files import tables
from veilsum.files.tables import agreed_table, read_table, table_to_draft
from veilsum.tables.frames import as_frame
from veilsum.tables.schema import Column, Schema, SchemaError

polars = pytest.importorskip("polars")
TEXT = "age,hba1c,sex\n61,7.4,f\n58,,m\n"


def written(folder, text, name="table.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def columns_of(frame):
    return {name: frame[name].tolist() for name in frame.columns}


def test_a_csv_file_is_read_with_its_types(tmp_path):
    found = read_table(written(tmp_path, TEXT))
    assert found["age"].tolist() == [61, 58]
    assert found["age"].dtype == np.int64
    assert found["hba1c"].iloc[0] == 7.4
    assert found["hba1c"].isna().tolist() == [False, True]
    assert found["sex"].tolist() == ["f", "m"]


def test_a_compressed_file_is_the_same_table(tmp_path):
    plain = read_table(written(tmp_path, TEXT))
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    pd.testing.assert_frame_equal(read_table(str(path)), plain)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    path = written(tmp_path, "age\n1\n", encoding="utf-8-sig")
    assert list(read_table(path).columns) == ["age"]


def test_a_decimal_comma_stays_text_until_it_is_named(tmp_path):
    path = written(tmp_path, 'x;y\n"7,4";1\n"6,25";2\n')
    assert read_table(path, separator=";")["x"].tolist() == ["7,4", "6,25"]
    found = read_table(path, separator=";", decimal=",")
    assert found["x"].tolist() == [7.4, 6.25]
    points = written(tmp_path, "x;y\n7.4;1\n", name="points.csv")
    assert read_table(points, separator=";", decimal=",")["x"].tolist() == ["7.4"]


def test_thousands_stay_text(tmp_path):
    path = written(tmp_path, 'x,y\n"1,234",1\n')
    assert read_table(path)["x"].tolist() == ["1,234"]


def test_one_word_among_numbers_makes_the_column_text(tmp_path):
    path = written(tmp_path, "x\n1\nunknown\n")
    assert read_table(path)["x"].tolist() == ["1", "unknown"]


def test_only_the_listed_words_are_missing_values(tmp_path):
    path = written(tmp_path, "x,land\n1,NA\nNA,None\n3,null\n")
    found = read_table(path)
    assert found["x"].isna().tolist() == [False, True, False]
    assert found["land"].isna().tolist() == [True, False, False]
    assert read_table(path, missing=[""])["land"].tolist() == ["NA", "None", "null"]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_words_for_missing_values_are_the_files_own(tmp_path, ending):
    """The twin: without the word a column is what it would be without the file."""
    path = tmp_path / f"table{ending}"
    pack = gzip.compress if ending == ".csv.gz" else bytes
    path.write_bytes(pack(b"age,bmi,ward\n-9,.,a\n40,27.5,-9\n,31,NA\n"))
    found = read_table(path, missing=["-9", "."])
    assert found.isna().to_numpy().tolist() == [
        [True, True, False],
        [False, False, True],
        [True, False, False],
    ]
    assert found["bmi"].tolist()[1:] == [27.5, 31.0]
    assert found["ward"][2] == "NA"
    plain = read_table(path)
    assert plain["age"].tolist()[:2] == [-9, 40]
    assert plain["bmi"].tolist() == [".", "27.5", "31"]


LETTERS = "name,ward\nJos\xe9,a\nZo\xeb,b\n"


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-8", "UTF8"])
def test_letters_are_read_in_the_encoding_that_was_named(tmp_path, encoding):
    path = written(tmp_path, LETTERS, encoding=encoding)
    assert read_table(path, encoding=encoding)["name"].tolist() == ["Jos\xe9", "Zo\xeb"]


@pytest.mark.parametrize(
    ("content", "encoding", "where"),
    [
        (
            LETTERS.encode("latin-1"),
            "utf-8",
            "line 2, character 4, in the column 'name'",
        ),
        (b"a,b\r\n1,2\r\n1,x\xff\r\n", "utf-8", "line 3, character 4, .*'b', .*0xff"),
        (b"a,b\n1,\x81\n", "cp1252", "CP1252 text: line 2, character 3.*'b'.*0x81"),
        (b"n\xe9,b\n1,2\n", "utf-8", "line 1, character 2, has the byte 0xe9"),
        (b'a,b\n"1,2",\xe9\n', "utf-8", "line 2, character 7, has the byte"),
        (b"a,b\n" + b"1,2\n" * 99_999 + b"1,\xe9\n", "utf-8", "line 100001, char"),
        (b"a,b\n1,2\n\xe2\x82", "utf-8", "line 3, character 1.*0xe2"),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_bytes_that_are_no_text_are_said_where_they_stand(
    tmp_path, content, encoding, where, ending
):
    path = tmp_path / f"table{ending}"
    path.write_bytes((gzip.compress if ending == ".csv.gz" else bytes)(content))
    with pytest.raises(InvalidInputError, match=where) as caught:
        read_table(path, encoding=encoding)
    assert "--encoding" in str(caught.value)


@pytest.mark.parametrize(
    "said", [{"missing": ["-9"]}, {"encoding": "cp1252"}, {"separator": ";"}]
)
def test_words_about_a_csv_file_are_refused_where_there_is_none(tmp_path, said):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.parquet"
    pd.DataFrame({"x": [1.5]}).to_parquet(path)
    with refused("csv-option-unused"):
        read_table(path, **said)


SEEN = Schema((Column("seen", "date", since="2000-01-01"),), minimum_rows=1)


@pytest.mark.parametrize(
    ("form", "cell"),
    [
        ("%d.%m.%Y", "3.12.2001"),
        ("%m/%d/%Y", "12/03/2001"),
        ("%Y%m%d", "20011203"),
        ("%d %b %Y", "03 Dec 2001"),
        ("%Y-%m-%d %H:%M", "2001-12-03 00:00"),
        (None, "2001-12-03"),
    ],
)
def test_dates_are_read_as_the_file_writes_them(tmp_path, form, cell):
    path = written(tmp_path, f"seen,x\n{cell},1\nNA,2\n")
    table = agreed_table(path, SEEN, dates=form)
    assert table["seen"].tolist()[0] == "2001-12-03"
    assert table["seen"].isna().tolist() == [False, True]
    with refused("missing-values", SchemaError, mentions=("1", "seen")):
        SEEN.check("a", table)


@pytest.mark.parametrize(
    ("form", "cell", "why"),
    [
        ("%d.%m.%Y", "2001-12-03", "row.* in its column 'seen'.* '%d.%m.%Y'"),
        ("%d.%m.%Y", "31.02.2001", "31.02.2001.* not written as"),
        ("%d.%m.%y", "03.12.01", "four digits"),
        ("%m.%Y", "11.1999", "a day, a month and a year"),
        ("none", "11.1999", "a day, a month and a year"),
    ],
)
def test_dates_that_would_have_to_be_guessed_are_refused(tmp_path, form, cell, why):
    path = written(tmp_path, f"seen,x\n{cell},1\n")
    with pytest.raises(InvalidInputError, match=why) as caught:
        agreed_table(path, SEEN, dates=form)
    assert cell not in caught.value.plain


def test_a_way_of_writing_dates_needs_dates(tmp_path):
    path = written(tmp_path, TEXT)
    for schema in (None, Schema((Column("age", "integer"),))):
        with refused("dates-without-column"):
            agreed_table(path, schema, dates="%d.%m.%Y")
    table = agreed_table(written(tmp_path, "seen\n2001-12-03 10:30\n"), SEEN)
    with refused("not-dates", SchemaError, mentions=("2001-12-03 10:30",)):
        SEEN.check("a", table)


def test_codes_keep_their_zeros_if_asked(tmp_path):
    path = written(tmp_path, "zip,x\n01,1\n\n02,2\n")
    assert read_table(path)["zip"].tolist() == [1, 2]
    assert read_table(path, text=["zip"])["zip"].tolist() == ["01", "02"]


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)
)
@example([0.04097352393619469, 0.9127555772777217])  # a quick parser misses a bit
def test_numbers_are_read_to_the_last_bit(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("bits")
    path = written(folder, "x\n" + "".join(f"{one!r}\n" for one in numbers))
    found = read_table(path)["x"]
    assert [Fraction(one) for one in found] == [Fraction(one) for one in numbers]


@pytest.mark.parametrize("name", ["table.xlsx", "table", "table.csv.zip"])
def test_an_unknown_ending_is_refused(tmp_path, name):
    path = written(tmp_path, TEXT, name=name)
    with refused("unknown-file-ending"):
        read_table(path)


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none.csv.gz"])
def test_a_missing_file_is_named(tmp_path, name):
    with refused("no-such-file", mentions=(name,)):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("empty.csv", b"", "not a table"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "not a table"),
        ("longer.csv", b"a,b\n1,2,3\n4,5,6\n", "not a table"),
        ("latin.csv", "name\nJos\xe9\n".encode("latin-1"), "UTF-8"),
        ("plain.csv.gz", b"a,b\n1,2\n", "not a table|cannot read"),
        ("cut.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99)[:-12], "not a table"),
        ("noise.parquet", b"PAR1 no more", "not a table|cannot read"),
        ("semicolons.csv", b"a;b\n1;2\n", "separator = ';' .*--separator ';'"),
        ("tabs.csv", b"a\tb\n1\t2\n", r"separator = '\\t' .*--separator tab"),
        ("twice.csv", b"a,b,a\n1,2,3\n", "more than one column named a"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_what_is_no_table_is_refused_with_its_name(tmp_path, name, content, why):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=why) as caught:
        read_table(path)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"decimal": ","}, "both ','"),
        ({"decimal": ";"}, "decimal mark must be"),
        ({"separator": ""}, "one character"),
        ({"separator": "::"}, "one character"),
        ({"encoding": "utf-9"}, "no encoding is called 'utf-9'; .* cp1252"),
        ({"encoding": "base64"}, "no encoding is called 'base64'"),
        ({"missing": "NA"}, "a list of texts"),
        ({"missing": [-9]}, "a list of texts"),
    ],
    ids=[
        *("both commas", "odd mark", "none", "long", "no encoding", "no text"),
        *("a word", "a number"),
    ],
)
def test_marks_that_cannot_work_are_refused(tmp_path, options, why):
    with pytest.raises(InvalidInputError, match=why):
        read_table(written(tmp_path, TEXT), **options)


def test_parquet_files_keep_types_and_a_named_index(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x": [1.5, None], "k": [1, 2], "s": ["a", None]})
    frame["c"] = pd.Categorical(["u", "v"])
    frame.to_parquet(tmp_path / "plain.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "plain.parquet"), frame)
    frame.set_index("k").to_parquet(tmp_path / "index.parquet")
    found = read_table(tmp_path / "index.parquet")
    assert sorted(found.columns) == ["c", "k", "s", "x"]
    assert found["k"].tolist() == [1, 2]


def test_every_kind_of_table_gives_the_same_frame():
    columns = {"x": [1.5, 2.5], "k": [1, 2]}
    expected = pd.DataFrame(columns)
    rows = np.array([(1.5, 1), (2.5, 2)], dtype=[("x", "f8"), ("k", "i8")])
    for made in (expected, columns, polars.DataFrame(columns), rows):
        pd.testing.assert_frame_equal(as_frame(made), expected)
    plain = as_frame(np.array([[1.5, 1], [2.5, 2]]), names=["x", "k"])
    pd.testing.assert_frame_equal(plain, expected.astype(float))


def test_columns_are_matched_by_position_and_not_by_an_index():
    first = pd.Series([1.0, 2.0], index=[5, 6])
    second = pd.Series([3.0, 4.0], index=[6, 7])
    found = as_frame({"a": first, "b": second, "c": np.array([5, 6])})
    assert columns_of(found) == {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5, 6]}


def test_polars_tables_need_no_pyarrow():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import polars as pl\n"
        "from veilsum.tables.frames import as_frame\n"
        "frame = pl.DataFrame({'k': [1, None, 2**60], 'x': [1.5, None, 2.5],"
        " 's': ['a', None, 'b'], 'b': [True, None, False], 'i': [1, 2, 3]},"
        " schema_overrides={'s': pl.Categorical})\n"
        "found = as_frame(frame)\n"
        "print(found['k'].dtype, int(found['k'][2]) == 2**60, found['i'].dtype)\n"
        "print(found.isna().to_numpy().sum(axis=0).tolist())\n"
        "print(float(found['x'][2]), found['s'][2], found['b'][2])\n"
    )
    words = [sys.executable, "-c", code]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert found.stdout.splitlines() == [
        "Int64 True int64",
        "[1, 1, 1, 1, 0]",
        "2.5 b False",
    ], found.stderr


@pytest.mark.parametrize(
    ("package", "call", "extra"),
    [
        ("pandas", "as_frame({'a': [1]})", ".[data]"),
        ("pandas", "read_table(sys.argv[1])", ".[data]"),
        ("pyarrow.parquet", "read_table(sys.argv[2])", ".[parquet]"),
    ],
)
def test_a_missing_package_names_its_extra(tmp_path, package, call, extra):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from veilsum.errors import MissingExtraError\n"
        "from veilsum.files.tables import read_table\n"
        "from veilsum.tables.frames import as_frame\n"
        f"try:\n    {call}\nexcept MissingExtraError as error:\n    print(error)"
    )
    files = [written(tmp_path, TEXT), written(tmp_path, "PAR1", name="a.parquet")]
    words = [sys.executable, "-c", code, *map(str, files)]
    found = subprocess.run(words, check=False, capture_output=True, text=True)
    assert extra in found.stdout, found.stderr


@each(
    ("data", "names", "why"),
    [
        (np.zeros((2, 2)), None, "give names="),
        (np.zeros((2, 2)), ["a"], "2 columns, and names has 1"),
        (np.zeros((2, 2)), ["a", "a"], "more than one column named a"),
        (np.zeros(3), ["a"], "two dimensions"),
        ({"a": [1, 2], "b": [1]}, None, "'a' 2, 'b' 1"),
        ({"a": [1, 2], "b": 3}, None, "'b' must be a list"),
        ({"a": "text"}, None, "'a' must be a list"),
        ({"a": [1]}, ["a"], "names are for a plain NumPy array"),
        ({1: [1]}, None, "named 1"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "more than one column"),
        (pd.DataFrame([[1, 2]]), None, "must be text"),
        (polars.LazyFrame({"a": [1]}), None, "collect"),
        ([[1, 2]], None, "found list"),
        (None, None, "found NoneType"),
    ],
    ids=[
        *("no names", "few names", "equal names", "one dimension", "lengths"),
        *("scalar", "word", "names twice", "number as name", "pandas twice"),
        *("pandas numbers", "lazy", "list", "none"),
    ],
)
def test_what_is_no_table_in_memory_is_refused(data, names, why):
    with pytest.raises(InvalidInputError, match=why):
        as_frame(data, names=names)


READER = """
import sys
from veilsum.tables.frames import load_pandas_alone
from veilsum.files.tables import read_table
if sys.argv[2] == "alone":
    load_pandas_alone()
table = read_table(sys.argv[1])
print(table.to_dict("list"), "pyarrow" in sys.modules)
"""


@pytest.mark.parametrize(("how", "loaded"), [("alone", False), ("whole", True)])
def test_a_csv_file_needs_no_pyarrow(tmp_path, how, loaded):
    """The twin: pandas itself loads it, where it is installed, as it is here."""
    path = tmp_path / "table.csv"
    path.write_text("age,ward\n41,a\n52,\n")
    words = [sys.executable, "-c", READER, str(path), how]
    found = subprocess.run(words, check=True, capture_output=True, text=True)
    assert found.stdout == f"{{'age': [41, 52], 'ward': ['a', nan]}} {loaded}\n"


@pytest.mark.parametrize("text", ["a,b\n" + "0,0\n" * 500_000, "0" * 2_000_000])
def test_a_packed_file_is_counted_while_it_is_unpacked(tmp_path, monkeypatch, text):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    read = []
    readinto = tables._UnpackedTableFile.readinto
    monkeypatch.setattr(
        tables._UnpackedTableFile,
        "readinto",
        lambda self, room: (count := readinto(self, room), read.append(count))[0],
    )
    assert len(read_table(path)) in {0, 500_000}  # within what any file may hold
    assert sum(read) >= len(text)
    read.clear()
    monkeypatch.setattr(tables, "ALWAYS_BYTES", 1 << 16)
    with refused("unpacks-too-large", mentions=("200",)):
        read_table(path)
    assert sum(read) <= 2 * 200 * path.stat().st_size + (1 << 20)  # and one buffer


def test_a_parquet_file_is_counted_before_and_while_it_is_unpacked(
    tmp_path, monkeypatch
):
    path = tmp_path / "table.parquet"
    frame = pd.DataFrame({"x": np.zeros(10_000), "s": ["long " * 2000] * 10_000})
    frame.to_parquet(path)
    assert path.stat().st_size < 100_000  # and 100 MB in memory
    with refused("unpacks-too-large", mentions=("200",)):
        read_table(path)
    monkeypatch.setattr(tables, "MOST_CELLS", 19_999)
    with refused("too-many-cells", mentions=("10,000", "2")):
        read_table(path)
    monkeypatch.setattr(tables, "MOST_CELLS", 20_000)
    frame[["x"]].to_parquet(path)
    pd.testing.assert_frame_equal(read_table(path), frame[["x"]])


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_categories_are_read_as_they_are_written(tmp_path, ending):
    """What pandas would make of a column depends on the other cells in it."""
    for levels in (
        ["True", "False"],
        ["TRUE", "FALSE"],
        ["1.0", "2.50"],
        ["01", "1"],
        ["1e3", "1000"],
        ["None", "null"],
        ["inf", "-0"],
        ["2020-01-01", "0x10"],
    ):
        text = "s,x\n" + "".join(f"{one},1\n" for one in levels * 3)
        pack = gzip.compress if ending == ".csv.gz" else bytes
        path = tmp_path / f"table{ending}"
        path.write_bytes(pack(text.encode()))
        line = {"kind": "category", "categories": levels}
        schema = Schema.from_table({"columns": {"s": line}})
        table = schema.check("ann", read_table(path, text=schema.categorical))
        assert table.frame["s"].tolist() == levels * 3
        other = {"kind": "category", "categories": [one + "x" for one in levels]}
        with refused("unknown-category"):
            Schema.from_table({"columns": {"s": other}}).check(
                "ann", read_table(path, text=schema.categorical)
            )


def test_a_table_to_draft_from_keeps_codes_and_finds_dates(tmp_path):
    text = "zip,seen,x,day\n01067,3.12.2001,1,20011203\n10115,,2,20010101\n"
    found = table_to_draft(written(tmp_path, text), dates="%d.%m.%Y")
    assert found["zip"].tolist() == ["01067", "10115"]
    assert found["seen"].tolist()[0] == "2001-12-03"
    assert found["x"].tolist() == [1, 2]
    assert found["day"].tolist() == [20011203, 20010101]
    other = table_to_draft(written(tmp_path, text), dates="%Y%m%d")
    assert other["day"].tolist() == ["2001-12-03", "2001-01-01"]
    assert other["seen"].tolist()[0] == "3.12.2001"
