# SPDX-License-Identifier: Apache-2.0
"""The toolchain's Debian 12 packages: path in the pool, and sha256.

Only this file contains their versions and hashes. README.md says how to update a pin.
"""

# The compiler, the linker, and binutils.
_PROGRAMS = {
    "pool/main/b/binutils/binutils-x86-64-linux-gnu_2.40-2_amd64.deb": "2d7ea8a570d768224d7f2424abbe6f373d2154865a1fa7f56c80d43ecf492521",
    "pool/main/b/binutils/libbinutils_2.40-2_amd64.deb": "fcf55b99e5f8a78f3c8ce9b6957f1024f394cf20c196b100d308a57e43547710",
    "pool/main/l/llvm-toolchain-19/clang-19_19.1.7-3~deb12u1_amd64.deb": "89ab931a9bbfd567a76df3141af5d5ec67b01d800150e614f2c9bf4671da9b08",
    "pool/main/l/llvm-toolchain-19/libclang-common-19-dev_19.1.7-3~deb12u1_amd64.deb": "811c2d398ad772204ec05ffde485cbbc4c210abc5dcf0068ff9ca3e647591ce7",
    "pool/main/l/llvm-toolchain-19/libclang-cpp19_19.1.7-3~deb12u1_amd64.deb": "5daa784e1d747db320c16604729ffa805e6bfd72d3ac0b7cb0ee5f1a7ebc8aae",
    "pool/main/l/llvm-toolchain-19/libllvm19_19.1.7-3~deb12u1_amd64.deb": "6edf3a8b28495cdba883d9760e0dca1a81983fc497a5f989dc64d0d96d23b4aa",
    "pool/main/l/llvm-toolchain-19/lld-19_19.1.7-3~deb12u1_amd64.deb": "416e084363a16a7060eaa6343ed641dfe864b8208c39170ee00a5679e4b486a2",
}

# The shared libraries that these programs load, except for those in _SYSROOT.
_LIBRARIES = {
    "pool/main/i/icu/libicu72_72.1-3+deb12u1_amd64.deb": "f7f6f99c6d7b025914df2447fc93e11d22c44c0c8bdd8b6f36691c9e7ddcef88",
    "pool/main/libb/libbsd/libbsd0_0.11.7-2_amd64.deb": "bb31cc8b40f962a85b2cec970f7f79cc704a1ae4bad24257a822055404b2c60b",
    "pool/main/libe/libedit/libedit2_3.1-20221030-2_amd64.deb": "1cf14abf2716d3279db12d0657a5737cf70074a1e71d3bdf73206625e3c89ce6",
    "pool/main/libf/libffi/libffi8_3.4.4-1_amd64.deb": "6d9f6c25c30efccce6d4bceaa48ea86c329a3432abb360a141f76ac223a4c34a",
    "pool/main/libm/libmd/libmd0_1.0.4-2_amd64.deb": "03539fd30c509e27101d13a56e52eda9062bdf1aefe337c07ab56def25a13eab",
    "pool/main/libx/libxml2/libxml2_2.9.14+dfsg-1.3~deb12u6_amd64.deb": "4460e39dda10a815881374217cde08474747cfa018358cd8612c14b390eff53b",
    "pool/main/libz/libzstd/libzstd1_1.5.4+dfsg2-5_amd64.deb": "6315b5ac38b724a710fb96bf1042019398cb656718b1522279a5185ed39318fa",
    "pool/main/n/ncurses/libtinfo6_6.4-4_amd64.deb": "072d908f38f51090ca28ca5afa3b46b2957dc61fe35094c0b851426859a49a51",
    "pool/main/x/xz-utils/liblzma5_5.4.1-1+deb12u1_amd64.deb": "f96d8876b53ec89d76a992bc199679b818cf518225a768954d9451fb556a4eb7",
    "pool/main/z/z3/libz3-4_4.8.12-3.1_amd64.deb": "6221ca25ad5abcfbe1965801029d85a88b4775320384b4b716de8fab7a4d2f7a",
    "pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_amd64.deb": "d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4",
}

# The headers and libraries to compile and link against. They include the C library, which the
# programs in _PROGRAMS also use.
_SYSROOT = {
    "pool/main/g/gcc-12/gcc-12-base_12.2.0-14+deb12u1_amd64.deb": "1896a2aacf4ad681ff5eacc24a5b0ca4d5d9c9b9c9e4b6de5197bc1e116ea619",
    "pool/main/g/gcc-12/libgcc-12-dev_12.2.0-14+deb12u1_amd64.deb": "d720259380a84f2ffc6fe516eff5cbe9c8a005138e8d6a5748747ba4b3404a82",
    "pool/main/g/gcc-12/libgcc-s1_12.2.0-14+deb12u1_amd64.deb": "3016e62cb4b7cd8038822870601f5ed131befe942774d0f745622cc77d8a88f7",
    "pool/main/g/gcc-12/libstdc++-12-dev_12.2.0-14+deb12u1_amd64.deb": "d28def6c23630432b57cb38a4c2fd67a79d4e0484027386ca6e8d6005c3d7a73",
    "pool/main/g/gcc-12/libstdc++6_12.2.0-14+deb12u1_amd64.deb": "5cd3171216d4ab0fc911cfe9c35509bf2dd8f47761c43b7f6a4296701551a24d",
    "pool/main/g/glibc/libc6-dev_2.36-9+deb12u14_amd64.deb": "0218fc2befcd784c1b0c6292c0a137ce89fad054efaa579ad083bee0f2c01aae",
    "pool/main/g/glibc/libc6_2.36-9+deb12u14_amd64.deb": "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
    "pool/main/l/linux/linux-libc-dev_6.1.176-1_amd64.deb": "8bb258735b9dffbb111da778ebdd024750878e435ffd9dfcadcb6762ede6b4cf",
}

PACKAGES = _PROGRAMS | _LIBRARIES | _SYSROOT
