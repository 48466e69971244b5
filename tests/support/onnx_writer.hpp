#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace driftbound::test {

/// Just enough of the ONNX format, written by hand, to build models in tests:
///
///   const std::string bytes = OnnxModel(13)
///       .input("x", {"N", 3}).initializer("W", {3, 2}, std::vector<float>{…})
///       .node("Gemm", {"x", "W"}, "y").output("y").bytes();

/// A protobuf message under construction.
class Message {
public:
  Message& varint(int field, std::uint64_t value) {
    tag(field, 0);
    raw_varint(value);
    return *this;
  }
  Message& fixed32(int field, float value) { return fixed(field, 5, value); }
  Message& fixed64(int field, double value) { return fixed(field, 1, value); }
  Message& bytes(int field, std::string_view value) {
    tag(field, 2);
    raw_varint(value.size());
    data_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.data_); }
  Message& append(std::string_view raw) {
    data_ += raw;
    return *this;
  }
  void tag(int field, int wire_type) { raw_varint(static_cast<std::uint64_t>(field << 3 | wire_type)); }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_ += static_cast<char>((value & 0x7F) | 0x80);
    data_ += static_cast<char>(value);
  }
  const std::string& data() const { return data_; }

private:
  template <class T>
  Message& fixed(int field, int wire_type, T value) {
    tag(field, wire_type);
    std::string raw(sizeof value, '\0');
    std::memcpy(raw.data(), &value, sizeof value);
    data_ += raw;
    return *this;
  }

  std::string data_;
};

/// TensorProto.DataType
enum OnnxType {
  onnx_float = 1,
  onnx_uint8 = 2,
  onnx_int8 = 3,
  onnx_uint16 = 4,
  onnx_int16 = 5,
  onnx_int32 = 6,
  onnx_int64 = 7,
  onnx_string = 8,
  onnx_bool = 9,
  onnx_float16 = 10,
  onnx_double = 11,
  onnx_uint32 = 12,
  onnx_uint64 = 13,
  onnx_bfloat16 = 16
};

template <class T>
constexpr OnnxType onnx_type_of() {
  if constexpr (std::is_same_v<T, float>) return onnx_float;
  if constexpr (std::is_same_v<T, double>) return onnx_double;
  if constexpr (std::is_same_v<T, std::int32_t>) return onnx_int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return onnx_int64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return onnx_uint8;
}

inline Message onnx_tensor_header(std::string_view name, int type, const std::vector<std::int64_t>& shape) {
  Message tensor;
  for (const std::int64_t extent : shape) tensor.varint(1, static_cast<std::uint64_t>(extent));
  tensor.varint(2, static_cast<std::uint64_t>(type));
  if (!name.empty()) tensor.bytes(8, name);
  return tensor;
}

/// TensorProto with raw_data
template <class T>
Message onnx_tensor(std::string_view name, const std::vector<std::int64_t>& shape, const std::vector<T>& values) {
  std::string raw(values.size() * sizeof(T), '\0');
  if (!raw.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return onnx_tensor_header(name, onnx_type_of<T>(), shape).bytes(9, raw);
}

inline Message onnx_boolean(std::string_view name, bool value) {
  return onnx_tensor_header(name, onnx_bool, {}).bytes(9, std::string(1, value ? '\1' : '\0'));
}

/// TensorProto whose bytes lie in another file
inline Message onnx_external_tensor(std::string_view name, int type, const std::vector<std::int64_t>& shape,
                                    const std::vector<std::pair<std::string, std::string>>& where) {
  Message tensor = onnx_tensor_header(name, type, shape);
  for (const auto& [key, value] : where) tensor.message(13, Message().bytes(1, key).bytes(2, value));
  return tensor.varint(14, 1);
}

/// SparseTensorProto
inline Message onnx_sparse_tensor(const Message& values, const Message& indices,
                                  const std::vector<std::int64_t>& shape) {
  Message tensor = Message().message(1, values).message(2, indices);
  for (const std::int64_t extent : shape) tensor.varint(3, static_cast<std::uint64_t>(extent));
  return tensor;
}

struct OnnxAttribute {
  Message message;

  static OnnxAttribute of_int(std::string_view name, std::int64_t value) {
    return {Message().bytes(1, name).varint(3, static_cast<std::uint64_t>(value)).varint(20, 2)};
  }
  static OnnxAttribute of_float(std::string_view name, float value) {
    return {Message().bytes(1, name).fixed32(2, value).varint(20, 1)};
  }
  static OnnxAttribute of_ints(std::string_view name, const std::vector<std::int64_t>& values) {
    Message m = Message().bytes(1, name);
    for (const std::int64_t value : values) m.varint(8, static_cast<std::uint64_t>(value));
    return {m.varint(20, 7)};
  }
  static OnnxAttribute of_floats(std::string_view name, const std::vector<float>& values) {
    Message m = Message().bytes(1, name);
    for (const float value : values) m.fixed32(7, value);
    return {m.varint(20, 6)};
  }
  static OnnxAttribute of_string(std::string_view name, std::string_view value) {
    return {Message().bytes(1, name).bytes(4, value).varint(20, 3)};
  }
  static OnnxAttribute of_tensor(std::string_view name, const Message& tensor) {
    return {Message().bytes(1, name).message(5, tensor).varint(20, 4)};
  }
  static OnnxAttribute of_sparse_tensor(std::string_view name, const Message& tensor) {
    return {Message().bytes(1, name).message(22, tensor).varint(20, 11)};
  }
  static OnnxAttribute of_graph(std::string_view name, const Message& graph) {
    return {Message().bytes(1, name).message(6, graph).varint(20, 5)};
  }
  /// Stands for attribute `of` of the function around; type as in AttributeProto.
  static OnnxAttribute reference(std::string_view name, std::string_view of, int type) {
    return {Message().bytes(1, name).bytes(21, of).varint(20, static_cast<std::uint64_t>(type))};
  }
};

/// NodeProto
inline Message onnx_node(std::string_view op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const std::vector<OnnxAttribute>& attributes = {},
                         std::string_view name = "", std::string_view domain = "") {
  Message node;
  for (const std::string& input : inputs) node.bytes(1, input);
  for (const std::string& output : outputs) node.bytes(2, output);
  if (!name.empty()) node.bytes(3, name);
  node.bytes(4, op);
  for (const OnnxAttribute& attribute : attributes) node.message(5, attribute.message);
  if (!domain.empty()) node.bytes(7, domain);
  return node;
}

/// GraphProto of a branch: nodes and the names of its outputs
inline Message onnx_graph(const std::vector<Message>& nodes, const std::vector<std::string>& outputs) {
  Message graph;
  for (const Message& node : nodes) graph.message(1, node);
  for (const std::string& output : outputs) graph.message(12, Message().bytes(1, output));
  return graph;
}

/// FunctionProto of domain "local"
inline Message onnx_function(std::string_view name, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& outputs, const std::vector<Message>& nodes,
                             std::uint64_t opset = 13) {
  Message function = Message().bytes(1, name).bytes(10, "local");
  for (const std::string& input : inputs) function.bytes(4, input);
  for (const std::string& output : outputs) function.bytes(5, output);
  for (const Message& node : nodes) function.message(7, node);
  return function.message(9, Message().bytes(1, "").varint(2, opset));
}

class OnnxModel {
public:
  using Dimension = std::variant<std::int64_t, std::string>;

  explicit OnnxModel(std::int64_t opset = 13, std::int64_t ir_version = 8) : opset_(opset), ir_version_(ir_version) {}

  OnnxModel& input(std::string_view name, const std::vector<Dimension>& shape, int type = onnx_float) {
    graph_.message(11, value_info(name, type, shape));
    return *this;
  }
  OnnxModel& output(std::string_view name) {
    graph_.message(12, Message().bytes(1, name));
    return *this;
  }
  OnnxModel& initializer(const Message& tensor) {
    graph_.message(5, tensor);
    return *this;
  }
  template <class T>
  OnnxModel& initializer(std::string_view name, const std::vector<std::int64_t>& shape, const std::vector<T>& values) {
    return initializer(onnx_tensor(name, shape, values));
  }
  OnnxModel& node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                  const std::vector<OnnxAttribute>& attributes = {}, std::string_view name = "",
                  std::string_view domain = "") {
    graph_.message(1, onnx_node(op, inputs, outputs, attributes, name, domain));
    return *this;
  }
  OnnxModel& node(std::string_view op, const std::vector<std::string>& inputs, const std::string& output,
                  const std::vector<OnnxAttribute>& attributes = {}, std::string_view name = "",
                  std::string_view domain = "") {
    return node(op, inputs, std::vector<std::string>{output}, attributes, name, domain);
  }
  OnnxModel& sparse_initializer(const Message& tensor) {
    graph_.message(15, tensor);
    return *this;
  }
  OnnxModel& function(const Message& function) {
    functions_.message(25, function);
    return *this;
  }
  Message& graph() { return graph_; }

  std::string bytes() const {
    Message model;
    model.varint(1, static_cast<std::uint64_t>(ir_version_)).bytes(2, "driftbound tests").message(7, graph_);
    if (opset_ >= 0) model.message(8, Message().bytes(1, "").varint(2, static_cast<std::uint64_t>(opset_)));
    return model.append(functions_.data()).data();
  }
  std::filesystem::path save(const std::filesystem::path& file) const {
    std::ofstream(file, std::ios::binary) << bytes();
    return file;
  }

private:
  static Message value_info(std::string_view name, int type, const std::vector<Dimension>& shape) {
    Message dimensions;
    for (const Dimension& dimension : shape) {
      Message one;
      if (const auto* extent = std::get_if<std::int64_t>(&dimension))
        one.varint(1, static_cast<std::uint64_t>(*extent));
      if (const auto* symbol = std::get_if<std::string>(&dimension)) one.bytes(2, *symbol);
      dimensions.message(1, one);
    }
    const Message tensor_type = Message().varint(1, static_cast<std::uint64_t>(type)).message(2, dimensions);
    return Message().bytes(1, name).message(2, Message().message(1, tensor_type));
  }

  std::int64_t opset_, ir_version_;
  Message graph_, functions_;
};

}  // namespace driftbound::test
