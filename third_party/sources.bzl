# SPDX-License-Identifier: Apache-2.0
"""Every source tarball that the build compiles. No other file contains their versions and hashes.

Each becomes the repository `<name>_src`, with third_party/<name>/<name>.BUILD as its BUILD file.
third_party/README.md says how to update a pin.
"""

load("//third_party/fetch:source_archive.bzl", _source_archive = "source_archive")

source_archive = _source_archive

# Debian's tarball is identical to upstream's if `debian_sha256` equals `sha256`. Otherwise Debian
# removed files that it may not distribute, none of which the build compiles. A pin without `urls`
# is fetched only from Debian. `version` is for METADATA, if the name of the archive's top-level
# folder does not contain the version. `licences` lists the files of the licence that we chose, if a
# project offers several. `licence_comment` names a source file whose first comment is the licence.
_SOURCES = {
    "abseil": dict(
        licences = ["LICENSE"],
        debian_package = "abseil",
        debian_file = "abseil_20240722.0.orig.tar.gz",
        debian_sha256 = "df6d1f5ef540725f3851201176a60486aab332410788465c9877910bb471c34a",
        debian_strip_prefix = "abseil-20240722.0",
        urls = ["https://github.com/abseil/abseil-cpp/archive/refs/tags/20240722.0.tar.gz"],
        sha256 = "f50e5ac311a81382da7fa75b97310e4b9006474f9560ac46f54a9967f07d4ae3",
        strip_prefix = "abseil-cpp-20240722.0",
    ),
    "bzip2": dict(
        licences = ["LICENSE"],
        debian_package = "bzip2",
        debian_file = "bzip2_1.0.8.orig.tar.gz",
        debian_sha256 = "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
        debian_strip_prefix = "bzip2-1.0.8",
        urls = ["https://sourceware.org/pub/bzip2/bzip2-1.0.8.tar.gz"],
        sha256 = "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
        strip_prefix = "bzip2-1.0.8",
    ),
    "cpp_httplib": dict(
        licences = ["LICENSE"],
        debian_package = "cpp-httplib",
        debian_file = "cpp-httplib_0.18.7.orig.tar.xz",
        debian_sha256 = "c88f6495da71e778c82c22995b547a92ceb41cc4016f9028df67106a24b9210d",
        debian_strip_prefix = "yhirose-cpp-httplib-5814e12",
        urls = ["https://github.com/yhirose/cpp-httplib/archive/refs/tags/v0.18.7.tar.gz"],
        sha256 = "b7b1e9e4e77565a5a9bc95e761d5df3e7c0e8ca37c90fd78b1b031bc6cb90fc1",
        strip_prefix = "cpp-httplib-0.18.7",
    ),
    # The version is a commit, because cpuinfo has no releases. `integrity` is the hash with which
    # other distributions pin the same archive.
    "cpuinfo": dict(
        version = "877328f188a3c7d1fa855871a278eb48d530c4c0",
        licences = ["LICENSE"],
        debian_package = "cpuinfo",
        debian_file = "cpuinfo_0.0~git20250905.877328f.orig.tar.xz",
        debian_sha256 = "557ca404a3836b9f335a3a06b65ff9fe9dbaaefab7fb5c0185f53d9f33615a10",
        debian_strip_prefix = "cpuinfo-0.0~git20250905.877328f",
        urls = ["https://github.com/pytorch/cpuinfo/archive/877328f188a3c7d1fa855871a278eb48d530c4c0.tar.gz"],
        integrity = "sha512-ttWpzpmW7uOy8J85EV964Xj+TUgUzDWwSaWdBKgiKOJoqlLQc8MHzLVqQnQoYilA4cd/AEyZhR38oNOl2ANliw==",
        strip_prefix = "cpuinfo-877328f188a3c7d1fa855871a278eb48d530c4c0",
    ),
    # Fetch only from Debian, which keeps dated archives, because Netlib overwrites its only
    # archive.
    "f2c": dict(
        version = "20240504",
        licences = ["src/Notice"],
        debian_package = "f2c",
        debian_file = "f2c_20240504.orig.tar.xz",
        debian_sha256 = "12a129a1a8d9a1446f29c0a126b29e8d6a3537266921ad1851bda9933b08221b",
        debian_strip_prefix = "f2c-20240504",
    ),
    "flatbuffers": dict(
        licences = ["LICENSE"],
        debian_package = "flatbuffers",
        debian_file = "flatbuffers_23.5.26+dfsg.orig.tar.xz",
        debian_sha256 = "0d309fd2c47bbbebd450e68d1419c336d53d1b8f5ce47e1f1f7f28f452fc6f3b",
        debian_strip_prefix = "flatbuffers-23.5.26+dfsg",
        urls = ["https://github.com/google/flatbuffers/archive/refs/tags/v23.5.26.tar.gz"],
        sha256 = "1cce06b17cddd896b6d73cc047e36a254fb8df4d7ea18a46acf16c4c0cd3f3f3",
        strip_prefix = "flatbuffers-23.5.26",
        files = {"cc_generator.cc": "cc_generator.cc"},
    ),
    "fmt": dict(
        licences = ["LICENSE.rst"],
        debian_package = "fmtlib",
        debian_file = "fmtlib_10.1.1+ds1.orig.tar.gz",
        debian_sha256 = "7000f214d2628f04174822f8048c573f1608194408d7931121595a03f1c18a17",
        debian_strip_prefix = "fmtlib-10.1.1+ds1",
        urls = ["https://github.com/fmtlib/fmt/archive/10.1.1.tar.gz"],
        sha256 = "78b8c0a72b1c35e4443a7e308df52498252d1cefc2b08c9a97bc9ee6cfe61f8b",
        strip_prefix = "fmt-10.1.1",
    ),
    # The version is a commit, because gloo has no releases.
    "gloo": dict(
        version = "5354032ea08eadd7fc4456477f7f7c6308818509",
        licences = ["LICENSE"],
        debian_package = "gloo",
        debian_file = "gloo_0.0~git20231202.5354032.orig.tar.xz",
        debian_sha256 = "66d6fadb7b07cfcff08f74ae2acfab504e780d6b7536ee74d2011718cda25030",
        urls = ["https://github.com/facebookincubator/gloo/archive/5354032ea08eadd7fc4456477f7f7c6308818509.tar.gz"],
        sha256 = "5759a06e6c8863c58e8ceadeb56f7c701fec89b2559ba33a103a447207bf69c7",
        strip_prefix = "gloo-5354032ea08eadd7fc4456477f7f7c6308818509",
        files = {"config.h": "gloo/config.h"},
    ),
    # The version is a date and a commit, because ideep has no releases. Fetched only from Debian.
    "ideep": dict(
        version = "20251020.9275706",
        licences = ["LICENSE"],
        debian_package = "ideep",
        debian_file = "ideep_0.0~git20251020.9275706.orig.tar.xz",
        debian_sha256 = "609baa00f3d7a3d77dde92ba84512bb7cb777f0a875c6f6b5c3a2e117316ffd6",
        debian_strip_prefix = "ideep-0.0~git20251020.9275706",
    ),
    "lapack": dict(
        licences = ["LICENSE"],
        debian_package = "lapack",
        debian_file = "lapack_3.12.1.orig.tar.gz",
        debian_sha256 = "2ca6407a001a474d4d4d35f3a61550156050c48016d949f0da0529c0aa052422",
        debian_strip_prefix = "lapack-3.12.1",
        urls = ["https://github.com/Reference-LAPACK/lapack/archive/refs/tags/v3.12.1.tar.gz"],
        sha256 = "2ca6407a001a474d4d4d35f3a61550156050c48016d949f0da0529c0aa052422",
        strip_prefix = "lapack-3.12.1",
    ),
    "libffi": dict(
        licences = ["LICENSE"],
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
        licences = ["COPYING"],
        debian_package = "make-dfsg",
        debian_file = "make-dfsg_4.3.orig.tar.gz",
        debian_sha256 = "be4c17542578824e745f83bcd2a9ba264206187247cb6a5f5df99b0a9d1f9047",
        debian_strip_prefix = "make-dfsg-4.3",
        urls = ["https://ftp.gnu.org/gnu/make/make-4.3.tar.gz"],
        sha256 = "e05fdde47c5f7ca45cb697e973894ff4f5d79e13b750ed57d7b66d8defc78e19",
        strip_prefix = "make-4.3",
        files = {"config.h": "config/config.h"},
    ),
    "nlohmann_json": dict(
        licences = ["LICENSE.MIT"],
        debian_package = "nlohmann-json3",
        debian_file = "nlohmann-json3_3.11.2.orig.tar.gz",
        debian_sha256 = "d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273",
        debian_strip_prefix = "json-3.11.2",
        urls = ["https://github.com/nlohmann/json/archive/refs/tags/v3.11.2.tar.gz"],
        sha256 = "d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273",
        strip_prefix = "json-3.11.2",
    ),
    "onednn": dict(
        licences = [
            "LICENSE",
            "THIRD-PARTY-PROGRAMS",
        ],
        debian_package = "onednn",
        debian_file = "onednn_3.7.2+ds.orig.tar.xz",
        debian_sha256 = "0cc51ca26c1af6a2bb1e71e378e7046f3ceb3e71791ee9d4e246d50f904a6ea6",
        debian_strip_prefix = "oneDNN-3.7.2",
        files = {
            "tbb/parallel_for.h": "threads/tbb/parallel_for.h",
            "tbb/task_arena.h": "threads/tbb/task_arena.h",
            "thread_pool.cc": "threads/thread_pool.cc",
            "thread_pool.h": "threads/thread_pool.h",
        },
    ),
    "openblas": dict(
        licences = ["LICENSE"],
        debian_package = "openblas",
        debian_file = "openblas_0.3.29+ds.orig.tar.xz",
        debian_sha256 = "eb691e2cff83799400da22aa6ab93ebaa346ad317fea578b7ae119e226ce1b01",
        debian_strip_prefix = "OpenBLAS-0.3.29",
        urls = ["https://github.com/OpenMathLib/OpenBLAS/releases/download/v0.3.29/OpenBLAS-0.3.29.tar.gz"],
        sha256 = "38240eee1b29e2bde47ebb5d61160207dc68668a54cac62c076bb5032013b1eb",
        strip_prefix = "OpenBLAS-0.3.29",
    ),
    "openssl": dict(
        licences = ["LICENSE.txt"],
        debian_package = "openssl",
        debian_file = "openssl_3.0.20.orig.tar.gz",
        debian_sha256 = "c80a01dfc70ece4dc21168932c37739042d404d46ccc81a5986dd75314ecda6f",
        debian_strip_prefix = "openssl-3.0.20",
        urls = ["https://github.com/openssl/openssl/releases/download/openssl-3.0.20/openssl-3.0.20.tar.gz"],
        sha256 = "c80a01dfc70ece4dc21168932c37739042d404d46ccc81a5986dd75314ecda6f",
        strip_prefix = "openssl-3.0.20",
    ),
    # The version is a commit, because the C++ header has no releases. Debian's torch package
    # contains a copy.
    "pocketfft": dict(
        version = "9d3ab05a7fffbc71a492bc6a17be034e83e8f0fe",
        licences = ["LICENSE.md"],
        debian_package = "pytorch",
        debian_file = "pytorch_2.6.0+dfsg-7.debian.tar.xz",
        debian_sha256 = "3290d4e5168b6e44191882213f61ad41c134a912fe11a44364c2e74f81f68af0",
        debian_strip_prefix = "debian/pocketfft-9d3ab05a7fffbc71a492bc6a17be034e83e8f0fe",
        urls = ["https://github.com/mreineck/pocketfft/archive/9d3ab05a7fffbc71a492bc6a17be034e83e8f0fe.tar.gz"],
        sha256 = "28fca6494e7f28f3ddfe08c53afec9e5f873f7924d9ac0ea7b3b9f90405b137b",
        strip_prefix = "pocketfft-9d3ab05a7fffbc71a492bc6a17be034e83e8f0fe",
    ),
    "python": dict(
        # Doc/license.rst contains the licences of expat, libmpdec and other code in CPython.
        licences = ["LICENSE", "Doc/license.rst"],
        debian_package = "python3.11",
        debian_file = "python3.11_3.11.2.orig.tar.gz",
        debian_sha256 = "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849",
        debian_strip_prefix = "Python-3.11.2",
        urls = ["https://www.python.org/ftp/python/3.11.2/Python-3.11.2.tgz"],
        sha256 = "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849",
        strip_prefix = "Python-3.11.2",
    ),
    "sleef": dict(
        licences = ["LICENSE.txt"],
        debian_package = "sleef",
        debian_file = "sleef_3.9.0.orig.tar.gz",
        debian_sha256 = "b2a1acd3f1860299848b4e24238a4609fbb85761a1a85bac5573347b90d0440b",
        debian_strip_prefix = "shibatch-sleef-906ca75",
        urls = ["https://github.com/shibatch/sleef/archive/refs/tags/3.9.0.tar.gz"],
        sha256 = "af60856abac08a3b5e72a8d156dd71fec1f7ac23de8ee67793f45f9edcdf0908",
        strip_prefix = "sleef-3.9.0",
    ),
    # Generating the amalgamation from SQLite's own sources needs tclsh, which few machines have, so
    # use Debian's package of the R binding, which contains the generated file.
    "sqlite": dict(
        licence_comment = "sqlite3.h",
        debian_package = "r-cran-rsqlite",
        debian_file = "r-cran-rsqlite_2.2.20.orig.tar.gz",
        debian_sha256 = "029cb159a2184b7bc843257656a7c96b2655c7ad59fbeae6cb880932482fb9ba",
        debian_strip_prefix = "RSQLite/src/vendor/sqlite3",
        urls = ["https://www.sqlite.org/2022/sqlite-amalgamation-3400000.zip"],
        sha256 = "7c23eb51409315738c930a222cf7cd41518ae5823c41e60a81b93a07070ef22a",
        strip_prefix = "sqlite-amalgamation-3400000",
    ),
    # Debian's tarball is GitHub's archive of the tag: its pax header names the tag's commit,
    # 7af698794eded568735f9519593603c1ec889eba. Other distributions pin the same hash.
    "torchvision": dict(
        licences = ["LICENSE"],
        debian_package = "pytorch-vision",
        debian_file = "pytorch-vision_0.21.0.orig.tar.gz",
        debian_sha256 = "0a4a967bbb7f9810f792cd0289a07fb98c8fb5d1303fae8b63e3a6b05d720058",
        debian_strip_prefix = "vision-0.21.0",
        urls = ["https://github.com/pytorch/vision/archive/refs/tags/v0.21.0.tar.gz"],
        sha256 = "0a4a967bbb7f9810f792cd0289a07fb98c8fb5d1303fae8b63e3a6b05d720058",
        strip_prefix = "vision-0.21.0",
    ),
    "xz": dict(
        licences = ["COPYING"],
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
        licences = ["LICENSE"],
        debian_package = "zlib",
        debian_file = "zlib_1.2.13.dfsg.orig.tar.bz2",
        debian_sha256 = "71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1",
        debian_strip_prefix = "zlib-1.2.13.dfsg",
        urls = ["https://github.com/madler/zlib/releases/download/v1.2.13/zlib-1.2.13.tar.gz"],
        sha256 = "b3a24de97a8fdbc835b9833169501030b8977031bcb54b3b3ac13740f846ab30",
        strip_prefix = "zlib-1.2.13",
    ),
    "zstd": dict(
        licences = ["LICENSE"],
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
            **{key: value for key, value in pin.items() if key not in ["files", "version"]}
        )

sources = module_extension(
    doc = "The repositories @<name>_src of the pins in this file.",
    implementation = _sources_impl,
)
