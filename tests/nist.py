"""NIST's linear regressions, and their answers in exact arithmetic.

Data are as published in the Statistical Reference Datasets; Wampler's are by their
formulas. Answers come from the decimals by rational arithmetic, apart from any code of
the package, and are checked against the digits that NIST certifies.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

# The response, then the columns.
_NORRIS = """
0.1 0.2; 338.8 337.4; 118.1 118.2; 888.0 884.6; 9.2 10.1; 228.1 226.5; 668.5 666.3;
998.5 996.3; 449.1 448.6; 778.9 777.0; 559.2 558.2; 0.3 0.4; 0.1 0.6; 778.1 775.5;
668.8 666.9; 339.3 338.0; 448.9 447.5; 10.8 11.6; 557.7 556.0; 228.3 228.1;
998.0 995.8; 888.8 887.6; 119.6 120.2; 0.3 0.3; 0.6 0.3; 557.6 556.8; 339.3 339.1;
888.0 887.2; 998.5 999.0; 778.9 779.0; 10.2 11.1; 117.6 118.3; 228.9 229.2;
668.4 669.1; 449.2 448.9; 0.2 0.5
"""

_LONGLEY = """
60323 83 234289 2356 1590 107608 1947; 61122 88.5 259426 2325 1456 108632 1948;
60171 88.2 258054 3682 1616 109773 1949; 61187 89.5 284599 3351 1650 110929 1950;
63221 96.2 328975 2099 3099 112075 1951; 63639 98.1 346999 1932 3594 113270 1952;
64989 99 365385 1870 3547 115094 1953; 63761 100 363112 3578 3350 116219 1954;
66019 101.2 397469 2904 3048 117388 1955; 67857 104.6 419180 2822 2857 118734 1956;
68169 108.4 442769 2936 2798 120445 1957; 66513 110.8 444546 4681 2637 121950 1958;
68655 112.6 482704 3813 2552 123366 1959; 69564 114.2 502601 3931 2514 125368 1960;
69331 115.7 518173 4806 2572 127852 1961; 70551 116.9 554894 4007 2827 130081 1962
"""

_FILIP = """
0.8116 -6.860120914; 0.9072 -4.324130045; 0.9052 -4.358625055; 0.9039 -4.358426747;
0.8053 -6.955852379; 0.8377 -6.661145254; 0.8667 -6.355462942; 0.8809 -6.118102026;
0.7975 -7.115148017; 0.8162 -6.815308569; 0.8515 -6.519993057; 0.8766 -6.204119983;
0.8885 -5.853871964; 0.8859 -6.109523091; 0.8959 -5.79832982; 0.8913 -5.482672118;
0.8959 -5.171791386; 0.8971 -4.851705903; 0.9021 -4.517126416; 0.909 -4.143573228;
0.9139 -3.709075441; 0.9199 -3.499489089; 0.8692 -6.300769497; 0.8872 -5.953504836;
0.89 -5.642065153; 0.891 -5.031376979; 0.8977 -4.680685696; 0.9035 -4.329846955;
0.9078 -3.928486195; 0.7675 -8.56735134; 0.7705 -8.363211311; 0.7713 -8.107682739;
0.7736 -7.823908741; 0.7775 -7.522878745; 0.7841 -7.218819279; 0.7971 -6.920818754;
0.8329 -6.628932138; 0.8641 -6.323946875; 0.8804 -5.991399828; 0.7668 -8.781464495;
0.7633 -8.663140179; 0.7678 -8.473531488; 0.7697 -8.247337057; 0.77 -7.971428747;
0.7749 -7.676129393; 0.7796 -7.352812702; 0.7897 -7.072065318; 0.8131 -6.774174009;
0.8498 -6.478861916; 0.8741 -6.159517513; 0.8061 -6.835647144; 0.846 -6.53165267;
0.8751 -6.224098421; 0.8856 -5.910094889; 0.8919 -5.598599459; 0.8934 -5.290645224;
0.894 -4.974284616; 0.8957 -4.64454848; 0.9047 -4.290560426; 0.9129 -3.885055584;
0.9209 -3.408378962; 0.9219 -3.13200249; 0.7739 -8.726767166; 0.7681 -8.66695597;
0.7665 -8.511026475; 0.7703 -8.165388579; 0.7702 -7.886056648; 0.7761 -7.588043762;
0.7809 -7.283412422; 0.7961 -6.995678626; 0.8253 -6.691862621; 0.8602 -6.392544977;
0.8809 -6.067374056; 0.8301 -6.684029655; 0.8664 -6.378719832; 0.8834 -6.065855188;
0.8898 -5.752272167; 0.8964 -5.132414673; 0.8963 -4.811352704; 0.9074 -4.098269308;
0.9119 -3.66174277; 0.9228 -3.2644011
"""

# Deflection at 150,000, 300,000 and so on, twice.
_PONTIUS = (
    ".11019 .21956 .32949 .43899 .54803 .65694 .76562 .87487 .98292 1.09146 1.20001 "
    "1.30822 1.41599 1.52399 1.63194 1.73947 1.84646 1.95392 2.06128 2.16844",
    ".11052 .22018 .32939 .43886 .54798 .65739 .76596 .87474 .98300 1.09150 1.20004 "
    "1.30818 1.41613 1.52408 1.63159 1.73965 1.84696 1.95445 2.06177 2.16829",
)

_DELTAS = (759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048)


@dataclass(frozen=True)
class Line:
    """One data set.

    Attributes:
        name: as NIST has it.
        formula: over y and x, or y and x1 to x6.
        table: by column, decimals as text.
        columns: the design's, intercept included.
    """

    name: str
    formula: str
    table: dict[str, list[str]]
    columns: list[list[Fraction]]

    @property
    def response(self) -> list[Fraction]:
        return [Fraction(one) for one in self.table["y"]]

    def answer(self) -> tuple[list[Fraction], list[Fraction]]:
        """Coefficients, and their squared standard errors."""
        return exact_fit(self.columns, self.response)


def exact_fit(
    columns: list[list[Fraction]], y: list[Fraction]
) -> tuple[list[Fraction], list[Fraction]]:
    """Coefficients, and their squared standard errors, by Gauss-Jordan."""
    p = len(columns)
    rows = [
        [_dot(a, b) for b in columns]
        + [Fraction(int(i == j)) for j in range(p)]
        + [_dot(a, y)]
        for i, a in enumerate(columns)
    ]
    for i in range(p):
        rows[i] = [one / rows[i][i] for one in rows[i]]
        for j in range(p):
            if j != i:
                times = rows[j][i]
                rows[j] = [a - times * b for a, b in zip(rows[j], rows[i], strict=True)]
    b = [row[-1] for row in rows]
    explained = sum(c * _dot(a, y) for c, a in zip(b, columns, strict=True))
    variance = (_dot(y, y) - explained) / (len(y) - p)
    return b, [rows[i][p + i] * variance for i in range(p)]


def _dot(left: list[Fraction], right: list[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction(0))


def root(number: Fraction) -> Fraction:
    """The square root, right to 80 digits."""
    scale = 10**160
    return Fraction(isqrt(number.numerator * scale**2 // number.denominator), scale)


def _table(text: str) -> dict[str, list[str]]:
    rows = [one.split() for one in text.replace("\n", " ").split(";")]
    y, *columns = map(list, zip(*rows, strict=True))
    names = ["x"] if len(columns) == 1 else [f"x{k + 1}" for k in range(len(columns))]
    return {"y": y, **dict(zip(names, columns, strict=True))}


def _polynomial(
    name: str, table: dict[str, list[str]], degree: int, *, least: int = 0
) -> Line:
    powers = range(least, degree + 1)
    terms = ["x" if k == 1 else f"x_{k}" for k in powers if k]
    formula = f"y ~ {' + '.join(terms)}{' - 1' if least else ''}"
    x = [Fraction(one) for one in table["x"]]
    return Line(name, formula, table, [[one**k for one in x] for k in powers])


def _wampler(number: int) -> Line:
    x = range(21)
    step = Fraction(1, 10) if number == 2 else Fraction(1)
    scale = {3: 1, 4: 100, 5: 10_000}.get(number, 0)
    deltas = [*_DELTAS, *_DELTAS[-2::-1]]
    y = [
        float(sum((step * one) ** k for k in range(6))) + scale * delta
        for one, delta in zip(x, deltas, strict=True)
    ]
    text = {"y": [f"{one:.5f}" for one in y], "x": [*map(str, x)]}
    return _polynomial(f"Wampler{number}", text, 5)


def lines() -> list[Line]:
    """Every data set with one response and an answer."""
    longley = _table(_LONGLEY)
    xs = [[Fraction(one) for one in longley[f"x{k}"]] for k in range(1, 7)]
    loads = [str(150_000 * (k % 20 + 1)) for k in range(40)]
    pontius = {"y": " ".join(_PONTIUS).split(), "x": loads}
    first = {"y": [*map(str, range(130, 141))], "x": [*map(str, range(60, 71))]}
    second = {"y": ["3", "4", "4"], "x": ["4", "5", "6"]}
    return [
        _polynomial("Norris", _table(_NORRIS), 1),
        _polynomial("Pontius", pontius, 2),
        _polynomial("NoInt1", first, 1, least=1),
        _polynomial("NoInt2", second, 1, least=1),
        _polynomial("Filip", _table(_FILIP), 10),
        Line(
            "Longley",
            "y ~ x1 + x2 + x3 + x4 + x5 + x6",
            longley,
            [[Fraction(1)] * 16, *xs],
        ),
        *map(_wampler, range(1, 6)),
    ]


# Estimates and standard deviations that NIST certifies, the first and the last of each.
CERTIFIED = {
    "Norris": (
        ("-0.262323073774029", "0.232818234301152"),
        ("1.00211681802045", "0.429796848199937E-03"),
    ),
    "Pontius": (
        ("0.673565789473684E-03", "0.107938612033077E-03"),
        ("-0.316081871345029E-14", "0.486652849992036E-16"),
    ),
    "NoInt1": (("2.07438016528926", "0.165289256198347E-01"),) * 2,
    "NoInt2": (("0.727272727272727", "0.420827318078432E-01"),) * 2,
    "Filip": (
        ("-1467.48961422980", "298.084530995537"),
        ("-0.402962525080404E-04", "0.896632837373868E-05"),
    ),
    "Longley": (
        ("-3482258.63459582", "890420.383607373"),
        ("1829.15146461355", "455.478499142212"),
    ),
    "Wampler1": (("1", "0"), ("1", "0")),
    "Wampler2": (("1", "0"), ("0.1E-04", "0")),
    "Wampler3": (("1", "2152.32624678170"), ("1", "0.112324854679312")),
    "Wampler4": (("1", "215232.624678170"), ("1", "11.2324854679312")),
    "Wampler5": (("1", "21523262.4678170"), ("1", "1123.24854679312")),
}


if __name__ == "__main__":  # for R, see references/nist_lm.R
    for one in lines():
        print(one.name, "formula", one.formula, sep="\t")
        for column, numbers in one.table.items():
            print(one.name, column, *numbers, sep="\t")
