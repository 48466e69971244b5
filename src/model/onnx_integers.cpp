#include "model/onnx_integers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "driftbound/model/layout.hpp"
#include "driftbound/model/onnx_catalogue.hpp"
#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_tensor.hpp"
#include "model/shapes.hpp"

namespace driftbound::onnx {
namespace {

using Folded = std::optional<IntegerTensor>;

// ---- storage --------------------------------------------------------------------------------------------------------

template <class Stored>
std::int64_t load(const StoredTensor& tensor, std::size_t i) {
  Stored value;
  std::memcpy(&value, tensor.bytes().data() + i * sizeof value, sizeof value);
  if (std::cmp_greater(value, std::numeric_limits<std::int64_t>::max()))
    throw Unsupported("an integer of 2^63 or more in a shape computation");
  return static_cast<std::int64_t>(value);
}

std::int64_t integer_at(const StoredTensor& tensor, std::size_t i) {
  switch (tensor.type()) {
    case ElementType::i64:
      return load<std::int64_t>(tensor, i);
    case ElementType::i32:
      return load<std::int32_t>(tensor, i);
    case ElementType::i16:
      return load<std::int16_t>(tensor, i);
    case ElementType::i8:
      return load<std::int8_t>(tensor, i);
    case ElementType::u64:
      return load<std::uint64_t>(tensor, i);
    case ElementType::u32:
      return load<std::uint32_t>(tensor, i);
    case ElementType::u16:
      return load<std::uint16_t>(tensor, i);
    case ElementType::u8:
      return load<std::uint8_t>(tensor, i);
    case ElementType::boolean:
      return load<std::uint8_t>(tensor, i) != 0 ? 1 : 0;
    default:
      throw Unsupported("a float where an integer is needed");
  }
}

template <class Stored>
bool append(std::vector<std::byte>& bytes, std::int64_t value) {
  if (!std::in_range<Stored>(value)) return false;
  const auto stored = static_cast<Stored>(value);
  const auto* first = reinterpret_cast<const std::byte*>(&stored);
  bytes.insert(bytes.end(), first, first + sizeof stored);
  return true;
}

bool append(std::vector<std::byte>& bytes, std::int64_t value, ElementType type) {
  switch (type) {
    case ElementType::i64:
      return append<std::int64_t>(bytes, value);
    case ElementType::i32:
      return append<std::int32_t>(bytes, value);
    case ElementType::i16:
      return append<std::int16_t>(bytes, value);
    case ElementType::i8:
      return append<std::int8_t>(bytes, value);
    case ElementType::u64:
      return append<std::uint64_t>(bytes, value);
    case ElementType::u32:
      return append<std::uint32_t>(bytes, value);
    case ElementType::u16:
      return append<std::uint16_t>(bytes, value);
    case ElementType::u8:
      return append<std::uint8_t>(bytes, value);
    case ElementType::boolean:
      return (value == 0 || value == 1) && append<std::uint8_t>(bytes, value);
    default:
      return false;
  }
}

/// A result to be filled in.
IntegerTensor blank(ElementType type, Shape shape, Allowance& allowance) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  constexpr std::size_t working_space = 2 * sizeof(std::size_t);  // per element, for broadcasting
  if (count > allowance.left() || !allowance.take(count * sizeof(Extent), count * working_space))
    throw Unsupported("integers of shape " + to_string(shape) + " are more than a file of this size justifies");
  return IntegerTensor{type, std::move(shape), std::vector<Extent>(count, Extent::unknown())};
}

/// All integers of an operand where they are numbers.
std::optional<std::vector<std::int64_t>> numbers(const Integers& integers) {
  if (integers.size() > highest_rank) return std::nullopt;
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < integers.size(); ++i) {
    const Extent extent = integers[i];
    if (!extent.is_number()) return std::nullopt;
    values.push_back(extent.value());
  }
  return values;
}

bool is_given(const NodeView& node, std::size_t slot) {
  return slot < node.operands.size() && node.operands[slot].is_given;
}

std::optional<Integers> integers_of(const NodeView& node, std::size_t slot) {
  return is_given(node, slot) ? Integers::of(node.operands[slot]) : std::nullopt;
}

// ---- elementwise ----------------------------------------------------------------------------------------------------

bool are_numbers(const Extent& a, const Extent& b) {
  return a.is_number() && b.is_number();
}

Extent negated(const Extent& a) {
  if (!a.is_number()) return Extent::unknown();
  return times(a, Extent::number(-1));
}

Extent minus(const Extent& a, const Extent& b) {
  if (certainly_equal(a, b)) return Extent::number(0);
  if (b.is_number() && b.value() == 0) return a;
  if (!are_numbers(a, b)) return Extent::unknown();
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(a.value(), b.value(), &difference))
    throw Unsupported("an integer computed from shapes or constants is beyond 64 bits");
  return Extent::number(difference);
}

void require_divisor(const Extent& b) {
  if (b.is_number() && b.value() == 0) throw Unsupported("divides integers by zero");
}

/// Truncates toward zero, as ONNX does.
Extent divided_by(const Extent& a, const Extent& b) {
  require_divisor(b);
  if (b.is_number() && b.value() == -1) return negated(a);
  if (are_numbers(a, b)) return Extent::number(a.value() / b.value());
  const bool divides = a.is_open() && b.is_known() && b.factor() > 0 && a.factor() % b.factor() == 0;
  if (divides && b.is_number()) return Extent::open(a.symbol(), a.factor() / b.factor());
  return Extent::unknown();
}

/// With the sign of the divisor, as ONNX has it for integers.
Extent modulo(const Extent& a, const Extent& b) {
  require_divisor(b);
  if (!are_numbers(a, b)) return Extent::unknown();
  if (b.value() == -1) return Extent::number(0);
  const std::int64_t rest = a.value() % b.value();
  return Extent::number(rest != 0 && (rest < 0) != (b.value() < 0) ? rest + b.value() : rest);
}

Extent least(const Extent& a, const Extent& b) {
  return are_numbers(a, b) ? Extent::number(std::min(a.value(), b.value())) : Extent::unknown();
}

Extent greatest(const Extent& a, const Extent& b) {
  return are_numbers(a, b) ? Extent::number(std::max(a.value(), b.value())) : Extent::unknown();
}

Extent truth(bool value) {
  return Extent::number(value ? 1 : 0);
}

/// An extent is never negative, whatever it is.
bool certainly_differ(const Extent& a, const Extent& b) {
  if (are_numbers(a, b)) return a.value() != b.value();
  return (a.is_open() && b.is_number() && b.value() < 0) || (b.is_open() && a.is_number() && a.value() < 0);
}

Extent equal(const Extent& a, const Extent& b) {
  if (certainly_equal(a, b)) return truth(true);
  return certainly_differ(a, b) ? truth(false) : Extent::unknown();
}

Extent less(const Extent& a, const Extent& b) {
  return are_numbers(a, b) ? truth(a.value() < b.value()) : Extent::unknown();
}
Extent greater(const Extent& a, const Extent& b) {
  return less(b, a);
}
Extent at_most(const Extent& a, const Extent& b) {
  return are_numbers(a, b) ? truth(a.value() <= b.value()) : Extent::unknown();
}
Extent at_least(const Extent& a, const Extent& b) {
  return at_most(b, a);
}
Extent both(const Extent& a, const Extent& b) {
  return are_numbers(a, b) ? truth(a.value() != 0 && b.value() != 0) : Extent::unknown();
}
Extent either(const Extent& a, const Extent& b) {
  return are_numbers(a, b) ? truth(a.value() != 0 || b.value() != 0) : Extent::unknown();
}
Extent inverted(const Extent& a) {
  return a.is_number() ? truth(a.value() == 0) : Extent::unknown();
}

using Binary = Extent (*)(const Extent&, const Extent&);

void require_same_type(const Integers& a, const Integers& b) {
  if (a.type() == b.type()) return;
  throw ShapeMismatch("its inputs have element types " + std::string(driftbound::name_of(a.type())) + " and " +
                      std::string(driftbound::name_of(b.type())));
}

IntegerTensor combined(const Integers& a, const Integers& b, ElementType type, Binary operation, Allowance& allowance) {
  require_same_type(a, b);
  IntegerTensor result = blank(type, broadcast(a.shape(), b.shape()), allowance);
  const BroadcastIndex in_a(a.shape(), result.shape), in_b(b.shape(), result.shape);
  for (std::size_t i = 0; i < result.elements.size(); ++i) result.elements[i] = operation(a[in_a(i)], b[in_b(i)]);
  return result;
}

template <Binary operation>
Folded fold_arithmetic(const NodeView& node) {
  const auto a = integers_of(node, 0), b = integers_of(node, 1);
  if (!a || !b || a->type() == ElementType::boolean) return std::nullopt;
  return combined(*a, *b, a->type(), operation, node.allowance);
}

template <Binary operation>
Folded fold_comparison(const NodeView& node) {
  const auto a = integers_of(node, 0), b = integers_of(node, 1);
  if (!a || !b) return std::nullopt;
  return combined(*a, *b, ElementType::boolean, operation, node.allowance);
}

Folded fold_modulo(const NodeView& node) {
  return integer_or(node.proto, "fmod", 0) == 0 ? fold_arithmetic<modulo>(node) : std::nullopt;
}

template <Extent (*operation)(const Extent&)>
Folded fold_unary(const NodeView& node) {
  const auto a = integers_of(node, 0);
  if (!a) return std::nullopt;
  IntegerTensor result = blank(a->type(), a->shape(), node.allowance);
  for (std::size_t i = 0; i < a->size(); ++i) result.elements[i] = operation((*a)[i]);
  return result;
}

Folded fold_where(const NodeView& node) {
  const auto condition = integers_of(node, 0), a = integers_of(node, 1), b = integers_of(node, 2);
  if (!condition || !a || !b) return std::nullopt;
  require_same_type(*a, *b);
  const Shape shape = broadcast(condition->shape(), broadcast(a->shape(), b->shape()));
  IntegerTensor result = blank(a->type(), shape, node.allowance);
  const BroadcastIndex at(condition->shape(), shape), in_a(a->shape(), shape), in_b(b->shape(), shape);
  for (std::size_t i = 0; i < result.elements.size(); ++i) {
    const Extent chosen = (*condition)[at(i)], x = (*a)[in_a(i)], y = (*b)[in_b(i)];
    if (chosen.is_number()) result.elements[i] = chosen.value() != 0 ? x : y;
    if (certainly_equal(x, y)) result.elements[i] = x;
  }
  return result;
}

Folded fold_cast(const NodeView& node) {
  const auto a = integers_of(node, 0);
  if (!a || node.opset < 6) return std::nullopt;  // before, the type was a text
  const auto type = element_type(static_cast<DataType>(required_integer(node.proto, "to")));
  if (!type || is_float(*type)) return std::nullopt;
  IntegerTensor result = blank(*type, a->shape(), node.allowance);
  for (std::size_t i = 0; i < a->size(); ++i) {
    const Extent value = (*a)[i];
    const bool to_truth = *type == ElementType::boolean;
    result.elements[i] = to_truth ? inverted(inverted(value)) : value;
  }
  return result;
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

const OpenShape& shape_of_input(const NodeView& node) {
  if (!is_given(node, 0)) throw ParseError("its input is missing");
  if (node.operands[0].shape == nullptr)
    throw Unsupported("the shape of its input is not known when loading; export the model with fixed input shapes");
  return *node.operands[0].shape;
}

Folded fold_shape(const NodeView& node) {
  const OpenShape& shape = shape_of_input(node);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto clamped = [rank](std::int64_t axis) {
    return std::clamp<std::int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const std::int64_t first = clamped(integer_or(node.proto, "start", 0));
  const std::int64_t last = std::max(first, clamped(integer_or(node.proto, "end", rank)));
  IntegerTensor result = blank(ElementType::i64, {last - first}, node.allowance);
  std::copy(shape.begin() + first, shape.begin() + last, result.elements.begin());
  return result;
}

Folded fold_size(const NodeView& node) {
  Extent product = Extent::number(1);
  for (const Extent& extent : shape_of_input(node)) product = times(product, extent);
  return IntegerTensor{ElementType::i64, {}, {product}};
}

// ---- elements taken from others -------------------------------------------------------------------------------------

std::int64_t extent_product(const Shape& shape, std::size_t first, std::size_t last) {
  const auto at = [&](std::size_t i) { return shape.begin() + static_cast<std::ptrdiff_t>(i); };
  return element_count(Shape(at(first), at(last)));
}

/// Index counted from the front.
std::int64_t checked_index(const Extent& index, std::int64_t extent) {
  const std::int64_t value = index.value();
  if (value < -extent || value >= extent)
    throw ParseError("index " + std::to_string(value) + " lies outside an axis of " + std::to_string(extent));
  return value < 0 ? value + extent : value;
}

Folded fold_gather(const NodeView& node) {
  const auto data = integers_of(node, 0), indices = integers_of(node, 1);
  if (!data || !indices) return std::nullopt;
  const std::size_t axis = normalized_axis(integer_or(node.proto, "axis", 0), data->shape().size());
  const std::int64_t outer = extent_product(data->shape(), 0, axis), extent = data->shape()[axis];
  const std::int64_t inner = extent_product(data->shape(), axis + 1, data->shape().size());
  Shape shape = data->shape();
  const auto place = shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(place, indices->shape().begin(), indices->shape().end());
  IntegerTensor result = blank(data->type(), std::move(shape), node.allowance);
  if (result.elements.empty()) return result;
  std::size_t next = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < indices->size(); ++i) {
      if (!(*indices)[i].is_number()) return std::nullopt;
      const std::int64_t row = o * extent + checked_index((*indices)[i], extent);
      for (std::int64_t j = 0; j < inner; ++j)
        result.elements[next++] = (*data)[static_cast<std::size_t>(row * inner + j)];
    }
  }
  return result;
}

/// One axis of a Slice.
struct Cut {
  std::int64_t first = 0, step = 1, count = 0;
};

Cut cut(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t extent) {
  if (step == 0) throw ParseError("a step of 0");
  require_start(start, step, extent);
  step = std::clamp(step, -extent - 1, extent + 1);  // larger ones take the first element alone as well
  if (start < 0) start += extent;
  if (end < 0) end += extent;
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, extent);
    end = std::clamp<std::int64_t>(end, start, extent);
    return {start, step, (end - start + step - 1) / step};
  }
  start = std::clamp<std::int64_t>(start, -1, extent - 1);
  end = std::clamp<std::int64_t>(end, -1, start);
  return {start, step, (start - end - step - 1) / -step};
}

/// Starts, ends, axes or steps of a Slice: attributes before opset 10, inputs from then on.
struct SliceList {
  bool is_known = true;
  std::optional<std::vector<std::int64_t>> values;
};

SliceList slice_list(const NodeView& node, std::string_view name, std::size_t slot) {
  if (node.opset < 10) return {true, find_integers(node.proto, name)};
  if (!is_given(node, slot)) return {};
  const auto integers = integers_of(node, slot);
  auto values = integers ? numbers(*integers) : std::nullopt;
  return {values.has_value(), std::move(values)};
}

std::optional<std::vector<Cut>> cuts_of(const NodeView& node, const Shape& shape) {
  const SliceList starts = slice_list(node, "starts", 1), ends = slice_list(node, "ends", 2);
  const SliceList axes = slice_list(node, "axes", 3), steps = slice_list(node, "steps", 4);
  if (!starts.is_known || !ends.is_known || !axes.is_known || !steps.is_known) return std::nullopt;
  if (!starts.values || !ends.values) throw ParseError("its starts or ends are missing");
  const std::size_t count = starts.values->size();
  const auto fits = [&](const SliceList& list) { return !list.values || list.values->size() == count; };
  if (!fits(ends) || !fits(axes) || !fits(steps)) throw ParseError("its starts, ends, axes and steps differ in number");
  std::vector<Cut> cuts;
  for (const std::int64_t extent : shape) cuts.push_back({0, 1, extent});
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t named = axes.values ? (*axes.values)[i] : static_cast<std::int64_t>(i);
    const std::size_t axis = normalized_axis(named, shape.size());
    cuts[axis] = cut((*starts.values)[i], (*ends.values)[i], steps.values ? (*steps.values)[i] : 1, shape[axis]);
  }
  return cuts;
}

Folded fold_slice(const NodeView& node) {
  const auto data = integers_of(node, 0);
  if (!data) return std::nullopt;
  const auto cuts = cuts_of(node, data->shape());
  if (!cuts) return std::nullopt;
  Shape shape;
  for (const Cut& one : *cuts) shape.push_back(one.count);
  IntegerTensor result = blank(data->type(), shape, node.allowance);
  std::vector<std::int64_t> index(shape.size(), 0);
  for (Extent& element : result.elements) {
    std::int64_t source = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      source = source * data->shape()[axis] + (*cuts)[axis].first + index[axis] * (*cuts)[axis].step;
    element = (*data)[static_cast<std::size_t>(source)];
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
  return result;
}

Folded fold_expand(const NodeView& node) {
  const auto data = integers_of(node, 0), target = integers_of(node, 1);
  if (!data || !target) return std::nullopt;
  const auto wanted = numbers(*target);
  if (!wanted) return std::nullopt;
  IntegerTensor result = blank(data->type(), broadcast(data->shape(), *wanted), node.allowance);
  const BroadcastIndex from(data->shape(), result.shape);
  for (std::size_t i = 0; i < result.elements.size(); ++i) result.elements[i] = (*data)[from(i)];
  return result;
}

Folded fold_range(const NodeView& node) {
  std::array<std::int64_t, 3> bounds{};
  for (std::size_t slot = 0; slot < bounds.size(); ++slot) {
    const auto integers = integers_of(node, slot);
    if (!integers) return std::nullopt;
    if (integers->size() != 1) throw ParseError("start, limit and delta must be single numbers");
    if (!(*integers)[0].is_number()) return std::nullopt;
    bounds[slot] = (*integers)[0].value();
  }
  const auto [start, limit, delta] = bounds;
  if (delta == 0) throw ParseError("a delta of 0");
  // The distance and every number of the range are exact modulo 2^64, in which they fit.
  const auto wrapped = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const bool is_empty = delta > 0 ? start >= limit : start <= limit;
  const std::uint64_t distance = delta > 0 ? wrapped(limit) - wrapped(start) : wrapped(start) - wrapped(limit);
  const std::uint64_t step = delta > 0 ? wrapped(delta) : std::uint64_t{0} - wrapped(delta);
  const std::uint64_t count = is_empty ? 0 : distance / step + (distance % step != 0 ? 1 : 0);
  if (count > node.allowance.left()) throw Unsupported("a range of more numbers than a file of this size justifies");
  const ElementType type = Integers::of(node.operands[0])->type();
  IntegerTensor result = blank(type, {static_cast<std::int64_t>(count)}, node.allowance);
  std::uint64_t value = wrapped(start);
  for (Extent& element : result.elements) {
    element = Extent::number(static_cast<std::int64_t>(value));
    value += wrapped(delta);
  }
  return result;
}

/// Of a list: the product of extents is all that exporters ask for.
Folded fold_product(const NodeView& node) {
  const auto data = integers_of(node, 0);
  if (!data || data->shape().size() != 1 || data->size() > highest_rank) return std::nullopt;
  if (is_given(node, 1) && !integers_of(node, 1)) return std::nullopt;
  Extent product = Extent::number(1);
  for (std::size_t i = 0; i < data->size(); ++i) product = times(product, (*data)[i]);
  const bool keeps_axis = integer_or(node.proto, "keepdims", 1) != 0;
  return IntegerTensor{data->type(), keeps_axis ? Shape{1} : Shape{}, {product}};
}

// ---- the table ------------------------------------------------------------------------------------------------------

struct Rule {
  std::string_view name;
  std::size_t most_inputs;
  Folded (*fold)(const NodeView&);
  std::array<std::string_view, 3> attributes = {};
};

/// Whether each number of a constant, or of integers that are all known, is other than 0; empty where that is not known.
std::optional<std::vector<char>> known_nonzero(const NodeView& node) {
  std::vector<char> nonzero;
  if (const auto integers = integers_of(node, 0)) {
    for (std::size_t i = 0; i < integers->size(); ++i) {
      if (!(*integers)[i].is_number()) return std::nullopt;
      nonzero.push_back((*integers)[i].value() != 0 ? 1 : 0);
    }
    return nonzero;
  }
  const StoredTensor* const constant = is_given(node, 0) ? node.operands[0].constant : nullptr;
  if (constant == nullptr) return std::nullopt;
  for (const double x : constant->to_double().values) nonzero.push_back(x != 0.0 ? 1 : 0);
  return nonzero;
}

/// The places of the nonzero elements, [rank, their number], in row-major order.
Folded fold_nonzero(const NodeView& node) {
  const auto nonzero = known_nonzero(node);
  if (!nonzero) return std::nullopt;
  const auto integers = integers_of(node, 0);
  const Shape& shape = integers ? integers->shape() : node.operands[0].constant->shape();
  if (shape.empty()) return std::nullopt;  // a number without an axis has no place
  const auto count = static_cast<std::size_t>(std::count(nonzero->begin(), nonzero->end(), 1));
  IntegerTensor result = blank(
      ElementType::i64, {static_cast<std::int64_t>(shape.size()), static_cast<std::int64_t>(count)}, node.allowance);
  std::size_t found = 0;
  for (std::size_t i = 0; i < nonzero->size(); ++i) {
    if ((*nonzero)[i] == 0) continue;
    std::size_t rest = i;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      const auto extent = static_cast<std::size_t>(shape[axis]);
      result.elements[axis * count + found] = Extent::number(static_cast<std::int64_t>(rest % extent));
      rest /= extent;
    }
    ++found;
  }
  return result;
}

constexpr std::array<Rule, 26> rules = {{
    {"Shape", 1, fold_shape, {"start", "end"}},
    {"Size", 1, fold_size},
    {"Add", 2, fold_arithmetic<plus>},
    {"Sub", 2, fold_arithmetic<minus>},
    {"Mul", 2, fold_arithmetic<times>},
    {"Div", 2, fold_arithmetic<divided_by>},
    {"Mod", 2, fold_modulo, {"fmod"}},
    {"Min", 2, fold_arithmetic<least>},
    {"Max", 2, fold_arithmetic<greatest>},
    {"Neg", 1, fold_unary<negated>},
    {"Not", 1, fold_unary<inverted>},
    {"Equal", 2, fold_comparison<equal>},
    {"Less", 2, fold_comparison<less>},
    {"LessOrEqual", 2, fold_comparison<at_most>},
    {"Greater", 2, fold_comparison<greater>},
    {"GreaterOrEqual", 2, fold_comparison<at_least>},
    {"And", 2, fold_comparison<both>},
    {"Or", 2, fold_comparison<either>},
    {"Where", 3, fold_where},
    {"Cast", 1, fold_cast, {"to", "saturate", "round_mode"}},
    {"Gather", 2, fold_gather, {"axis"}},
    {"Slice", 5, fold_slice, {"starts", "ends", "axes"}},
    {"Expand", 2, fold_expand},
    {"Range", 3, fold_range},
    {"ReduceProd", 2, fold_product, {"keepdims"}},
    {"NonZero", 1, fold_nonzero},
}};

bool knows_attributes(const Rule& rule, const NodeProto& node) {
  return std::all_of(node.attributes.begin(), node.attributes.end(), [&](const auto& attribute) {
    return std::find(rule.attributes.begin(), rule.attributes.end(), attribute.first) != rule.attributes.end();
  });
}

void require_range(const IntegerTensor& integers) {
  std::vector<std::byte> ignored;
  for (const Extent& element : integers.elements) {
    ignored.clear();
    if (!element.is_number() || append(ignored, element.value(), integers.type)) continue;
    throw Unsupported("the integer " + std::to_string(element.value()) + " does not fit in " +
                      std::string(driftbound::name_of(integers.type)) + ", in which it is computed");
  }
}

}  // namespace

std::optional<Integers> Integers::of(const Operand& operand) {
  Integers result;
  result.partial_ = operand.integers;
  if (operand.constant != nullptr && !is_float(operand.constant->type())) result.constant_ = operand.constant;
  if (result.partial_ == nullptr && result.constant_ == nullptr) return std::nullopt;
  return result;
}

ElementType Integers::type() const {
  return constant_ != nullptr ? constant_->type() : partial_->type;
}

const Shape& Integers::shape() const {
  return constant_ != nullptr ? constant_->shape() : partial_->shape;
}

std::size_t Integers::size() const {
  return constant_ != nullptr ? constant_->size() : partial_->elements.size();
}

Extent Integers::operator[](std::size_t i) const {
  return constant_ != nullptr ? Extent::number(integer_at(*constant_, i)) : partial_->elements[i];
}

void require_start(std::int64_t start, std::int64_t step, std::int64_t extent) {
  if (step > 0 || extent == 0 || start >= -extent) return;
  throw Unsupported("a negative step from start " + std::to_string(start) + " of an axis of " + std::to_string(extent) +
                    ", in front of it: some runtimes take its first element, others nothing; export the model with a "
                    "start inside the axis");
}

std::optional<IntegerTensor> fold_integers(const NodeView& node) {
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == node.proto.op_type; });
  if (rule == rules.end() || node.operands.size() > rule->most_inputs || !knows_attributes(*rule, node.proto))
    return std::nullopt;
  Folded result = rule->fold(node);
  if (result) require_range(*result);
  return result;
}

std::optional<StoredTensor> to_constant(const IntegerTensor& integers) {
  std::vector<std::byte> bytes;
  bytes.reserve(integers.elements.size() * bytes_per_element(integers.type));
  for (const Extent& element : integers.elements) {
    if (!element.is_number()) return std::nullopt;
    append(bytes, element.value(), integers.type);
  }
  return StoredTensor(integers.type, integers.shape, std::move(bytes));
}

std::optional<IntegerTensor> select_integers(const Op& op, const std::vector<Operand>& operands, Allowance& allowance) {
  if (!is_selection(op)) return std::nullopt;
  std::vector<Integers> integers;
  std::vector<Shape> shapes;
  for (const Operand& operand : operands) {
    const auto known = Integers::of(operand);
    if (!known) return std::nullopt;
    integers.push_back(*known);
    shapes.push_back(known->shape());
  }
  const Shape shape = output_shape(op, shapes);
  IntegerTensor result = blank(integers.front().type(), shape, allowance);
  constexpr double exact_integers = 0x1p53;
  if (!(std::abs(fill_value(op)) <= exact_integers)) return std::nullopt;
  const auto fill = static_cast<std::int64_t>(fill_value(op));
  std::size_t next = 0;
  for (const ElementSource& source : plan_selection(op, shapes, shape))
    result.elements[next++] = source.is_fill() ? Extent::number(fill) : integers[source.input][source.index];
  return result;
}

}  // namespace driftbound::onnx

namespace driftbound {

std::vector<std::string_view> onnx_integer_ops() {
  std::vector<std::string_view> names;
  for (const onnx::Rule& rule : onnx::rules) names.push_back(rule.name);
  return names;
}

}  // namespace driftbound
