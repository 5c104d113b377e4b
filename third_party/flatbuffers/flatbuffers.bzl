# SPDX-License-Identifier: Apache-2.0
"""`flatbuffers_cc_header`: a schema's C++ header, from the generator of the same library release."""

def flatbuffers_cc_header(*, name, schema, header, **kwargs):
    """Generates `header` from `schema`, as `flatc --cpp --gen-mutable --scoped-enums` does.

    Args:
      name: the target.
      schema: the .fbs file. It must not include another schema.
      header: the file to write, `<anything>_generated.h`.
      **kwargs: common attributes such as visibility.
    """
    native.genrule(
        name = name,
        srcs = [schema],
        outs = [header],
        cmd = "$(execpath " + str(Label("//third_party/flatbuffers:cc_generator")) + ") $< $@",
        tools = [Label("//third_party/flatbuffers:cc_generator")],
        **kwargs
    )
