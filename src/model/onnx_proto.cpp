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

void append_integers(std::vector<std::int64_t>& values, Bytes packed) {
  while (!packed.empty()) values.push_back(static_cast<std::int64_t>(take_varint(packed)));
}

std::pair<std::string_view, std::string_view> parse_key_value(Bytes bytes) {
  return {field_text(bytes, 1, "StringStringEntryProto"), field_text(bytes, 2, "StringStringEntryProto")};
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
      case 5: {
        const Bytes attribute = reader.bytes();
        const std::string_view name = field_text(attribute, 1, "AttributeProto");
        node.attributes.emplace_back(required_name(name, "an attribute"), attribute);
        break;
      }
      case 7:
        node.domain = reader.text();
        break;
      default:
        break;
    }
  }
  required_name(node.op_type, "a node");
  if (node.outputs.empty()) throw ParseError("a node without outputs; the file is damaged or not ONNX");
  return node;
}

std::string_view sparse_tensor_name(Bytes bytes) {
  std::string_view name;
  for (WireReader reader(bytes, "SparseTensorProto"); reader.next();) {
    if (reader.field() == 1) name = field_text(reader.bytes(), 8, "TensorProto");
  }
  return required_name(name, "a sparse initialiser");
}

void parse_graph(GraphProto& graph, Bytes bytes) {
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
        graph.sparse_initializers.push_back(sparse_tensor_name(reader.bytes()));
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
        append_integers(tensor.dims, reader.repeated(WireType::varint));
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
      case 13: {
        const auto [key, value] = parse_key_value(reader.bytes());
        if (key == "location") tensor.external_location = value;
        break;
      }
      case 14:
        tensor.is_external = reader.integer() == 1;
        break;
      default:
        break;
    }
  }
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
      case 5:
        attribute.tensor = reader.bytes();
        break;
      case 7:
        attribute.reals.push_back(reader.repeated(WireType::fixed32));
        break;
      case 8:
        attribute.integers.push_back(reader.repeated(WireType::varint));
        break;
      case 20:
        attribute.type = static_cast<AttributeType>(reader.integer());
        break;
      case 21:
        attribute.is_reference = true;
        break;
      default:
        break;
    }
  }
  return attribute;
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
        parse_graph(*model.graph, reader.bytes());
        break;
      case 8:
        model.opset_imports.push_back(parse_opset_import(reader.bytes()));
        break;
      case 25: {
        const Bytes function = reader.bytes();
        model.local_functions.emplace_back(field_text(function, 10, "FunctionProto"),
                                           field_text(function, 1, "FunctionProto"));
        break;
      }
      default:
        break;
    }
  }
  return model;
}

}  // namespace driftbound::onnx
