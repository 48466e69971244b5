#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
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
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26
};

/// A repeated number: the pieces in which its elements lie in the file.
using Pieces = std::vector<Bytes>;

/// Where a tensor's bytes lie outside the model's file; numbers as the decimal text they are written in.
struct ExternalData {
  std::optional<std::string_view> location, offset, length;
};

/// More dimensions than any tensor has; what a file says beyond them is not kept.
constexpr std::size_t highest_rank = 64;

struct TensorProto {
  std::string_view name;
  std::vector<std::int64_t> dims;
  DataType data_type = DataType::undefined;
  std::optional<Bytes> raw_data;
  Pieces float_data, double_data;              ///< little-endian numbers
  Pieces int32_data, int64_data, uint64_data;  ///< varints
  bool is_external = false;
  ExternalData external;
  bool is_segment = false;
};
TensorProto parse_tensor(Bytes bytes);
/// Empty where the tensor lies in the model's file.
std::optional<std::string_view> parse_data_location(Bytes tensor);

struct SparseTensorProto {
  std::string_view name;  ///< that of its values
  Bytes values, indices;  ///< unparsed TensorProto
  std::vector<std::int64_t> dims;
};
SparseTensorProto parse_sparse_tensor(Bytes bytes);

/// AttributeProto.AttributeType
enum class AttributeType : std::int64_t {
  undefined = 0,
  real = 1,
  integer = 2,
  string = 3,
  tensor = 4,
  graph = 5,
  reals = 6,
  integers = 7,
  strings = 8,
  sparse_tensor = 11
};

/// More texts than any attribute read here lists.
constexpr std::size_t most_texts = 16;

struct AttributeProto {
  AttributeType type = AttributeType::undefined;
  std::optional<float> real;
  std::optional<std::int64_t> integer;
  std::optional<std::string_view> text;
  std::optional<Bytes> tensor, sparse_tensor, graph;  ///< unparsed
  Pieces reals;                                       ///< little-endian float32
  Pieces integers;                                    ///< varints
  std::vector<std::string_view> texts;                ///< the first of a list, at most `most_texts`
  std::size_t text_count = 0;                         ///< how many the list has
  std::string_view reference;                         ///< the attribute of the function around it that this stands for
};
AttributeProto parse_attribute(Bytes bytes);

/// Names and unparsed AttributeProto
using Attributes = std::vector<std::pair<std::string_view, Bytes>>;

struct NodeProto {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  Attributes attributes;
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
  std::vector<Bytes> initializers;         ///< unparsed TensorProto
  std::vector<Bytes> sparse_initializers;  ///< unparsed SparseTensorProto
  std::vector<ValueInfoProto> inputs, outputs;
};
GraphProto parse_graph(Bytes bytes);

/// Domains and versions
using OpsetImports = std::vector<std::pair<std::string_view, std::int64_t>>;

/// Domain, name and overload; no two functions of a model have the same.
using FunctionId = std::tuple<std::string_view, std::string_view, std::string_view>;

struct FunctionProto {
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  ///< those without a default
  Attributes defaults;
  std::vector<NodeProto> nodes;
  OpsetImports opset_imports;
};
FunctionProto parse_function(Bytes bytes);
FunctionId parse_function_id(Bytes bytes);

struct ModelProto {
  std::int64_t ir_version = 0;
  std::string_view producer_name, producer_version;
  OpsetImports opset_imports;
  std::vector<Bytes> functions;  ///< unparsed FunctionProto
  std::optional<GraphProto> graph;
};
ModelProto parse_model(Bytes bytes);

}  // namespace driftbound::onnx
