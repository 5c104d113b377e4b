// SPDX-License-Identifier: Apache-2.0
// Stubs that replace torch's TorchScript exporter to ONNX, because the exporter
// needs ONNX and protobuf. They define the enumerations that Python code uses,
// so that `import torch.onnx` works. Exporting raises an error that states
// the reason.

#include <torch/csrc/jit/passes/onnx/helper.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/onnx/init.h>
#include <torch/csrc/onnx/onnx.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

namespace {

[[noreturn]] void Absent(const char* what) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, what,
      ": this build of torch has no TorchScript exporter to ONNX (it is linked "
      "without ONNX and protobuf). Export with the release wheel's build, or "
      "with torch.export");
}

// The values of TensorProto.DataType in ONNX's schema, onnx.proto3.
enum class DataType {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
};

// The functions of the exporter in torch._C. The exporter's Python code and the
// converter from TorchScript to torch.export call one of them at the start.
const char* const kFunctions[] = {
    "_jit_pass_onnx_remove_print",
    "_jit_pass_onnx_preprocess_caffe2",
    "_jit_pass_onnx",
    "_jit_pass_onnx_assign_output_shape",
    "_jit_pass_onnx_function_substitution",
    "_jit_pass_onnx_autograd_function_process",
    "_jit_pass_onnx_peephole",
    "_jit_pass_onnx_preprocess",
    "_jit_pass_onnx_eval_peephole",
    "_jit_pass_onnx_cast_all_constant_to_floating",
    "_jit_pass_onnx_constant_fold",
    "_jit_pass_onnx_eliminate_unused_items",
    "_jit_pass_onnx_scalar_type_analysis",
    "_jit_pass_onnx_remove_inplace_ops_for_onnx",
    "_jit_pass_onnx_node_shape_type_inference",
    "_jit_pass_onnx_graph_shape_type_inference",
    "_jit_pass_onnx_set_dynamic_input_shape",
    "_jit_pass_onnx_lint",
    "_jit_pass_onnx_function_extraction",
    "_jit_pass_onnx_block",
    "_jit_pass_onnx_unpack_quantized_weights",
    "_jit_pass_onnx_quantization_insert_permutes",
    "_jit_onnx_list_model_parameters",
    "_jit_pass_prepare_division_for_onnx",
    "_jit_onnx_convert_pattern_from_subblock",
    "_jit_pass_fixup_onnx_controlflow_node",
    "_jit_pass_onnx_deduplicate_initializers",
    "_jit_pass_onnx_clear_scope_records",
    "_jit_pass_onnx_track_scope_attributes",
    "_jit_is_onnx_log_enabled",
    "_jit_set_onnx_log_enabled",
    "_jit_set_onnx_log_output_stream",
    "_jit_onnx_log",
    "_jit_pass_onnx_assign_scoped_names_for_node_and_value",
    "_jit_onnx_create_full_scope_name",
    "_check_onnx_proto",
};

}  // namespace

namespace torch::onnx {

void initONNXBindings(PyObject* module) {
  auto m = py::handle(module).cast<py::module>();
  for (const char* name : kFunctions) {
    m.attr(name) = py::cpp_function(
        [name](const py::args&, const py::kwargs&) { Absent(name); });
  }
  auto onnx = m.def_submodule("_onnx");
  py::enum_<DataType>(onnx, "TensorProtoDataType")
      .value("UNDEFINED", DataType::kUndefined)
      .value("FLOAT", DataType::kFloat)
      .value("UINT8", DataType::kUint8)
      .value("INT8", DataType::kInt8)
      .value("UINT16", DataType::kUint16)
      .value("INT16", DataType::kInt16)
      .value("INT32", DataType::kInt32)
      .value("INT64", DataType::kInt64)
      .value("STRING", DataType::kString)
      .value("BOOL", DataType::kBool)
      .value("FLOAT16", DataType::kFloat16)
      .value("DOUBLE", DataType::kDouble)
      .value("UINT32", DataType::kUint32)
      .value("UINT64", DataType::kUint64)
      .value("COMPLEX64", DataType::kComplex64)
      .value("COMPLEX128", DataType::kComplex128)
      .value("BFLOAT16", DataType::kBfloat16)
      .value("FLOAT8E4M3FN", DataType::kFloat8E4M3FN)
      .value("FLOAT8E4M3FNUZ", DataType::kFloat8E4M3FNUZ)
      .value("FLOAT8E5M2", DataType::kFloat8E5M2)
      .value("FLOAT8E5M2FNUZ", DataType::kFloat8E5M2FNUZ);
  py::enum_<OperatorExportTypes>(onnx, "OperatorExportTypes")
      .value("ONNX", OperatorExportTypes::ONNX)
      .value("ONNX_ATEN", OperatorExportTypes::ONNX_ATEN)
      .value("ONNX_ATEN_FALLBACK", OperatorExportTypes::ONNX_ATEN_FALLBACK)
      .value("ONNX_FALLTHROUGH", OperatorExportTypes::ONNX_FALLTHROUGH);
  py::enum_<TrainingMode>(onnx, "TrainingMode")
      .value("EVAL", TrainingMode::EVAL)
      .value("PRESERVE", TrainingMode::PRESERVE)
      .value("TRAINING", TrainingMode::TRAINING);
  onnx.attr("PRODUCER_VERSION") = py::str(TORCH_VERSION);
}

}  // namespace torch::onnx

namespace torch::jit {

std::tuple<std::shared_ptr<::ONNX_NAMESPACE::ModelProto>, RawDataExportMap,
           SymbolDimMap, bool, NodeNameMap>
export_onnx(const std::shared_ptr<Graph>&,
            const std::map<std::string, at::Tensor>&, int64_t,
            const std::unordered_map<std::string,
                                     std::unordered_map<int64_t, std::string>>&,
            bool, ::torch::onnx::OperatorExportTypes, bool, bool,
            const std::map<std::string, int>&, bool, bool, const std::string&,
            const NodeAttrNameMap&) {
  Absent("export_onnx");
}

std::string pretty_print_onnx(const std::shared_ptr<Graph>&,
                              const std::map<std::string, at::Tensor>&, int64_t,
                              bool, ::torch::onnx::OperatorExportTypes, bool,
                              bool, const std::map<std::string, int>&, bool) {
  Absent("pretty_print_onnx");
}

std::string serialize_model_proto_to_string(
    const std::shared_ptr<::ONNX_NAMESPACE::ModelProto>&) {
  Absent("serialize_model_proto_to_string");
}

void check_onnx_proto(const std::string&) { Absent("check_onnx_proto"); }

// The next two functions do not need ONNX. Python code uses them to add nodes
// and inputs to a block.
Node* addNodeToBlock(Block* block, Symbol kind, ArrayRef<Value*> inputs) {
  Node* node = block->appendNode(block->owningGraph()->create(kind));
  for (Value* input : inputs) node->addInput(input);
  return node;
}

Value* addInputToBlock(Block* block) { return block->addInput(); }

}  // namespace torch::jit
