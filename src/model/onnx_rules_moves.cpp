#include <algorithm>
#include <array>
#include <cmath>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
#include "model/shapes.hpp"
#include "model/strides.hpp"
#include "model/text.hpp"

// Ops that move single elements by constant indices. Over tensors flattened they are selections of one axis.

namespace driftbound::onnx {
namespace {

using Input = MappedOps::Input;
using Integers64 = std::vector<std::int64_t>;

constexpr std::int64_t largest_extent = std::int64_t{1} << 40;

[[noreturn]] void refuse_open_shape() {
  throw Unsupported("the shape of its input is not known when loading; export the model with fixed input shapes");
}

Shape known_shape(const NodeView& node, std::size_t slot) {
  const auto shape = shape_of(node, slot);
  if (!shape) refuse_open_shape();
  return *shape;
}

// ---- blocks of pixels and channels ----------------------------------------------------------------------------------

/// Extents behind the samples of [N, C, H, W], and the size of a block.
struct Image {
  std::int64_t channels = 0, height = 0, width = 0, block = 1;
};

Image image_of(const NodeView& node) {
  const OpenShape* shape = node.operands[0].shape;
  if (shape == nullptr) refuse_open_shape();
  if (shape->size() != 4) throw ShapeMismatch("its input is no [N, C, H, W]");
  std::array<std::int64_t, 3> extents{};
  for (std::size_t axis = 1; axis < shape->size(); ++axis) {
    if (!(*shape)[axis].is_number()) refuse_open_shape();
    extents[axis - 1] = (*shape)[axis].value();
    if (extents[axis - 1] < 1 || extents[axis - 1] > largest_extent) throw Unsupported("an image without elements");
  }
  constexpr std::int64_t largest_block = 1 << 20;
  const std::int64_t block = required_integer(node.proto, "blocksize");
  if (block < 1 || block > largest_block) fail("attribute 'blocksize' is " + std::to_string(block));
  return {extents[0], extents[1], extents[2], block};
}

Mapping moved_blocks(const NodeView& node, Integers64 split, Integers64 permutation, Integers64 joined) {
  StepWriter steps(node);
  Input x = steps.reshape(steps.slot(0), std::move(split));
  x = steps.apply(op::Transpose{std::move(permutation)}, {x});
  return steps.finish(steps.reshape(x, std::move(joined)));
}

/// Channels are [row in block, column in block, channel], or [channel, row, column] (CRD, since opset 11).
Mapping map_depth_to_space(const NodeView& node) {
  require_since(node, "mode", 11);
  const auto [channels, height, width, block] = image_of(node);
  const std::string_view mode = text_or(node.proto, "mode", "DCR");
  if (mode != "DCR" && mode != "CRD") fail("attribute 'mode' is " + in_quotes(mode));
  if (channels % (block * block) != 0)
    throw ShapeMismatch(std::to_string(channels) + " channels in blocks of " + std::to_string(block));
  const std::int64_t kept = channels / (block * block);
  const Integers64 joined = {0, kept, height * block, width * block};
  if (mode == "CRD") return moved_blocks(node, {0, kept, block, block, height, width}, {0, 1, 4, 2, 5, 3}, joined);
  return moved_blocks(node, {0, block, block, kept, height, width}, {0, 3, 4, 1, 5, 2}, joined);
}

Mapping map_space_to_depth(const NodeView& node) {
  const auto [channels, height, width, block] = image_of(node);
  if (height % block != 0 || width % block != 0)
    throw ShapeMismatch(std::to_string(height) + " by " + std::to_string(width) + " pixels in blocks of " +
                        std::to_string(block));
  const std::int64_t rows = height / block, columns = width / block;
  return moved_blocks(node, {0, channels, rows, block, columns, block}, {0, 3, 5, 1, 2, 4},
                      {0, channels * block * block, rows, columns});
}

// ---- triangles ------------------------------------------------------------------------------------------------------

/// An integer that is a constant input; `fallback` where it is left out, empty where it is computed.
std::optional<std::int64_t> integer_input(const NodeView& node, std::size_t slot, std::int64_t fallback) {
  if (!is_given(node, slot)) return fallback;
  const auto values = constant_integers(node, slot);
  if (values && values->size() != 1) fail("input " + std::to_string(slot) + " must be one integer");
  return values ? std::optional(values->front()) : std::nullopt;
}

/// Element (i, j) of every matrix is kept for j - i >= k (upper), or <= k, else 0.
Mapping map_trilu(const NodeView& node) {
  const auto k = integer_input(node, 1, 0);
  if (!k) return NotMapped{"its k is computed, not a constant"};
  const auto rank = rank_of(node, 0);
  if (rank && *rank < 2) throw ShapeMismatch("its input is no matrix");
  const auto rows = extent_along(node, -2), columns = extent_along(node, -1);
  if (!rows || !columns) refuse_open_shape();
  const bool keeps_upper = integer_or(node.proto, "upper", 1) != 0;
  op::Where kept{{*rows, *columns}, {}};
  pay_for_elements(node, element_count(kept.condition_shape), 1, "its matrices");
  for (std::int64_t i = 0; i < *rows; ++i) {
    for (std::int64_t j = 0; j < *columns; ++j) kept.condition.push_back(keeps_upper ? j - i >= *k : j - i <= *k);
  }
  StepWriter steps(node);
  const Input zero = steps.zero();
  return steps.finish(steps.apply(std::move(kept), {steps.slot(0), zero}));
}

// ---- elements by index ----------------------------------------------------------------------------------------------

const NotMapped computed_indices{"its indices are computed, not constants"};

/// Empty where they are computed.
std::optional<Tensor<std::int64_t>> indices_of(const NodeView& node, std::size_t slot) {
  const StoredTensor* constant = node.operands[slot].constant;
  if (constant == nullptr) return std::nullopt;
  if (is_float(constant->type()) || constant->type() == ElementType::boolean) fail("its indices are no integers");
  pay_for_elements(node, static_cast<std::int64_t>(constant->size()), 2 * sizeof(std::int64_t), "its indices");
  return constant->to_int64();
}

std::int64_t checked(std::int64_t index, std::int64_t extent) {
  if (index < -extent || index >= extent)
    throw ShapeMismatch("index " + std::to_string(index) + " is outside an extent of " + std::to_string(extent));
  return index < 0 ? index + extent : index;
}

/// Positions in a tensor flattened from axis 1 on where every row of axis 0 has the same, which keeps samples apart;
/// else in the whole tensor flattened.
struct Places {
  bool by_rows = false;
  Integers64 at;

  std::int64_t axis() const { return by_rows ? 1 : 0; }
  Integers64 flat() const { return by_rows ? Integers64{0, -1} : Integers64{-1}; }
  /// Extents behind the axis that is flattened.
  Shape behind(const Shape& shape) const { return by_rows ? Shape(shape.begin() + 1, shape.end()) : shape; }
};

/// `at` lies in a tensor of so many elements and rows; its entries are in rows too.
Places places_of(Integers64 at, std::int64_t rows_of_entries, std::int64_t rows, std::int64_t elements) {
  Places places{false, std::move(at)};
  if (rows < 1 || rows_of_entries != rows || places.at.empty()) return places;
  const std::size_t entries = places.at.size() / static_cast<std::size_t>(rows);
  const std::int64_t row_elements = elements / rows;
  for (std::size_t i = 0; i < places.at.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i / entries);
    const std::int64_t inside = places.at[i] - row * row_elements;
    if (inside < 0 || inside >= row_elements || inside != places.at[i % entries]) return places;
  }
  places.by_rows = true;
  places.at.resize(entries);
  return places;
}

/// Where an element of the indices lies in the data: at the same place but for one axis, where the index says it.
Integers64 positions_along(const Tensor<std::int64_t>& indices, const Shape& data, std::size_t axis) {
  if (indices.shape.size() != data.size()) throw ShapeMismatch("indices of another rank than the data");
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (i != axis && indices.shape[i] > data[i])
      throw ShapeMismatch("indices " + to_string(indices.shape) + " for data " + to_string(data));
  }
  const std::vector<std::int64_t> strides = row_major_strides(data);
  Integers64 result, place(data.size(), 0);
  for (const std::int64_t index : indices.values) {
    std::int64_t at = checked(index, data[axis]) * strides[axis];
    for (std::size_t i = 0; i < data.size(); ++i) at += i == axis ? 0 : place[i] * strides[i];
    result.push_back(at);
    for (std::size_t i = data.size(); i-- > 0;) {
      if (++place[i] < indices.shape[i]) break;
      place[i] = 0;
    }
  }
  return result;
}

Mapping map_gather_elements(const NodeView& node) {
  const auto indices = indices_of(node, 1);
  if (!indices) return computed_indices;
  const Shape data = known_shape(node, 0);
  const std::size_t axis = normalized_axis(integer_or(node.proto, "axis", 0), data.size());
  const std::int64_t elements = element_count(data);
  if (elements == 0) return NotMapped{"its data have no elements"};
  const Places places = places_of(positions_along(*indices, data, axis), indices->shape[0], data[0], elements);
  StepWriter steps(node);
  const Input flat = steps.reshape(steps.slot(0), places.flat());
  return steps.finish(steps.apply(op::Gather{places.axis(), places.behind(indices->shape), places.at}, {flat}));
}

/// Indices along the first axes of the data as one index of these axes flattened. The first `shared` axes are those of
/// the indices too.
Integers64 joined_indices(const Tensor<std::int64_t>& indices, const Shape& data, std::size_t shared) {
  const auto given = static_cast<std::size_t>(indices.shape.back());
  const std::size_t axes = shared + given;
  const std::int64_t tuples = count_between(indices.shape, 0, indices.shape.size() - 1);
  const std::int64_t batches = count_between(data, 0, shared);
  Integers64 result;
  for (std::int64_t tuple = 0; tuple < tuples; ++tuple) {
    std::int64_t at = shared == 0 ? 0 : tuple / (tuples / batches);
    for (std::size_t i = 0; i < given; ++i) {
      const std::int64_t extent = data[axes - given + i];
      at = at * extent + checked(indices.values[static_cast<std::size_t>(tuple) * given + i], extent);
    }
    result.push_back(at);
  }
  return result;
}

void require_tuples(const Tensor<std::int64_t>& indices, const Shape& data, std::int64_t shared) {
  const std::string shapes = "indices " + to_string(indices.shape) + " for data " + to_string(data);
  const auto rank = static_cast<std::int64_t>(data.size());
  if (indices.shape.empty() || indices.shape.back() < 1) throw ShapeMismatch(shapes);
  const bool fits = shared >= 0 && shared < static_cast<std::int64_t>(indices.shape.size()) && shared < rank &&
                    indices.shape.back() <= rank - shared;
  if (!fits) throw ShapeMismatch(shapes + " with batch_dims " + std::to_string(shared));
  for (std::size_t i = 0; i < static_cast<std::size_t>(shared); ++i) {
    if (indices.shape[i] != data[i]) throw ShapeMismatch(shapes + " with batch_dims " + std::to_string(shared));
  }
}

Mapping map_gather_nd(const NodeView& node) {
  const auto indices = indices_of(node, 1);
  if (!indices) return computed_indices;
  if (indices->values.empty()) return NotMapped{"its indices have no elements"};
  const Shape picks(indices->shape.begin(), indices->shape.end() - (indices->shape.empty() ? 0 : 1));
  require_since(node, "batch_dims", 12);
  const std::int64_t shared = integer_or(node.proto, "batch_dims", 0);
  const bool takes_rows = shared == 0 && !indices->shape.empty() && indices->shape.back() == 1;
  if (takes_rows) return MappedOp{op::Gather{0, picks, indices->values}, {0}};
  const Shape data = known_shape(node, 0);
  require_tuples(*indices, data, shared);
  if (element_count(data) == 0) return NotMapped{"its data have no elements"};
  const auto axes = static_cast<std::size_t>(shared + indices->shape.back());
  const Places places = places_of(joined_indices(*indices, data, static_cast<std::size_t>(shared)),
                                  picks.empty() ? 0 : picks[0], data[0], count_between(data, 0, axes));
  Integers64 target = places.flat();
  target.insert(target.end(), data.begin() + static_cast<std::ptrdiff_t>(axes), data.end());
  StepWriter steps(node);
  const Input flat = steps.reshape(steps.slot(0), std::move(target));
  return steps.finish(steps.apply(op::Gather{places.axis(), places.behind(picks), places.at}, {flat}));
}

// ---- elements replaced ----------------------------------------------------------------------------------------------

enum class Scattered { replaced, added, multiplied, largest, smallest };

Scattered reduction_of(const NodeView& node) {
  const std::string_view name = text_or(node.proto, "reduction", "none");
  if (name == "none") return Scattered::replaced;
  const bool is_extremum = name == "max" || name == "min";
  const std::int64_t since = is_extremum ? 18 : 16;
  if (!is_extremum && name != "add" && name != "mul") fail("attribute 'reduction' is " + in_quotes(name));
  if (node.opset < since)
    fail("attribute 'reduction' is " + in_quotes(name) + ", which is there since opset " + std::to_string(since) +
         " only; declare that opset");
  if (is_extremum) return name == "max" ? Scattered::largest : Scattered::smallest;
  return name == "add" ? Scattered::added : Scattered::multiplied;
}

/// For every round the update that goes to each element of the data; `none` where no update does. An element has its
/// updates in the order they are in.
std::vector<Integers64> rounds_of(const Integers64& at, std::int64_t elements, std::int64_t none) {
  std::vector<Integers64> rounds;
  std::vector<std::size_t> times(static_cast<std::size_t>(elements), 0);
  for (std::size_t update = 0; update < at.size(); ++update) {
    const std::size_t round = times[static_cast<std::size_t>(at[update])]++;
    if (round == rounds.size()) rounds.emplace_back(static_cast<std::size_t>(elements), none);
    rounds[round][static_cast<std::size_t>(at[update])] = static_cast<std::int64_t>(update);
  }
  return rounds;
}

/// Steps of one Scatter; slot 0 holds the data, slot 2 the updates.
class Scattering {
public:
  Scattering(const NodeView& node, const Shape& data, Places places)
      : steps_(node), data_(data), places_(std::move(places)) {
    const std::int64_t rows = places_.by_rows ? data_[0] : 1;
    elements_ = element_count(data_) / rows;
    updates_ = static_cast<std::int64_t>(places_.at.size());
    pay_for_elements(node, elements_, 2 * sizeof(std::int64_t), "its data");
    pay_for_elements(node, elements_, most_updates() * sizeof(std::int64_t), "its data");
  }

  /// Every element is that of the data or its update: data and updates are taken from one list.
  Mapping replaced() {
    const std::vector<Integers64> rounds = rounds_of(places_.at, elements_, -1);
    if (rounds.size() > 1)
      return NotMapped{"its indices name an element twice, and runtimes differ in which update stays"};
    Integers64 picks = rounds.at(0);
    const bool keeps_some = std::find(picks.begin(), picks.end(), -1) != picks.end();
    if (!keeps_some) return steps_.finish(taken(flat(2), std::move(picks)));
    for (std::size_t i = 0; i < picks.size(); ++i)
      picks[i] = picks[i] < 0 ? static_cast<std::int64_t>(i) : elements_ + picks[i];
    return steps_.finish(taken(both(), std::move(picks)));
  }

  /// Updates are added or multiplied one a round, or 0 or 1 where an element has none.
  template <class Operation>
  Mapping combined(double neutral) {
    op::Pad one_more;
    one_more.before.assign(places_.by_rows ? 2 : 1, 0);
    one_more.after = one_more.before;
    one_more.after.back() = 1;
    one_more.value = neutral;
    const Input updates = steps_.apply(one_more, {flat(2)});
    Input result = steps_.slot(0);
    for (Integers64& picks : rounds_of(places_.at, elements_, updates_))
      result = steps_.apply(Operation{}, {result, taken(updates, std::move(picks))});
    return steps_.finish(result);
  }

  /// The largest or smallest of the data and one update a round.
  template <class Operation>
  Mapping extreme() {
    const Input all = both();
    Input result = steps_.slot(0);
    for (Integers64& picks : rounds_of(places_.at, elements_, -1)) {
      for (std::size_t i = 0; i < picks.size(); ++i)
        picks[i] = picks[i] < 0 ? static_cast<std::int64_t>(i) : elements_ + picks[i];
      result = steps_.apply(Operation{}, {result, taken(all, std::move(picks))});
    }
    return steps_.finish(result);
  }

private:
  std::size_t most_updates() const {
    constexpr std::size_t most_allowed = 64;
    std::vector<std::size_t> times(static_cast<std::size_t>(elements_), 0);
    std::size_t most = 1;
    for (const std::int64_t at : places_.at) most = std::max(most, ++times[static_cast<std::size_t>(at)]);
    if (most > most_allowed) throw Unsupported("more than 64 updates of one element");
    return most;
  }
  Input flat(std::size_t slot) { return steps_.reshape(steps_.slot(slot), places_.flat()); }
  Input both() {
    const Input data = flat(0), updates = flat(2);
    return steps_.apply(op::Concat{places_.axis()}, {data, updates});
  }
  Input taken(Input from, Integers64 picks) {
    return steps_.apply(op::Gather{places_.axis(), places_.behind(data_), std::move(picks)}, {from});
  }

  StepWriter steps_;
  Shape data_;
  Places places_;
  std::int64_t elements_ = 0, updates_ = 0;  ///< of one row where places are by rows
};

Mapping scattered(const NodeView& node, const Shape& data, const Shape& updates, Integers64 at) {
  const Scattered reduction = reduction_of(node);
  if (at.empty() || element_count(data) == 0) return MappedOp{op::Identity{}, {0}};
  Places places = places_of(std::move(at), updates[0], data[0], element_count(data));
  Scattering scattering(node, data, std::move(places));
  switch (reduction) {
    case Scattered::added:
      return scattering.combined<op::Add>(0.0);
    case Scattered::multiplied:
      return scattering.combined<op::Mul>(1.0);
    case Scattered::largest:
      return scattering.extreme<op::Max>();
    case Scattered::smallest:
      return scattering.extreme<op::Min>();
    case Scattered::replaced:
      break;
  }
  return scattering.replaced();
}

void require_updates(const Shape& updates, const Shape& expected) {
  if (updates != expected)
    throw ShapeMismatch("updates " + to_string(updates) + " where " + to_string(expected) + " is expected");
}

Mapping map_scatter_elements(const NodeView& node) {
  const auto indices = indices_of(node, 1);
  if (!indices) return computed_indices;
  const Shape data = known_shape(node, 0), updates = known_shape(node, 2);
  const std::size_t axis = normalized_axis(integer_or(node.proto, "axis", 0), data.size());
  require_updates(updates, indices->shape);
  return scattered(node, data, updates, positions_along(*indices, data, axis));
}

Mapping map_scatter_nd(const NodeView& node) {
  const auto indices = indices_of(node, 1);
  if (!indices) return computed_indices;
  const Shape data = known_shape(node, 0), updates = known_shape(node, 2);
  require_tuples(*indices, data, 0);
  const auto axes = static_cast<std::size_t>(indices->shape.back());
  Shape expected(indices->shape.begin(), indices->shape.end() - 1);
  expected.insert(expected.end(), data.begin() + static_cast<std::ptrdiff_t>(axes), data.end());
  require_updates(updates, expected);
  if (updates.empty()) return NotMapped{"one update without axes"};
  const std::int64_t width = count_between(data, axes, data.size());
  pay_for_elements(node, element_count(updates), sizeof(std::int64_t), "its updates");
  Integers64 at;
  for (const std::int64_t slice : joined_indices(*indices, data, 0)) {
    for (std::int64_t i = 0; i < width; ++i) at.push_back(slice * width + i);
  }
  return scattered(node, data, updates, std::move(at));
}

// ---- elements chosen by constants -----------------------------------------------------------------------------------

/// The number that picks the "on" value; before opset 11 a negative one picks nothing.
std::optional<std::int64_t> hot_index(double index, std::int64_t depth, std::int64_t opset) {
  const double whole = std::trunc(index), extent = static_cast<double>(depth);
  const bool is_inside = whole < extent && whole >= (opset < 11 ? 0.0 : -extent);
  if (!is_inside) return std::nullopt;
  return static_cast<std::int64_t>(whole) + (whole < 0.0 ? depth : 0);
}

/// Every element is one of two values.
Mapping map_one_hot(const NodeView& node) {
  const StoredTensor* indices = node.operands[0].constant;
  if (indices == nullptr) return computed_indices;
  const auto depth = constant_number(node, 1);
  if (!depth) return NotMapped{"its depth is computed, not a constant"};
  if (!(*depth >= 1.0 && *depth <= static_cast<double>(largest_extent))) fail("a depth that is no positive number");
  const auto count = static_cast<std::int64_t>(*depth);
  Shape shape = indices->shape();
  const std::size_t axis = normalized_axis(integer_or(node.proto, "axis", -1), shape.size() + 1);
  const std::int64_t outer = count_between(shape, 0, axis), inner = count_between(shape, axis, shape.size());
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), count);
  pay_for_elements(node, element_count(shape), 2 * sizeof(std::int64_t), "its values");
  const Tensor<double> values = indices->to_double();
  Integers64 picks(static_cast<std::size_t>(element_count(shape)), 0);
  for (std::int64_t i = 0; i < outer * inner; ++i) {
    const auto hot = hot_index(values.values[static_cast<std::size_t>(i)], count, node.opset);
    if (hot) picks[static_cast<std::size_t>((i / inner * count + *hot) * inner + i % inner)] = 1;
  }
  return MappedOp{op::Gather{0, std::move(shape), std::move(picks)}, {2}};
}

Mapping map_compress(const NodeView& node) {
  const StoredTensor* condition = node.operands[1].constant;
  if (condition == nullptr) return NotMapped{"its condition is computed, not a constant"};
  if (condition->type() != ElementType::boolean || condition->shape().size() != 1)
    fail("its condition is no list of booleans");
  op::Gather kept{0, {0}, {}};
  pay_for_elements(node, static_cast<std::int64_t>(condition->size()), sizeof(std::int64_t), "its conditions");
  for (std::size_t i = 0; i < condition->size(); ++i) {
    if (condition->bytes()[i] != std::byte{0}) kept.indices.push_back(static_cast<std::int64_t>(i));
  }
  kept.indices_shape = {static_cast<std::int64_t>(kept.indices.size())};
  if (find_attribute(node.proto, "axis", AttributeType::integer)) {
    kept.axis = integer_or(node.proto, "axis", 0);
    return MappedOp{std::move(kept), {0}};
  }
  StepWriter steps(node);
  const Input flat = steps.reshape(steps.slot(0), {-1});
  return steps.finish(steps.apply(std::move(kept), {flat}));
}

constexpr std::string_view scatters =
    "constant indices, shapes known when loading; a step for every update of one element";

constexpr std::array<Rule, 10> rules = {{
    {"DepthToSpace",
     1,
     1,
     composes(map_depth_to_space, "channels, height and width known when loading; a Transpose between two Reshape"),
     {"blocksize", "mode"},
     1},
    {"SpaceToDepth", 1, 1, composes(map_space_to_depth, "as DepthToSpace"), {"blocksize"}, 1},
    {"Trilu", 1, 2, means<op::Where>(map_trilu, "a constant k, matrices of known extents"), {"upper"}, 14},
    {"GatherElements",
     2,
     2,
     composes(map_gather_elements, "constant indices, data of known shape; a Gather of the data flattened"),
     {"axis"},
     11},
    {"GatherND", 2, 2, composes(map_gather_nd, "as GatherElements"), {"batch_dims"}, 11},
    {"Scatter", 3, 3, composes(map_scatter_elements, scatters), {"axis"}, 9},
    {"ScatterElements", 3, 3, composes(map_scatter_elements, scatters), {"axis", "reduction"}, 11},
    {"ScatterND", 3, 3, composes(map_scatter_nd, scatters), {"reduction"}, 11},
    {"OneHot", 3, 3, composes(map_one_hot, "constant indices and depth; a Gather of the two values"), {"axis"}, 9},
    {"Compress", 2, 2, composes(map_compress, "a constant condition; a Gather"), {"axis"}, 9},
}};

}  // namespace

std::span<const Rule> move_rules() {
  return rules;
}

}  // namespace driftbound::onnx
