#include "model/onnx_parts.hpp"

#include <algorithm>
#include <array>
#include <variant>

#include "driftbound/num/errors.hpp"
#include "model/onnx_order.hpp"

namespace driftbound::onnx {
namespace {

using Bytes = WireReader::Bytes;

enum class Kind {
  single,   ///< nothing inside that counts
  name,     ///< text that is kept
  numbers,  ///< varints, packed or not
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

constexpr std::array<Part, 41> parts = {{{Kind::model, 7, Kind::graph, 256},
                                         {Kind::model, 8, Kind::single, 96},
                                         {Kind::model, 25, Kind::function, 768},
                                         {Kind::graph, 1, Kind::node, 640},
                                         {Kind::graph, 5, Kind::tensor, 768},
                                         {Kind::graph, 11, Kind::value, 1280},
                                         {Kind::graph, 12, Kind::value, 512},
                                         {Kind::graph, 15, Kind::sparse_tensor, 1536},
                                         {Kind::function, 4, Kind::single, 96},
                                         {Kind::function, 5, Kind::single, 96},
                                         {Kind::function, 6, Kind::single, 96},
                                         {Kind::function, 7, Kind::node, 640},
                                         {Kind::function, 9, Kind::single, 96},
                                         {Kind::function, 11, Kind::attribute, 192},
                                         {Kind::node, 1, Kind::single, 192},
                                         {Kind::node, 2, Kind::name, 640},
                                         {Kind::node, 3, Kind::name, 0},
                                         {Kind::node, 4, Kind::name, 0},
                                         {Kind::node, 7, Kind::name, 0},
                                         {Kind::node, 5, Kind::attribute, 192},
                                         {Kind::attribute, 5, Kind::tensor, 768},
                                         {Kind::attribute, 6, Kind::graph, 256},
                                         {Kind::attribute, 7, Kind::numbers, 64},
                                         {Kind::attribute, 8, Kind::numbers, 64},
                                         {Kind::attribute, 22, Kind::sparse_tensor, 1536},
                                         {Kind::tensor, 1, Kind::single, 32},
                                         {Kind::tensor, 4, Kind::single, 64},
                                         {Kind::tensor, 5, Kind::numbers, 64},
                                         {Kind::tensor, 7, Kind::numbers, 64},
                                         {Kind::tensor, 8, Kind::name, 0},
                                         {Kind::tensor, 10, Kind::single, 64},
                                         {Kind::tensor, 11, Kind::numbers, 64},
                                         {Kind::sparse_tensor, 1, Kind::tensor, 0},
                                         {Kind::sparse_tensor, 2, Kind::tensor, 0},
                                         {Kind::sparse_tensor, 3, Kind::single, 32},
                                         {Kind::value, 1, Kind::name, 0},
                                         {Kind::value, 2, Kind::type, 0},
                                         {Kind::type, 1, Kind::tensor_type, 0},
                                         {Kind::tensor_type, 2, Kind::shape, 0},
                                         {Kind::shape, 1, Kind::dimension, 192},
                                         {Kind::dimension, 2, Kind::name, 0}}};

/// Bytes that are not fit to print become four, and a layer's name is kept in several places.
std::size_t memory_of_name(std::string_view name) {
  constexpr std::size_t copies = 6, longest_escape = 4;
  const bool is_plain = std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  return copies * (is_plain ? 1 : longest_escape) * name.size();
}

/// Each becomes eight bytes, of which there may be a copy.
std::size_t memory_of_numbers(Bytes packed) {
  const auto count = std::count_if(packed.begin(), packed.end(), [](std::byte b) { return b < std::byte{0x80}; });
  return 2 * sizeof(std::int64_t) * static_cast<std::size_t>(count);
}

/// What is not well formed, or nested too deeply, is refused when it is read: it ends the message here.
std::size_t memory_of(Kind message, Bytes bytes, std::size_t depth) {
  constexpr std::size_t messages_within_a_graph = 3;
  std::size_t memory = 0;
  if (depth > messages_within_a_graph * (deepest_nesting + 2)) return memory;
  try {
    for (WireReader reader(bytes, "message"); reader.next();) {
      const auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& candidate) {
        return candidate.message == message && candidate.field == reader.field();
      });
      if (part == parts.end()) continue;
      memory += part->memory;
      if (part->kind == Kind::single || reader.type() != WireType::bytes) continue;
      if (part->kind == Kind::name) {
        memory += memory_of_name(reader.text());
      } else {
        const Bytes inside = reader.bytes();
        memory += part->kind == Kind::numbers ? memory_of_numbers(inside) : memory_of(part->kind, inside, depth + 1);
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
  constexpr std::size_t bytes = 512, bytes_per_extent = 64, copies = 2;
  std::size_t lists = 0;
  if (const auto* gather = std::get_if<op::Gather>(&op)) lists = gather->indices.size() * sizeof(std::int64_t);
  if (const auto* where = std::get_if<op::Where>(&op)) lists = where->condition.size() / 8;
  return bytes + memory_of_name(layer) + rank * bytes_per_extent + copies * lists;
}

std::size_t memory_of_further_values(std::size_t inputs, std::size_t outputs) {
  constexpr std::size_t usual = 8, bytes = 2048;
  return bytes * (std::max(inputs, usual) + std::max(outputs, usual) - 2 * usual);
}

}  // namespace driftbound::onnx
