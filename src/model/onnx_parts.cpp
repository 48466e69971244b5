#include "model/onnx_parts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <variant>

#include "driftbound/num/errors.hpp"
#include "model/onnx_order.hpp"
#include "model/onnx_proto.hpp"
#include "model/onnx_scope.hpp"
#include "model/onnx_tensor.hpp"

namespace driftbound::onnx {
namespace {

enum class Kind {
  single,    ///< nothing inside that counts
  name,      ///< text that is kept
  integers,  ///< of a list: varints, packed or not
  elements,  ///< of a tensor: the same
  reals,     ///< float32, packed or not
  model,
  graph,
  node,
  attribute,
  tensor,
  sparse_tensor,
  value,
  type,
  tensor_type,
  shape,
  dimension,
  function
};

/// A field of a message and the bytes that one of it takes: parsed, in tables of names, in the graph, and in lists that
/// have just grown to twice their size.
struct Part {
  Kind message;
  int field;
  Kind kind;
  std::size_t memory;
};

// What the parts of a graph take, from the sizes of the structures in bytes. A list that grows without reserve counts
// three times, an entry of a table of names 64: three pointers, a hash, the name and up to three buckets.
constexpr std::size_t table_entry = 64, list_item = 3 * sizeof(std::string_view), small_list = 24;
/// Parsed, its name in the list of operators, its place in the order, and room for it in the graph's lists.
constexpr std::size_t node_memory =
    sizeof(NodeProto) + sizeof(std::string) + 3 * sizeof(std::size_t) + sizeof(Node) + sizeof(Value);
/// In two lists, and what the heap keeps of the shorter ones that they grew out of.
constexpr std::size_t attribute_memory = 3 * list_item;
/// In the list, among the names used, and in the lists of its producer and of the graph's node.
constexpr std::size_t node_input_memory = list_item + table_entry + 2 * sizeof(std::size_t);
/// In the list, among the producers and the values; and what is known of it.
constexpr std::size_t node_output_memory = list_item + 2 * table_entry + sizeof(Known) + small_list;
/// Unparsed, among the values, what is known of it, room for it in the graph, and its shape three times; its numbers
/// have an owner.
constexpr std::size_t tensor_memory = sizeof(Bytes) + table_entry + sizeof(Known) + sizeof(Value) + 3 * small_list + 96;
/// Parsed, among the values, among those seen, what is known of it, in the graph, and its shape and name when checked.
constexpr std::size_t graph_input_memory =
    sizeof(ValueInfoProto) + 3 * table_entry + sizeof(Known) + sizeof(Value) + 4 * small_list;
/// As parsed (twice, in a list just grown), among the symbols, declared (the same), in shapes, and as rows of an input.
constexpr std::size_t dimension_memory = 3 * sizeof(Dimension) + table_entry + 3 * sizeof(DeclaredDimension) -
                                         sizeof(Dimension) + 3 * (sizeof(std::optional<ElementType>) + sizeof(Known*));

constexpr std::array<Part, 41> parts = {{{Kind::model, 7, Kind::graph, 256},
                                         {Kind::model, 8, Kind::single, 96},
                                         {Kind::model, 25, Kind::function, 768},
                                         {Kind::graph, 1, Kind::node, node_memory},
                                         {Kind::graph, 5, Kind::tensor, tensor_memory},
                                         {Kind::graph, 11, Kind::value, graph_input_memory},
                                         {Kind::graph, 12, Kind::value, 2 * sizeof(ValueInfoProto) + table_entry},
                                         {Kind::graph, 15, Kind::sparse_tensor, tensor_memory + list_item},
                                         {Kind::function, 4, Kind::single, 96},
                                         {Kind::function, 5, Kind::single, 96},
                                         {Kind::function, 6, Kind::single, 96},
                                         {Kind::function, 7, Kind::node, 3 * sizeof(NodeProto)},
                                         {Kind::function, 9, Kind::single, 96},
                                         {Kind::function, 11, Kind::attribute, attribute_memory},
                                         {Kind::node, 1, Kind::single, node_input_memory},
                                         {Kind::node, 2, Kind::name, node_output_memory},
                                         {Kind::node, 3, Kind::name, 0},
                                         {Kind::node, 4, Kind::name, 0},
                                         {Kind::node, 7, Kind::name, 0},
                                         {Kind::node, 5, Kind::attribute, attribute_memory},
                                         {Kind::attribute, 5, Kind::tensor, 3 * small_list + 96},
                                         {Kind::attribute, 6, Kind::graph, 256},
                                         {Kind::attribute, 7, Kind::reals, 64},
                                         {Kind::attribute, 8, Kind::integers, 64},
                                         {Kind::attribute, 22, Kind::sparse_tensor, 3 * small_list + 96},
                                         {Kind::tensor, 1, Kind::single, 32},
                                         {Kind::tensor, 4, Kind::single, 64},
                                         {Kind::tensor, 5, Kind::elements, 64},
                                         {Kind::tensor, 7, Kind::elements, 64},
                                         {Kind::tensor, 8, Kind::name, 0},
                                         {Kind::tensor, 10, Kind::single, 64},
                                         {Kind::tensor, 11, Kind::elements, 64},
                                         {Kind::sparse_tensor, 1, Kind::tensor, 0},
                                         {Kind::sparse_tensor, 2, Kind::tensor, 0},
                                         {Kind::sparse_tensor, 3, Kind::single, 32},
                                         {Kind::value, 1, Kind::name, 0},
                                         {Kind::value, 2, Kind::type, 0},
                                         {Kind::type, 1, Kind::tensor_type, 0},
                                         {Kind::tensor_type, 2, Kind::shape, 0},
                                         {Kind::shape, 1, Kind::dimension, dimension_memory},
                                         {Kind::dimension, 2, Kind::name, 0}}};

/// Bytes that are not fit to print become four.
std::size_t printed_size(std::string_view name) {
  constexpr std::size_t longest_escape = 4;
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  return (is_plain ? 1 : longest_escape) * name.size();
}

/// Kept once, in a string that may have room for as much again.
std::size_t memory_of_name(std::string_view name) {
  return 2 * printed_size(name);
}

std::size_t count_varints(Bytes packed) {
  return static_cast<std::size_t>(
      std::count_if(packed.begin(), packed.end(), [](std::byte b) { return b < std::byte{0x80}; }));
}

/// The type that a tensor declares before whatever is not well formed in it.
DataType declared_type(Bytes tensor) {
  DataType type = DataType::undefined;
  try {
    for (WireReader reader(tensor, "TensorProto"); reader.next();) {
      if (reader.field() == 2) type = static_cast<DataType>(reader.integer());
    }
  } catch (const ParseError&) {
  }
  return type;
}

/// Bytes that one element takes: as stored and, where it may be an index or an extent, once more in a list.
std::size_t memory_of_element(DataType data_type) {
  const std::optional<ElementType> type = element_type(data_type);
  if (!type) return 0;
  const bool may_be_listed = !is_float(*type) && *type != ElementType::boolean;
  return bytes_per_element(*type) + (may_be_listed ? sizeof(std::int64_t) : 0);
}

/// What is not well formed, or nested too deeply, is refused when it is read: it ends the message here.
std::size_t memory_of(Kind message, Bytes bytes, std::size_t depth) {
  constexpr std::size_t messages_within_a_graph = 3;
  std::size_t memory = 0;
  if (depth > messages_within_a_graph * (deepest_nesting + 2)) return memory;
  try {
    const std::size_t element = message == Kind::tensor ? memory_of_element(declared_type(bytes)) : 0;
    for (WireReader reader(bytes, "message"); reader.next();) {
      const auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& candidate) {
        return candidate.message == message && candidate.field == reader.field();
      });
      if (part == parts.end()) continue;
      memory += part->memory;
      if (part->kind == Kind::single || reader.type() != WireType::bytes) continue;
      const Bytes inside = reader.bytes();
      switch (part->kind) {
        case Kind::name:
          memory += memory_of_name({reinterpret_cast<const char*>(inside.data()), inside.size()});
          break;
        case Kind::integers:  // eight bytes each, of which there may be a copy
          memory += 2 * sizeof(std::int64_t) * count_varints(inside);
          break;
        case Kind::elements:
          memory += element * count_varints(inside);
          break;
        case Kind::reals:
          memory += inside.size();
          break;
        default:
          memory += memory_of(part->kind, inside, depth + 1);
      }
    }
  } catch (const ParseError&) {
  }
  return memory;
}

}  // namespace

std::size_t memory_of_parts(Bytes model) {
  return memory_of(Kind::model, model, 0);
}

std::size_t memory_of_op(const Op& op, std::string_view layer, std::size_t rank) {
  // The layer's name is in the node, the value, the table of layers and, when the graph is checked, another table: four
  // copies, one of which may have room for two.
  constexpr std::size_t copies_of_name = 5, shapes = 2 * sizeof(Extent), copies_of_lists = 2;
  std::size_t lists = 0;
  if (const auto* gather = std::get_if<op::Gather>(&op)) lists = gather->indices.size() * sizeof(std::int64_t);
  if (const auto* where = std::get_if<op::Where>(&op)) lists = where->condition.size() / 8;
  return sizeof(std::string) + table_entry + 2 * small_list + copies_of_name * layer.size() + rank * shapes +
         copies_of_lists * lists;
}

std::size_t memory_of_further_values(std::size_t inputs, std::size_t outputs) {
  constexpr std::size_t usual = 8, bytes = 2048;
  return bytes * (std::max(inputs, usual) + std::max(outputs, usual) - 2 * usual);
}

}  // namespace driftbound::onnx
