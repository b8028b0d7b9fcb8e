"""Columns that tables have beside others, computed from these before anybody asks.

A formula does not compute. More than the forms of derived columns is asked of all
parties as a column of such values; here a text in braces stands for one.
"""

import hashlib
import re
from dataclasses import replace

import numpy as np

from veilsum.numbers import elementary
from veilsum.tables.frames import as_frame
from veilsum.tables.schema import Column

KNOWN = {
    "where": np.where,
    "abs": np.abs,
    "sqrt": np.sqrt,
    **{name: getattr(elementary, name) for name in ("exp", "log", "log1p")},
}


def computed(formula, tables, schema=None):
    """Return a formula with names for texts in braces; tables get the columns."""
    codes = dict.fromkeys(re.findall(r"\{(.*?)\}", formula))
    if not codes:
        return formula, tables, schema
    tables, columns = {name: as_frame(one) for name, one in tables.items()}, []
    for code in codes:
        name = f"made_{hashlib.sha256(code.encode()).hexdigest()[:8]}"
        formula = formula.replace(f"{{{code}}}", name)
        for one in tables.values():
            own = {key: one[key].to_numpy() for key in one.columns}
            with np.errstate(all="ignore"):
                values = eval(code, {"__builtins__": {}, **KNOWN}, own)
            one[name] = np.broadcast_to(values, len(one)) * 1.0
        pooled = np.concatenate([one[name] for one in tables.values()])
        low, high = float(pooled.min()), float(pooled.max())
        kind = "integer" if {*pooled} <= {0.0, 1.0} else "number"
        low, high = (0, 1) if kind == "integer" else (low, high)
        columns.append(Column(name, kind, low, max(high, low + 1e-9)))
    if schema is not None:
        schema = replace(schema, columns=(*schema.columns, *columns))
    return formula, tables, schema
