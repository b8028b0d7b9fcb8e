"""Public names: those of `veilsum` itself, and those of its public packages."""

import pkgutil

import veilsum


def public_packages():
    """Return the public packages that list names of their own."""
    modules = pkgutil.iter_modules(veilsum.__path__)
    names = [module.name for module in modules if module.ispkg]
    return [getattr(veilsum, name) for name in names if name in veilsum.__all__]


def homes():
    """Return every public name with the package that has it, as `minimise.Box`."""
    names = {}
    for package in (veilsum, *public_packages()):
        prefix = package.__name__.removeprefix("veilsum").removeprefix(".")
        for name in package.__all__:
            names[f"{prefix}.{name}".removeprefix(".")] = (package, name)
    packages = {package.__name__ for package in public_packages()} | {"veilsum.errors"}
    return {
        key: home for key, home in names.items() if f"veilsum.{key}" not in packages
    }


def public_names():
    """Return every public name with its value."""
    return {key: getattr(*home) for key, home in homes().items()}
