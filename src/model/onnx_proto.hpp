#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/wire.hpp"

namespace driftbound::onnx {

/// The messages of ONNX as far as a graph needs them, as views into the file. Fields not listed here are skipped.
/// Parts that may be many and large (tensors, attributes) stay unparsed until they are asked for, so that
/// a damaged file cannot make a reader take much more memory than the file itself has.
/// Every parse function throws ParseError.

using Bytes = WireReader::Bytes;

/// TensorProto.DataType
enum class DataType : std::int64_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16
};

/// A repeated number: the pieces in which its elements lie in the file.
using Pieces = std::vector<Bytes>;

struct TensorProto {
  std::string_view name;
  std::vector<std::int64_t> dims;
  DataType data_type = DataType::undefined;
  std::optional<Bytes> raw_data;
  Pieces float_data, double_data;              ///< little-endian numbers
  Pieces int32_data, int64_data, uint64_data;  ///< varints
  bool is_external = false;
  std::string_view external_location;
  bool is_segment = false;
};
TensorProto parse_tensor(Bytes bytes);

/// AttributeProto.AttributeType
enum class AttributeType : std::int64_t {
  undefined = 0,
  real = 1,
  integer = 2,
  string = 3,
  tensor = 4,
  reals = 6,
  integers = 7
};

struct AttributeProto {
  AttributeType type = AttributeType::undefined;
  std::optional<float> real;
  std::optional<std::int64_t> integer;
  std::optional<Bytes> tensor;
  Pieces reals;               ///< little-endian float32
  Pieces integers;            ///< varints
  bool is_reference = false;  ///< stands for an attribute of the function around it
};
AttributeProto parse_attribute(Bytes bytes);

struct NodeProto {
  std::string_view name, op_type, domain;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::pair<std::string_view, Bytes>> attributes;  ///< name and unparsed AttributeProto
};

struct Dimension {
  std::optional<std::int64_t> value;
  std::string_view symbol;
};

struct ValueInfoProto {
  std::string_view name;
  bool is_tensor = false;
  DataType element_type = DataType::undefined;
  bool has_shape = false;
  std::vector<Dimension> shape;
};

struct GraphProto {
  std::string_view name;
  std::vector<NodeProto> nodes;
  std::vector<Bytes> initializers;                    ///< unparsed TensorProto
  std::vector<std::string_view> sparse_initializers;  ///< names
  std::vector<ValueInfoProto> inputs, outputs;
};

struct ModelProto {
  std::int64_t ir_version = 0;
  std::string_view producer_name, producer_version;
  std::vector<std::pair<std::string_view, std::int64_t>> opset_imports;        ///< domain and version
  std::vector<std::pair<std::string_view, std::string_view>> local_functions;  ///< domain and name
  std::optional<GraphProto> graph;
};
ModelProto parse_model(Bytes bytes);

}  // namespace driftbound::onnx
