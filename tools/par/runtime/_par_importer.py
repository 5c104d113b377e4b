# SPDX-License-Identifier: Apache-2.0
"""The importer of a PAR: bundles, and the finder and loaders for the modules in them.

This module is frozen into the launcher and runs before any other module can be found, so it uses
only built-in modules. Code that is needed later is in the package `par_runtime`, which is in the
archive like all other code.
"""

import _frozen_importlib as _bootstrap
import _frozen_importlib_external as _external
import _imp
import gc
import marshal
import posix
import sys

import _par

_SUFFIX = ".cpython-311.pyc"
_MAIN_NAMES = frozenset(("__main__", "__mp_main__"))
# An import or a program that creates this many objects counts as large. `import torch` creates
# 270,000.
_LARGE_IMPORT = 10_000
_LARGE_PROGRAM = 100_000
# Standard-library modules that par_runtime.adjustments patches.
_ADJUSTED = frozenset(("importlib.metadata", "inspect", "sysconfig"))


def read_file(path):
    import _io

    with _io.open(path, "rb") as stream:
        return stream.read()


class Bundle:
    """A packed directory: a wheel, the standard library, or the program's own files.

    The __file__ of a module is a path under `root`. If the files are on disk, `root` is their
    directory. If they are packed, `root` is a path that starts with the PAR's own path.
    """

    def __init__(self, runtime, number, row, archive, root, on_disk):
        self.runtime = runtime
        self.number = number
        self.name, self.prefix, self.zip_safe, self.stamp, self.needs_machine, self.needs = row
        self.archive = archive
        self.on_disk = on_disk
        self.virtual_root = root
        self.loader = Loader(self)
        self._root = root if on_disk or self.zip_safe else None

    @property
    def root(self):
        if self._root is None:
            self._root = self.unpacked("lib")
        return self._root

    def unpacked(self, group):
        """Return a directory that contains the files of `group`, which the first call unpacks."""
        if self.on_disk:
            return self.virtual_root
        from par_runtime import unpack

        return unpack.bundle_directory(self, group)


class Loader:
    """A loader for a bundle's modules (PEP 451), which also reads the bundle's files (PEP 302)."""

    def __init__(self, bundle):
        self.bundle = bundle

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__spec__.name
        code = self.get_code(name)
        # Almost all objects that an import creates live until the process exits. Repeated garbage
        # collections would take a tenth of the time of a large import.
        pause = gc.isenabled() and not self.bundle.runtime.settings.get("startup_gc")
        if pause:
            gc.disable()
        try:
            _bootstrap._call_with_frames_removed(exec, code, module.__dict__)
        finally:
            if pause:
                self.bundle.runtime.age_large_imports()
                gc.enable()
        if name in _ADJUSTED:
            from par_runtime import adjustments

            adjustments.adjust(self.bundle.runtime, module)

    def _row(self, name):
        if name in _MAIN_NAMES:  # linecache passes __name__, not the spec's name
            spec = getattr(sys.modules.get(name), "__spec__", None)
            name = spec.name if spec is not None else name
        row = self.bundle.runtime.modules.get(name)
        if row is None or row[0] != self.bundle.number:
            raise ImportError(f"{self.bundle.name} has no module {name!r}", name=name)
        return row

    def get_filename(self, name):
        return f"{self.bundle.root}/{self._row(name)[1]}"

    def is_package(self, name):
        return self._row(name)[2]

    def get_code(self, name):
        _, path, _, offset, size, digest, whole = self._row(name)
        archive = self.bundle.archive
        if whole:  # the entry is a compressed .pyc file, including its header
            try:
                pyc = _par.decompress(archive.read(offset, size, digest, path), whole)
            except ValueError:
                raise _par.ArchiveError(
                    f"{self.bundle.runtime.program}: {path} is damaged; build or copy the file again"
                ) from None
            code = marshal.loads(memoryview(pyc)[16:])
        else:
            code = archive.load(offset, size, digest, path)
        # co_filename must equal __file__, because Dynamo's skip rules and tracebacks compare the
        # two.
        _imp._fix_co_filename(code, f"{self.bundle.root}/{path}")
        return code

    def get_source(self, name):
        return _external.decode_source(self.get_data(self.get_filename(name)))

    def get_data(self, path):
        """Return the contents of a file under the bundle's root, whether packed or on disk."""
        path = posix.fspath(path)
        bundle = self.bundle
        if not bundle.on_disk:
            for root in (bundle.virtual_root, bundle._root):
                if root and path.startswith(root + "/"):
                    from par_runtime import files

                    return files.read(bundle, path[len(root) + 1 :])
        return read_file(path)

    def get_resource_reader(self, name):
        from par_runtime import resources

        return resources.reader(self.bundle, self.get_filename(name))

    def native_path(self, relative):
        """Return the path on disk of a file under the import root, and unpack it if needed.

        Native libraries are always unpacked. Headers and linker scripts are unpacked when a path to
        them, or to one of their parent directories, is first requested. Raises OSError if no
        directory is writable.
        """
        from par_runtime import unpack

        return unpack.native_path(self.bundle, relative)


class AliasLoader(Loader):
    """A loader that loads the module `real` under another name."""

    def __init__(self, bundle, real):
        super().__init__(bundle)
        self.real = real

    def _row(self, name):
        return super()._row(self.real)


class StaticLoader:
    """A loader for extensions that are linked into the launcher under their dotted names."""

    create_module = staticmethod(_par.create_static)

    @staticmethod
    def exec_module(module):
        _imp.exec_builtin(module)

    @staticmethod
    def is_package(name):
        return False


class NamespaceLoader:
    """A loader for a package without __init__.py, which has files to read but no code."""

    def __init__(self, bundle, relative):
        self.bundle = bundle
        self.relative = relative

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        return None

    def is_package(self, name):
        return True

    def get_source(self, name):
        return ""

    def get_code(self, name):
        return compile("", "<namespace>", "exec", dont_inherit=True)

    def get_resource_reader(self, name):
        from par_runtime import resources

        return resources.directory_reader(self.bundle, self.relative)


class Finder:
    """The first finder on sys.meta_path. It finds a module with a single dictionary lookup."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.static_names = frozenset(_par.static_names())
        self.trace = None

    def find_spec(self, name, path=None, target=None):
        spec = None
        if path is None or self._is_in(name, path):
            spec = self.concrete(name) or self._namespace(name, path)
        if self.trace is not None and spec is not None:
            self.trace(spec)
        return spec

    def _is_in(self, name, path):
        """Return whether the archive's module `name` is in a directory on its package's `path`.

        The result is False if the package has changed its __path__ to provide another module of
        this name. setuptools replaces the standard library's distutils in this way.
        """
        row = self.runtime.modules.get(name)
        if row is None:
            return True
        bundle, directory = self.runtime.bundles[row[0]], row[1].rpartition("/")[0]
        if row[2]:
            directory = directory.rpartition("/")[0]
        return f"{bundle.root}/{directory}" in path or f"{bundle.virtual_root}/{directory}" in path

    def concrete(self, name):
        """Return the spec of a module, or None if it is missing or a namespace package."""
        runtime = self.runtime
        row = runtime.modules.get(name)
        if row is not None:
            return self._module_spec(name, row)
        if name in self.static_names:
            return _bootstrap.ModuleSpec(name, StaticLoader, origin="static")
        row = runtime.extensions.get(name)
        if row is not None:
            return self._extension_spec(name, row)
        if name.endswith(".__init__"):
            return self._package_again(name)
        return None

    def _package_again(self, name):
        """Return a spec for the name `package.__init__`, which torch's C++ code imports.

        Returns None if the PAR contains no such package.
        """
        real = name.rpartition(".")[0]
        row = self.runtime.modules.get(real)
        if row is None or not row[2]:
            return None
        loader = AliasLoader(self.runtime.bundles[row[0]], real)
        return self._module_spec(name, (row[0], row[1], False), loader)

    def aliased(self, name, directory):
        """Return a spec for a module in `directory` that is imported under the name `name`.

        Returns None if no packed bundle contains the module.
        """
        for bundle in self.runtime.bundles:
            if not bundle.on_disk and directory.startswith(bundle.virtual_root + "/"):
                package = directory[len(bundle.virtual_root) + 1 :].replace("/", ".")
                real = f"{package}.{name.rpartition('.')[2]}"
                row = self.runtime.modules.get(real)
                if row is not None and row[0] == bundle.number:
                    return self._module_spec(name, row, AliasLoader(bundle, real))
                if any(
                    number == bundle.number for number, _ in self.runtime.namespaces.get(real, ())
                ):
                    spec = _bootstrap.ModuleSpec(name, None, is_package=True)
                    spec.submodule_search_locations = [f"{directory}/{name.rpartition('.')[2]}"]
                    return spec
        return None

    def _module_spec(self, name, row, loader=None):
        bundle = self.runtime.bundles[row[0]]
        loader = loader or bundle.loader
        origin = f"{bundle.root}/{row[1]}"
        spec = _bootstrap.ModuleSpec(name, loader, origin=origin, is_package=row[2])
        directory, _, file = origin.rpartition("/")
        spec._set_fileattr = True
        spec._cached = f"{directory}/__pycache__/{file[:-3]}{_SUFFIX}"
        if row[2]:
            spec.submodule_search_locations = [directory]
        return spec

    def _extension_spec(self, name, row):
        bundle = self.runtime.bundles[row[0]]
        if bundle.on_disk:
            location = f"{bundle.virtual_root}/{row[1]}"
        else:
            from par_runtime import unpack

            location = unpack.extension_path(bundle, row[1])
        if bundle.needs:
            from par_runtime import libraries

            libraries.provide(bundle, row[1])
        loader = _external.ExtensionFileLoader(name, location)
        return _external.spec_from_file_location(name, location, loader=loader)

    def _namespace(self, name, path):
        portions = self.runtime.namespaces.get(name)
        if portions is None:
            return None
        loader = None  # for packages on disk, importlib's own loader reads all portions
        number, directory = portions[0]
        if not self.runtime.bundles[number].on_disk:
            loader = NamespaceLoader(self.runtime.bundles[number], directory)
        spec = _bootstrap.ModuleSpec(name, loader, is_package=True)
        locations = [
            f"{self.runtime.bundles[i].virtual_root}/{directory}" for i, directory in portions
        ]
        other = _external.PathFinder.find_spec(name, path)
        if other is not None:
            if other.loader is not None and not hasattr(other.loader, "_path"):
                return other
            locations += [p for p in other.submodule_search_locations or () if p not in locations]
        spec.submodule_search_locations = locations
        return spec

    def find_distributions(self, context=None):
        from par_runtime import metadata

        return metadata.distributions(self.runtime, context)

    def invalidate_caches(self):
        return None


class PathEntry:
    """A path entry finder for a directory in an archive, created by a hook in sys.path_hooks."""

    def __init__(self, runtime, finder, path):
        self.runtime = runtime
        self.finder = finder
        self.path = path

    def find_spec(self, name, target=None):
        spec = self.finder.concrete(name)
        if spec is not None:
            locations = spec.submodule_search_locations
            location = locations[0] if locations else spec.origin or ""
            if location.rpartition("/")[0] == self.path:
                return spec
        return self.finder.aliased(name, self.path)

    def invalidate_caches(self):
        return None

    def iter_modules(self, prefix=""):
        from par_runtime import files

        return files.iter_modules(self.runtime, self.path, prefix)


class Runtime:
    """The state of the running PAR: its bundles, their merged index tables, and its settings."""

    def __init__(self, layout, program, raised=False, interpreter=False):
        self.layout = layout
        self.program = program
        self.raised = raised
        self.interpreter = interpreter
        self.bundles = []
        self.modules = {}
        self.extensions = {}
        self.namespaces = {}
        self.distributions = {}
        self.environment = {}
        self.settings = {}
        self.sections = []
        self.loaded = {}
        self.frozen = False
        self.aged = False  # whether age_large_imports has handled a very large import
        self.finder = Finder(self)

    def add(self, archive, index, roots, on_disk):
        """Add an archive's bundles. If several archives contain a module, the first one wins."""
        first = len(self.bundles)
        for i, row in enumerate(index["bundles"]):
            self.bundles.append(Bundle(self, first + i, row, archive, roots(row), on_disk))
        for kind in ("modules", "extensions", "distributions"):
            table = getattr(self, kind)
            if first == 0:
                table.update(index[kind])
                continue
            for name, row in index[kind].items():
                table.setdefault(name, (row[0] + first, *row[1:]))
        for name, value in index["environment"].items():
            self.environment.setdefault(name, value)
        for name, portions in index["namespaces"].items():
            renumbered = tuple((i + first, directory) for i, directory in portions)
            self.namespaces[name] = self.namespaces.get(name, ()) + renumbered
        self.sections.append((first, archive, index))

    def section(self, kind, bundle):
        """Return the section `kind` of a bundle's index. Each section is read on first use."""
        key = (kind, bundle.number)
        section = self.loaded.get(key)
        if section is None:
            for first, archive, index in reversed(self.sections):
                if bundle.number >= first:
                    location = index["sections"][kind][bundle.number - first]
                    section = self.loaded[key] = archive.section(kind, *location)
                    break
        return section

    def age_large_imports(self) -> None:
        """Move all objects to the garbage collector's oldest generation if many are new.

        Otherwise, the collector would soon scan the objects of a large import three times. After
        the first very large import, objects are no longer moved. By then, the program is running,
        and its garbage, such as tensors in cycles, would stay in memory longer.
        """
        new = gc.get_count()[0]
        if new < _LARGE_IMPORT or self.frozen or self.aged or gc.get_freeze_count():
            return  # gc.unfreeze would also unfreeze objects that the program froze
        gc.freeze()
        gc.unfreeze()
        self.aged = new >= _LARGE_PROGRAM

    def freeze_large_imports(self) -> None:
        """Call gc.freeze if very many objects are new, or else call age_large_imports.

        This is called when the program's large imports are complete.
        """
        if gc.get_count()[0] < _LARGE_PROGRAM:
            self.age_large_imports()
        else:
            gc.freeze()
            self.frozen = True
