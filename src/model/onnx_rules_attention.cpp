#include <algorithm>
#include <limits>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/fold.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/selections.hpp"

namespace driftbound::onnx {
namespace {

using Result = op::Attention::Result;

// Inputs of an Attention.
constexpr std::size_t query = 0, key = 1, value = 2, mask = 3, past_key = 4, past_value = 5, key_counts = 6;

/// Extent of an axis, where it is known.
std::optional<std::int64_t> extent_of(const NodeView& node, std::size_t slot, std::size_t axis) {
  const OpenShape* shape = node.operands[slot].shape;
  if (shape == nullptr || axis >= shape->size() || !(*shape)[axis].is_number()) return std::nullopt;
  return (*shape)[axis].value();
}

/// Axis 2 of [N, heads, length, size] or axis 1 of [N, length, heads size].
std::optional<std::int64_t> length_of(const NodeView& node, std::size_t slot) {
  const auto rank = rank_of(node, slot);
  return rank && *rank >= 2 ? extent_of(node, slot, *rank - 2) : std::nullopt;
}

struct Lengths {
  std::optional<std::int64_t> queries, cached, keys;  ///< keys: with those of the cache
};

Lengths lengths_of(const NodeView& node) {
  Lengths result{length_of(node, query), 0, length_of(node, key)};
  if (is_given(node, past_key)) result.cached = extent_of(node, past_key, 2);
  constexpr std::int64_t longest = std::int64_t{1} << 40;
  for (const auto& length : {result.queries, result.cached, result.keys}) {
    if (length && *length > longest) throw Unsupported("a sequence of more than 2^40 elements");
  }
  if (result.keys) result.keys = result.cached ? std::optional(*result.keys + *result.cached) : std::nullopt;
  return result;
}

/// Which keys the queries see, and by how much the scores are shifted.
struct Masks {
  Allowance& allowance;
  op::Where visible;                    ///< empty: all
  std::optional<StoredTensor> addends;  ///< a constant mask without its infinities, or its integers as floats
};

/// Throws:    Unsupported where a mask written out is more than the file justifies
void pay_for(Masks& masks, const Shape& shape) {
  constexpr std::size_t bytes_per_entry = 3 * sizeof(std::size_t);  // of which two are indices for broadcasting
  const auto entries = static_cast<std::size_t>(element_count(shape));
  if (entries > masks.allowance.left() / bytes_per_entry || !masks.allowance.take(entries, entries * bytes_per_entry))
    throw Unsupported("a mask " + to_string(shape) + " is larger than a file of this size justifies");
}

/// The keys hidden so far stay so.
void show_only(Masks& masks, const op::Where& visible) {
  if (masks.visible.condition.empty()) {
    masks.visible = visible;
    return;
  }
  pay_for(masks, broadcast(masks.visible.condition_shape, visible.condition_shape));
  masks.visible = both(masks.visible, visible);
}

/// Booleans say which keys are seen; of numbers minus infinity says so, and the others are added.
void read_mask(Masks& masks, const StoredTensor& stored) {
  pay_for(masks, stored.shape());
  const Tensor<double> numbers = stored.to_double();
  const bool is_boolean = stored.type() == ElementType::boolean;
  op::Where visible{numbers.shape, {}};
  for (const double number : numbers.values)
    visible.condition.push_back(is_boolean ? number != 0.0 : number != -std::numeric_limits<double>::infinity());
  const bool hides = std::find(visible.condition.begin(), visible.condition.end(), false) != visible.condition.end();
  if (hides) show_only(masks, visible);
  if (is_boolean || !hides) return;
  std::vector<std::byte> bytes(stored.bytes().begin(), stored.bytes().end());
  const std::size_t width = bytes_per_element(stored.type());
  for (std::size_t i = 0; i < visible.condition.size(); ++i) {
    if (!visible.condition[i]) std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * width), width, std::byte{0});
  }
  masks.addends = StoredTensor(stored.type(), numbers.shape, std::move(bytes));
}

/// Keys behind the end of a mask are hidden. Returns by how many keys it is shorter.
std::int64_t pad_mask(Masks& masks, std::int64_t masked, std::int64_t keys) {
  if (masked >= keys) return 0;
  if (masked == 1) throw Unsupported("a mask of one key: for all of them to some runtimes, for the first to others");
  auto& [shape, visible] = masks.visible;
  if (visible.empty()) shape = {keys};
  shape.back() = keys;
  pay_for(masks, shape);
  if (visible.empty()) visible.assign(static_cast<std::size_t>(masked), true);
  std::vector<bool> padded;
  for (std::size_t i = 0; i < visible.size(); ++i) {
    padded.push_back(visible[i]);
    if ((i + 1) % static_cast<std::size_t>(masked) == 0)
      padded.resize(padded.size() + static_cast<std::size_t>(keys - masked), false);
  }
  visible = std::move(padded);
  return keys - masked;
}

/// Sample n has `counts[n]` keys. Where queries are counted from the end, its last query sees all of them.
void hide_behind(Masks& masks, const std::vector<std::int64_t>& counts, const Lengths& lengths, bool is_causal) {
  op::Where visible{{static_cast<std::int64_t>(counts.size()), 1, *lengths.queries, *lengths.keys}, {}};
  pay_for(masks, visible.condition_shape);
  for (const std::int64_t given : counts) {
    const std::int64_t count = std::clamp<std::int64_t>(given, 0, *lengths.keys);
    for (std::int64_t i = 0; i < *lengths.queries; ++i) {
      const std::int64_t seen = is_causal ? std::min(count, count - *lengths.queries + i + 1) : count;
      for (std::int64_t j = 0; j < *lengths.keys; ++j) visible.condition.push_back(j < seen);
    }
  }
  show_only(masks, visible);
}

op::Attention attributes_of(const NodeView& node) {
  op::Attention attention;
  attention.is_causal = integer_or(node.proto, "is_causal", 0) != 0;
  attention.scale = real_or(node.proto, "scale", 0.0f);
  attention.softcap = real_or(node.proto, "softcap", 0.0f);
  attention.query_heads = integer_or(node.proto, "q_num_heads", 0);
  attention.key_heads = integer_or(node.proto, "kv_num_heads", 0);
  return attention;
}

bool is_used(const NodeView& node, std::size_t output) {
  return output < node.is_used.size() && node.is_used[output];
}

/// The ops that an Attention is: keys and values joined to those of the cache, the op, and once more up to the step
/// that its fourth output shows.
class Steps {
public:
  explicit Steps(const NodeView& node) : node_(node) {}

  MappedOps::Input add(Op op, std::vector<MappedOps::Input> inputs) {
    return mapped_.add(std::move(op), std::move(inputs));
  }

  MappedOps::Input constant(StoredTensor tensor) {
    mapped_.constants.push_back(std::move(tensor));
    return {MappedOps::Source::constant, mapped_.constants.size() - 1};
  }

  /// Keys or values as [N, heads, length, size], with those of the cache in front.
  MappedOps::Input joined(std::size_t slot, std::size_t cache, std::int64_t heads, bool is_output) {
    MappedOps::Input all = MappedOps::slot(slot);
    if (!is_given(node_, cache) && !is_output) return all;
    if (rank_of(node_, slot) == 3u) {
      all = add(op::Reshape{{0, 0, heads, -1}, false}, {all});
      all = add(op::Transpose{{0, 2, 1, 3}}, {all});
    }
    if (!is_given(node_, cache)) return all;
    return add(op::Concat{2}, {MappedOps::slot(cache), all});
  }

  MappedOps finish(std::vector<MappedOps::Input> outputs) {
    mapped_.outputs = std::move(outputs);
    return std::move(mapped_);
  }

private:
  const NodeView& node_;
  MappedOps mapped_;
};

[[noreturn]] void refuse_computed_mask(const std::optional<ElementType>& type) {
  if (type == ElementType::boolean)
    throw Unsupported(
        "its mask of truth values is computed; export the model with a constant one, or with numbers to add to the "
        "scores");
  throw Unsupported("its mask is computed, and " + (type ? std::string(name_of(*type)) : "not known to be floats") +
                    "; export the model with a constant one, or with floats to add to the scores");
}

/// Integers of a mask in the type of the scores, to which they are added.
StoredTensor as_scores(const NodeView& node, const StoredTensor& integers) {
  const ElementType type = node.operands[query].type.value_or(ElementType::f32);
  if (auto floats = fold(op::Cast{type}, {&integers}, node.allowance)) return std::move(*floats);
  const std::string types = std::string(name_of(integers.type())) + " is not exact in " + std::string(name_of(type));
  throw Unsupported("its mask of " + types +
                    ", or larger than a file of this size justifies; export the model with one of floats or booleans");
}

/// What the mask adds to the scores; empty where it only hides keys, or there is none.
std::optional<MappedOps::Input> add_mask(const NodeView& node, Steps& steps, Masks& masks, const Lengths& lengths) {
  if (!is_given(node, mask)) return std::nullopt;
  const std::optional<ElementType> type = node.operands[mask].type;
  const StoredTensor* constant = node.operands[mask].constant;
  if (constant == nullptr && !(type && is_float(*type))) refuse_computed_mask(type);
  const bool is_added = type != ElementType::boolean;
  if (constant != nullptr) read_mask(masks, *constant);
  if (constant != nullptr && is_added && !is_float(*type)) masks.addends = as_scores(node, *constant);
  const auto rank = rank_of(node, mask);
  const auto masked = rank && *rank > 0 ? extent_of(node, mask, *rank - 1) : std::nullopt;
  const std::int64_t missing = masked && lengths.keys ? pad_mask(masks, *masked, *lengths.keys) : 0;
  if (!is_added) return std::nullopt;
  MappedOps::Input addends = MappedOps::slot(mask);
  if (masks.addends) addends = steps.constant(*masks.addends);
  if (missing == 0) return addends;
  op::Pad pad;
  pad.before.assign(*rank, 0);
  pad.after = pad.before;
  pad.after.back() = missing;
  return steps.add(pad, {addends});
}

/// How many keys every sample has (opset 24). Queries are the last of them, unless a cache says where they start.
void count_keys(const NodeView& node, op::Attention& attention, Masks& masks, const Lengths& lengths) {
  if (!is_given(node, key_counts)) return;
  const auto counts = constant_integers(node, key_counts);
  if (!counts || !lengths.queries || !lengths.keys)
    throw Unsupported("its numbers of keys are computed, or the shapes are not known when loading");
  const bool are_last = attention.is_causal && !is_given(node, past_key);
  hide_behind(masks, *counts, lengths, are_last);
  if (are_last) attention.is_causal = false;
}

/// The step that the fourth output shows.
Result shown_result(const NodeView& node, bool hides_keys) {
  constexpr std::array<Result, 4> modes = {Result::products, Result::capped, Result::masked, Result::weights};
  const std::int64_t mode = integer_or(node.proto, "qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) fail("attribute 'qk_matmul_output_mode' must be 0 to 3");
  const Result result = modes[static_cast<std::size_t>(mode)];
  if (result == Result::masked && hides_keys)
    throw Unsupported("the scores that it shows are minus infinity where a key is hidden");
  return result;
}

Mapping map_attention(const NodeView& node) {
  op::Attention attention = attributes_of(node);
  const bool has_scale = find_attribute(node.proto, "scale", AttributeType::real).has_value();
  if ((has_scale && attention.scale == 0.0) || attention.softcap < 0.0)
    return NotMapped{"a scale of 0, or a softcap below 0"};
  if (is_given(node, past_key) != is_given(node, past_value)) fail("a cache of keys or of values alone");
  const Lengths lengths = lengths_of(node);
  if (attention.is_causal && !lengths.cached) return NotMapped{"is causal, with a cache whose length is not known"};
  attention.first_query = lengths.cached.value_or(0);

  Steps steps(node);
  Masks masks{node.allowance, {}, std::nullopt};
  const std::int64_t heads = attention.key_heads == 0 ? attention.query_heads : attention.key_heads;
  std::vector<MappedOps::Input> inputs = {MappedOps::slot(query), steps.joined(key, past_key, heads, is_used(node, 1)),
                                          steps.joined(value, past_value, heads, is_used(node, 2))};
  if (const auto addends = add_mask(node, steps, masks, lengths)) inputs.push_back(*addends);
  count_keys(node, attention, masks, lengths);
  attention.visible_shape = masks.visible.condition_shape;
  attention.visible = masks.visible.condition;

  std::vector<MappedOps::Input> outputs = {steps.add(attention, inputs), inputs[1], inputs[2]};
  if (is_used(node, 3)) {
    attention.result = shown_result(node, attention.is_causal || !attention.visible.empty());
    outputs.push_back(steps.add(attention, inputs));
  }
  return steps.finish(std::move(outputs));
}

/// With constant positions the rows of the tables that they name are taken first.
Mapping map_rotary(const NodeView& node) {
  op::RotaryEmbedding rotary;
  rotary.interleaved = integer_or(node.proto, "interleaved", 0) != 0;
  rotary.heads = integer_or(node.proto, "num_heads", 0);
  rotary.rotary_size = integer_or(node.proto, "rotary_embedding_dim", 0);
  if (!is_given(node, 3)) return MappedOp{rotary, {0, 1, 2}};
  const StoredTensor* positions = node.operands[3].constant;
  if (positions == nullptr) return NotMapped{"its positions are computed, not constants"};
  const Tensor<std::int64_t> rows = positions->to_int64();
  MappedOps mapped;
  const op::Gather named{0, rows.shape, rows.values};
  const MappedOps::Input cosine = mapped.add(named, {MappedOps::slot(1)});
  const MappedOps::Input sine = mapped.add(named, {MappedOps::slot(2)});
  mapped.outputs = {mapped.add(rotary, {MappedOps::slot(0), cosine, sine})};
  return mapped;
}

constexpr std::array<Rule, 2> rules = {{
    {"Attention",
     3,
     7,
     means<op::Attention>(map_attention,
                          "a mask of numbers to add, or a constant one; a cache becomes a Concat, every "
                          "further output an op of its own"),
     {"is_causal", "scale", "softcap", "q_num_heads", "kv_num_heads", "softmax_precision", "qk_matmul_output_mode"},
     23},
    {"RotaryEmbedding",
     3,
     4,
     means<op::RotaryEmbedding>(map_rotary, "constant positions, where there are any"),
     {"interleaved", "num_heads", "rotary_embedding_dim"},
     23},
}};

}  // namespace

std::span<const Rule> attention_rules() {
  return rules;
}

}  // namespace driftbound::onnx
