#include "model/onnx_proto.hpp"

#include "driftbound/num/errors.hpp"

namespace driftbound::onnx {
namespace {

std::string_view field_text(Bytes bytes, int field, std::string_view message) {
  std::string_view text;
  for (WireReader reader(bytes, message); reader.next();) {
    if (reader.field() == field) text = reader.text();
  }
  return text;
}

/// A name the message cannot do without: it keeps what a damaged file can claim in proportion to its size.
std::string_view required_name(std::string_view name, const char* what) {
  if (name.empty()) throw ParseError(std::string(what) + " without a name; the file is damaged or not ONNX");
  return name;
}

std::pair<std::string_view, std::string_view> parse_key_value(Bytes bytes) {
  return {field_text(bytes, 1, "StringStringEntryProto"), field_text(bytes, 2, "StringStringEntryProto")};
}

/// One extent beyond the highest rank tells that there are too many; the others need not be kept.
void append_extents(std::vector<std::int64_t>& extents, Bytes packed) {
  while (!packed.empty() && extents.size() <= highest_rank)
    extents.push_back(static_cast<std::int64_t>(take_varint(packed)));
}

void take_external_data(ExternalData& external, Bytes bytes) {
  const auto [key, value] = parse_key_value(bytes);
  std::optional<std::string_view>* target = nullptr;
  if (key == "location") target = &external.location;
  if (key == "offset") target = &external.offset;
  if (key == "length") target = &external.length;
  if (target == nullptr) return;
  if (target->has_value()) throw ParseError("a tensor gives its external " + std::string(key) + " twice");
  *target = value;
}

Dimension parse_dimension(Bytes bytes) {
  Dimension dimension;
  for (WireReader reader(bytes, "TensorShapeProto.Dimension"); reader.next();) {
    if (reader.field() == 1) dimension.value = reader.integer();
    if (reader.field() == 2) dimension.symbol = reader.text();
  }
  return dimension;
}

void parse_tensor_type(ValueInfoProto& value, Bytes bytes) {
  for (WireReader reader(bytes, "TypeProto.Tensor"); reader.next();) {
    if (reader.field() == 1) value.element_type = static_cast<DataType>(reader.integer());
    if (reader.field() != 2) continue;
    value.has_shape = true;
    for (WireReader shape(reader.bytes(), "TensorShapeProto"); shape.next();) {
      if (shape.field() == 1) value.shape.push_back(parse_dimension(shape.bytes()));
    }
  }
}

ValueInfoProto parse_value_info(Bytes bytes) {
  ValueInfoProto value;
  for (WireReader reader(bytes, "ValueInfoProto"); reader.next();) {
    if (reader.field() == 1) value.name = reader.text();
    if (reader.field() != 2) continue;
    for (WireReader type(reader.bytes(), "TypeProto"); type.next();) {
      if (type.field() != 1) continue;
      value.is_tensor = true;
      parse_tensor_type(value, type.bytes());
    }
  }
  required_name(value.name, "a graph input or output");
  return value;
}

std::pair<std::string_view, Bytes> named_attribute(Bytes bytes) {
  return {required_name(field_text(bytes, 1, "AttributeProto"), "an attribute"), bytes};
}

NodeProto parse_node(Bytes bytes) {
  NodeProto node;
  for (WireReader reader(bytes, "NodeProto"); reader.next();) {
    switch (reader.field()) {
      case 1:
        node.inputs.push_back(reader.text());
        break;
      case 2:
        node.outputs.push_back(reader.text());
        break;
      case 3:
        node.name = reader.text();
        break;
      case 4:
        node.op_type = reader.text();
        break;
      case 5:
        node.attributes.push_back(named_attribute(reader.bytes()));
        break;
      case 7:
        node.domain = reader.text();
        break;
      case 8:
        node.overload = reader.text();
        break;
      default:
        break;
    }
  }
  required_name(node.op_type, "a node");
  if (node.outputs.empty()) throw ParseError("a node without outputs; the file is damaged or not ONNX");
  return node;
}

/// Exact room for the parts of one more message, where that more than doubles them: a list that grew by itself would
/// keep room for up to as much again.
template <class List>
void reserve_exactly(List& list, std::size_t more) {
  if (more > list.size()) list.reserve(list.size() + more);
}

void reserve_parts(GraphProto& graph, Bytes bytes) {
  std::size_t nodes = 0, initializers = 0, inputs = 0;
  for (WireReader reader(bytes, "GraphProto"); reader.next();) {
    if (reader.field() == 1) ++nodes;
    if (reader.field() == 5) ++initializers;
    if (reader.field() == 11) ++inputs;
  }
  reserve_exactly(graph.nodes, nodes);
  reserve_exactly(graph.initializers, initializers);
  reserve_exactly(graph.inputs, inputs);
}

void merge_graph(GraphProto& graph, Bytes bytes) {
  reserve_parts(graph, bytes);
  for (WireReader reader(bytes, "GraphProto"); reader.next();) {
    switch (reader.field()) {
      case 1:
        graph.nodes.push_back(parse_node(reader.bytes()));
        break;
      case 2:
        graph.name = reader.text();
        break;
      case 5:
        graph.initializers.push_back(reader.bytes());
        break;
      case 11:
        graph.inputs.push_back(parse_value_info(reader.bytes()));
        break;
      case 12:
        graph.outputs.push_back(parse_value_info(reader.bytes()));
        break;
      case 15:
        graph.sparse_initializers.push_back(reader.bytes());
        break;
      default:
        break;
    }
  }
}

std::pair<std::string_view, std::int64_t> parse_opset_import(Bytes bytes) {
  std::pair<std::string_view, std::int64_t> import{"", 0};
  for (WireReader reader(bytes, "OperatorSetIdProto"); reader.next();) {
    if (reader.field() == 1) import.first = reader.text();
    if (reader.field() == 2) import.second = reader.integer();
  }
  return import;
}

}  // namespace

TensorProto parse_tensor(Bytes bytes) {
  TensorProto tensor;
  for (WireReader reader(bytes, "TensorProto"); reader.next();) {
    switch (reader.field()) {
      case 1:
        append_extents(tensor.dims, reader.repeated(WireType::varint));
        break;
      case 2:
        tensor.data_type = static_cast<DataType>(reader.integer());
        break;
      case 3:
        tensor.is_segment = true;
        break;
      case 4:
        tensor.float_data.push_back(reader.repeated(WireType::fixed32));
        break;
      case 5:
        tensor.int32_data.push_back(reader.repeated(WireType::varint));
        break;
      case 7:
        tensor.int64_data.push_back(reader.repeated(WireType::varint));
        break;
      case 8:
        tensor.name = reader.text();
        break;
      case 9:
        tensor.raw_data = reader.bytes();
        break;
      case 10:
        tensor.double_data.push_back(reader.repeated(WireType::fixed64));
        break;
      case 11:
        tensor.uint64_data.push_back(reader.repeated(WireType::varint));
        break;
      case 13:
        take_external_data(tensor.external, reader.bytes());
        break;
      case 14:
        tensor.is_external = reader.integer() == 1;
        break;
      default:
        break;
    }
  }
  return tensor;
}

std::optional<std::string_view> parse_data_location(Bytes tensor) {
  bool is_external = false;
  ExternalData external;
  for (WireReader reader(tensor, "TensorProto"); reader.next();) {
    if (reader.field() == 13) take_external_data(external, reader.bytes());
    if (reader.field() == 14) is_external = reader.integer() == 1;
  }
  return is_external ? external.location : std::nullopt;
}

SparseTensorProto parse_sparse_tensor(Bytes bytes) {
  SparseTensorProto tensor;
  for (WireReader reader(bytes, "SparseTensorProto"); reader.next();) {
    if (reader.field() == 1) tensor.values = reader.bytes();
    if (reader.field() == 2) tensor.indices = reader.bytes();
    if (reader.field() == 3) append_extents(tensor.dims, reader.repeated(WireType::varint));
  }
  tensor.name = field_text(tensor.values, 8, "TensorProto");
  return tensor;
}

AttributeProto parse_attribute(Bytes bytes) {
  AttributeProto attribute;
  for (WireReader reader(bytes, "AttributeProto"); reader.next();) {
    switch (reader.field()) {
      case 2:
        attribute.real = reader.fixed32();
        break;
      case 3:
        attribute.integer = reader.integer();
        break;
      case 4:
        attribute.text = reader.text();
        break;
      case 5:
        attribute.tensor = reader.bytes();
        break;
      case 6:
        attribute.graph = reader.bytes();
        break;
      case 7:
        attribute.reals.push_back(reader.repeated(WireType::fixed32));
        break;
      case 8:
        attribute.integers.push_back(reader.repeated(WireType::varint));
        break;
      case 9:
        if (const std::string_view text = reader.text(); attribute.text_count++ < most_texts)
          attribute.texts.push_back(text);
        break;
      case 20:
        attribute.type = static_cast<AttributeType>(reader.integer());
        break;
      case 21:
        attribute.reference = reader.text();
        break;
      case 22:
        attribute.sparse_tensor = reader.bytes();
        break;
      default:
        break;
    }
  }
  return attribute;
}

GraphProto parse_graph(Bytes bytes) {
  GraphProto graph;
  merge_graph(graph, bytes);
  return graph;
}

FunctionId parse_function_id(Bytes bytes) {
  FunctionId id;
  auto& [domain, name, overload] = id;
  for (WireReader reader(bytes, "FunctionProto"); reader.next();) {
    if (reader.field() == 1) name = reader.text();
    if (reader.field() == 10) domain = reader.text();
    if (reader.field() == 13) overload = reader.text();
  }
  required_name(name, "a function");
  return id;
}

FunctionProto parse_function(Bytes bytes) {
  FunctionProto function;
  for (WireReader reader(bytes, "FunctionProto"); reader.next();) {
    switch (reader.field()) {
      case 4:
        function.inputs.push_back(required_name(reader.text(), "an input of a function"));
        break;
      case 5:
        function.outputs.push_back(required_name(reader.text(), "an output of a function"));
        break;
      case 6:
        function.attributes.push_back(required_name(reader.text(), "an attribute of a function"));
        break;
      case 7:
        function.nodes.push_back(parse_node(reader.bytes()));
        break;
      case 9:
        function.opset_imports.push_back(parse_opset_import(reader.bytes()));
        break;
      case 11:
        function.defaults.push_back(named_attribute(reader.bytes()));
        break;
      default:
        break;
    }
  }
  return function;
}

ModelProto parse_model(Bytes bytes) {
  ModelProto model;
  for (WireReader reader(bytes, "ModelProto"); reader.next();) {
    switch (reader.field()) {
      case 1:
        model.ir_version = reader.integer();
        break;
      case 2:
        model.producer_name = reader.text();
        break;
      case 3:
        model.producer_version = reader.text();
        break;
      case 7:
        if (!model.graph) model.graph.emplace();
        merge_graph(*model.graph, reader.bytes());
        break;
      case 8:
        model.opset_imports.push_back(parse_opset_import(reader.bytes()));
        break;
      case 25:
        model.functions.push_back(reader.bytes());
        break;
      default:
        break;
    }
  }
  return model;
}

}  // namespace driftbound::onnx
