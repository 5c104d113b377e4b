# SPDX-License-Identifier: Apache-2.0
"""Every source tarball that the build compiles: the one place where their versions and hashes stand.

Each becomes the repository `<name>_src` with third_party/<name>/<name>.BUILD over it.
To move a pin see third_party/README.md.
"""

load("//third_party/fetch:source_archive.bzl", _source_archive = "source_archive")

source_archive = _source_archive

# Debian's file is the upstream release itself unless the two hashes differ (a repack without
# files that Debian may not ship, none of which is compiled here).
_SOURCES = {
    "bzip2": dict(
        debian_package = "bzip2",
        debian_file = "bzip2_1.0.8.orig.tar.gz",
        debian_sha256 = "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
        debian_strip_prefix = "bzip2-1.0.8",
        urls = ["https://sourceware.org/pub/bzip2/bzip2-1.0.8.tar.gz"],
        sha256 = "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
        strip_prefix = "bzip2-1.0.8",
    ),
    "libffi": dict(
        debian_package = "libffi",
        debian_file = "libffi_3.4.4.orig.tar.gz",
        debian_sha256 = "d66c56ad259a82cf2a9dfc408b32bf5da52371500b84745f7fb8b645712df676",
        debian_strip_prefix = "libffi-3.4.4",
        urls = ["https://github.com/libffi/libffi/releases/download/v3.4.4/libffi-3.4.4.tar.gz"],
        sha256 = "d66c56ad259a82cf2a9dfc408b32bf5da52371500b84745f7fb8b645712df676",
        strip_prefix = "libffi-3.4.4",
        files = {"fficonfig.h": "fficonfig.h"},
    ),
    "make": dict(
        debian_package = "make-dfsg",
        debian_file = "make-dfsg_4.3.orig.tar.gz",
        debian_sha256 = "be4c17542578824e745f83bcd2a9ba264206187247cb6a5f5df99b0a9d1f9047",
        debian_strip_prefix = "make-dfsg-4.3",
        urls = ["https://ftp.gnu.org/gnu/make/make-4.3.tar.gz"],
        sha256 = "e05fdde47c5f7ca45cb697e973894ff4f5d79e13b750ed57d7b66d8defc78e19",
        strip_prefix = "make-4.3",
        files = {"config.h": "config/config.h"},
    ),
    "openssl": dict(
        debian_package = "openssl",
        debian_file = "openssl_3.0.20.orig.tar.gz",
        debian_sha256 = "c80a01dfc70ece4dc21168932c37739042d404d46ccc81a5986dd75314ecda6f",
        debian_strip_prefix = "openssl-3.0.20",
        urls = ["https://github.com/openssl/openssl/releases/download/openssl-3.0.20/openssl-3.0.20.tar.gz"],
        sha256 = "c80a01dfc70ece4dc21168932c37739042d404d46ccc81a5986dd75314ecda6f",
        strip_prefix = "openssl-3.0.20",
    ),
    "python": dict(
        debian_package = "python3.11",
        debian_file = "python3.11_3.11.2.orig.tar.gz",
        debian_sha256 = "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849",
        debian_strip_prefix = "Python-3.11.2",
        urls = ["https://www.python.org/ftp/python/3.11.2/Python-3.11.2.tgz"],
        sha256 = "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849",
        strip_prefix = "Python-3.11.2",
    ),
    # SQLite's own tarball makes the one-file form with tclsh, which few machines have. The R
    # binding carries the same file, ready made.
    "sqlite": dict(
        debian_package = "r-cran-rsqlite",
        debian_file = "r-cran-rsqlite_2.2.20.orig.tar.gz",
        debian_sha256 = "029cb159a2184b7bc843257656a7c96b2655c7ad59fbeae6cb880932482fb9ba",
        debian_strip_prefix = "RSQLite/src/vendor/sqlite3",
        urls = ["https://www.sqlite.org/2022/sqlite-amalgamation-3400000.zip"],
        sha256 = "7c23eb51409315738c930a222cf7cd41518ae5823c41e60a81b93a07070ef22a",
        strip_prefix = "sqlite-amalgamation-3400000",
    ),
    "xz": dict(
        debian_package = "xz-utils",
        debian_file = "xz-utils_5.4.1.orig.tar.xz",
        debian_sha256 = "5d9827aa1875b21c288f78864bb26d2650b436ea8d2cad364e4921eb6266a5a5",
        debian_strip_prefix = "xz-5.4.1",
        urls = ["https://tukaani.org/xz/xz-5.4.1.tar.xz"],
        sha256 = "5d9827aa1875b21c288f78864bb26d2650b436ea8d2cad364e4921eb6266a5a5",
        strip_prefix = "xz-5.4.1",
        files = {"config.h": "config/config.h"},
    ),
    "zlib": dict(
        debian_package = "zlib",
        debian_file = "zlib_1.2.13.dfsg.orig.tar.bz2",
        debian_sha256 = "71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1",
        debian_strip_prefix = "zlib-1.2.13.dfsg",
        urls = ["https://github.com/madler/zlib/releases/download/v1.2.13/zlib-1.2.13.tar.gz"],
        sha256 = "b3a24de97a8fdbc835b9833169501030b8977031bcb54b3b3ac13740f846ab30",
        strip_prefix = "zlib-1.2.13",
    ),
    "zstd": dict(
        debian_package = "libzstd",
        debian_file = "libzstd_1.5.4+dfsg2.orig.tar.xz",
        debian_sha256 = "8cf4bbb65e77ec348d052c8d6230eba66d435bddf64c8b5be2fcb16880c19953",
        debian_strip_prefix = "zstd-1.5.4",
        urls = ["https://github.com/facebook/zstd/releases/download/v1.5.4/zstd-1.5.4.tar.gz"],
        sha256 = "0f470992aedad543126d06efab344dc5f3e171893810455787d38347343a4424",
        strip_prefix = "zstd-1.5.4",
    ),
}

def _sources_impl(_mctx):
    for name, pin in _SOURCES.items():
        room = "//third_party/{}:".format(name)
        source_archive(
            name = name + "_src",
            package = name,
            build_file = Label(room + name + ".BUILD"),
            files = {str(Label(room + file)): path for file, path in pin.get("files", {}).items()},
            **{key: value for key, value in pin.items() if key != "files"}
        )

sources = module_extension(
    doc = "The repositories @<name>_src of the pins in this file.",
    implementation = _sources_impl,
)
