# SPDX-License-Identifier: Apache-2.0
"""`flatbuffers_cc_header`: the C++ header of a schema, by the generator of the library's own release."""

def flatbuffers_cc_header(*, name, schema, header, **kwargs):
    """Makes `header` from `schema`, as `flatc --cpp --gen-mutable --scoped-enums` does.

    Args:
      name: the target.
      schema: the .fbs file. It includes no other.
      header: the file to write, `<anything>_generated.h`.
      **kwargs: visibility and the like.
    """
    native.genrule(
        name = name,
        srcs = [schema],
        outs = [header],
        cmd = "$(execpath " + str(Label("//third_party/flatbuffers:cc_generator")) + ") $< $@",
        tools = [Label("//third_party/flatbuffers:cc_generator")],
        **kwargs
    )
