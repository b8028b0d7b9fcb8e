"""The checker of shapes and types during tests: a float is also a complex number."""

from beartype import BeartypeConf, beartype

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))
