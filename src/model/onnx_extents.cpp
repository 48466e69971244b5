#include "model/onnx_extents.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "model/batch.hpp"
#include "model/shapes.hpp"
#include "model/variant.hpp"

namespace driftbound::onnx {
namespace {

using Operands = std::vector<const OpenShape*>;
using Result = std::optional<OpenShape>;

/// An extent of both operands; ONNX asks for equal extents or a 1.
Extent broadcast(const Extent& a, const Extent& b) {
  if (certainly_equal(a, b)) return a;
  const auto is_one = [](const Extent& e) { return e.is_number() && e.value() == 1; };
  if (is_one(a)) return b;
  if (is_one(b)) return a;
  // A number other than 1 wins: an extent that fits it is 1 or the same.
  if (a.is_number() != b.is_number()) return a.is_number() ? a : b;
  return Extent::unknown();
}

OpenShape broadcast(const OpenShape& a, const OpenShape& b) {
  OpenShape result = a.size() > b.size() ? a : b;
  const OpenShape& other = a.size() > b.size() ? b : a;
  for (std::size_t i = 0; i < other.size(); ++i) {
    Extent& extent = result[result.size() - 1 - i];
    extent = broadcast(extent, other[other.size() - 1 - i]);
  }
  return result;
}

Result concatenated(const op::Concat& concat, const Operands& operands) {
  OpenShape result = *operands[0];
  const std::size_t axis = normalized_axis(concat.axis, result.size());
  for (std::size_t i = 1; i < operands.size(); ++i) {
    const OpenShape& other = *operands[i];
    if (other.size() != result.size()) return std::nullopt;
    for (std::size_t j = 0; j < result.size(); ++j) {
      if (j == axis) {
        result[j] = plus(result[j], other[j]);
      } else if (!result[j].is_number()) {
        result[j] = other[j].is_known() ? other[j] : result[j];
      }
    }
  }
  return result;
}

Result squeezed(const op::Squeeze& squeeze, const OpenShape& input) {
  if (squeeze.axes.empty()) return std::nullopt;  // which extents are 1 is open
  std::set<std::size_t> dropped;
  for (const std::int64_t axis : squeeze.axes) dropped.insert(normalized_axis(axis, input.size()));
  OpenShape result;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (dropped.count(i) == 0) result.push_back(input[i]);
  }
  return result;
}

Result unsqueezed(const op::Unsqueeze& unsqueeze, const OpenShape& input) {
  const std::size_t rank = input.size() + unsqueeze.axes.size();
  std::set<std::size_t> added;
  for (const std::int64_t axis : unsqueeze.axes) added.insert(normalized_axis(axis, rank));
  if (added.size() != unsqueeze.axes.size()) return std::nullopt;
  OpenShape result;
  auto next = input.begin();
  for (std::size_t i = 0; i < rank; ++i) result.push_back(added.count(i) != 0 ? Extent::number(1) : *next++);
  return result;
}

Extent product_of(const OpenShape& extents) {
  Extent product = Extent::number(1);
  for (const Extent& extent : extents) product = times(product, extent);
  return product;
}

/// What is left for the extent that a Reshape infers.
Extent quotient(const Extent& total, const Extent& others) {
  if (!total.is_known() || !others.is_known() || others.factor() == 0) return Extent::unknown();
  if (total.factor() % others.factor() != 0) return Extent::unknown();
  const std::int64_t factor = total.factor() / others.factor();
  if (others.is_number()) return total.is_number() ? Extent::number(factor) : Extent::open(total.symbol(), factor);
  const bool cancels = total.is_open() && total.symbol() == others.symbol();
  return cancels ? Extent::number(factor) : Extent::unknown();
}

Result reshaped(const op::Reshape& reshape, const OpenShape& input) {
  OpenShape result;
  OpenShape others;
  std::optional<std::size_t> inferred;
  for (std::size_t i = 0; i < reshape.target.size(); ++i) {
    const std::int64_t wanted = reshape.target[i];
    if (wanted == 0 && !reshape.allow_zero) {
      if (i >= input.size()) return std::nullopt;
      result.push_back(input[i]);
    } else if (wanted == -1) {
      if (inferred) return std::nullopt;
      inferred = i;
      result.push_back(Extent::unknown());
      continue;
    } else {
      if (wanted < 0) return std::nullopt;
      result.push_back(Extent::number(wanted));
    }
    others.push_back(result.back());
  }
  if (inferred) result[*inferred] = quotient(product_of(input), product_of(others));
  return result;
}

Result transposed(const op::Transpose& transpose, const OpenShape& input) {
  OpenShape result;
  for (const std::size_t axis : permutation_of(transpose, input.size())) result.push_back(input[axis]);
  return result;
}

/// The operand with a number in place of an open axis 0; empty where another extent is no number.
std::optional<BatchOperand> with_samples(const OpenShape& operand, std::int64_t samples) {
  BatchOperand result;
  for (std::size_t axis = 0; axis < operand.size(); ++axis) {
    const Extent& extent = operand[axis];
    const bool counts_samples = axis == 0 && extent.is_open();
    if (!counts_samples && !extent.is_number()) return std::nullopt;
    if (counts_samples) result.per_sample = true;
    result.shape.push_back(counts_samples ? extent.factor() * samples : extent.value());
  }
  return result;
}

/// The open axis 0 that the operands share.
std::optional<Extent> common_rows(const Operands& operands) {
  std::optional<Extent> rows;
  for (const OpenShape* operand : operands) {
    if (operand->empty() || !operand->front().is_open()) continue;
    if (rows && !certainly_equal(*rows, operand->front())) return std::nullopt;
    rows = operand->front();
  }
  return rows;
}

/// The shape of one evaluation with so many samples; empty where a row of the result may depend on other rows.
std::optional<Shape> shape_with(const Op& op, const Operands& operands, std::int64_t samples) {
  std::vector<BatchOperand> concrete;
  std::vector<Shape> shapes;
  for (const OpenShape* operand : operands) {
    const std::optional<BatchOperand> one = with_samples(*operand, samples);
    if (!one) return std::nullopt;
    concrete.push_back(*one);
    shapes.push_back(one->shape);
  }
  try {
    Shape result = output_shape(op, shapes);
    if (result.empty() || !keeps_samples_apart(op, concrete, result)) return std::nullopt;
    return result;
  } catch (const ShapeMismatch&) {
    return std::nullopt;  // it may fit for another number of samples
  }
}

/// An op that works on each row of an open axis 0 alone has as many rows in its result, each of the same shape. That is
/// how the op is, not how the samples tried are; these only tell which shape.
Result row_by_row(const Op& op, const Operands& operands) {
  const std::optional<Extent> rows = common_rows(operands);
  if (!rows || rows->factor() > 1'000'000) return std::nullopt;
  std::optional<Shape> row;  // the result with one sample
  for (const std::int64_t samples : {1, 3, 5}) {
    std::optional<Shape> shape = shape_with(op, operands, samples);
    if (!shape || shape->at(0) != rows->factor() * samples) return std::nullopt;
    shape->at(0) = rows->factor();
    if (row && *row != *shape) return std::nullopt;
    row = std::move(shape);
  }
  OpenShape result = to_open(*row);
  result[0] = *rows;
  return result;
}

/// Ops that work row by row need no answer of their own.
Result open_extents(const Op& op, const Operands& operands) {
  if (const auto* concat = std::get_if<op::Concat>(&op)) return concatenated(*concat, operands);
  if (const auto* squeeze = std::get_if<op::Squeeze>(&op)) return squeezed(*squeeze, *operands[0]);
  if (const auto* unsqueeze = std::get_if<op::Unsqueeze>(&op)) return unsqueezed(*unsqueeze, *operands[0]);
  if (const auto* reshape = std::get_if<op::Reshape>(&op)) return reshaped(*reshape, *operands[0]);
  if (const auto* transpose = std::get_if<op::Transpose>(&op)) return transposed(*transpose, *operands[0]);
  const bool keeps_shape =
      std::visit([]<class T>(const T&) { return ElementwiseUnary<T> || OneOf<T, op::Identity, op::Softmax>; }, op);
  if (keeps_shape) return *operands[0];
  if (std::visit([]<class T>(const T&) { return ElementwiseBinary<T>; }, op)) {
    return broadcast(*operands[0], *operands[1]);
  }
  if (std::holds_alternative<op::Choice>(op)) return broadcast(*operands[0], broadcast(*operands[1], *operands[2]));
  return row_by_row(op, operands);
}

[[noreturn]] void throw_beyond_64_bits() {
  throw Unsupported("an integer computed from shapes or constants is beyond 64 bits");
}

}  // namespace

Extent plus(const Extent& a, const Extent& b) {
  const auto is_zero = [](const Extent& e) { return e.is_number() && e.value() == 0; };
  if (is_zero(a)) return b;
  if (is_zero(b)) return a;
  const bool are_open = a.is_open() && b.is_open() && a.symbol() == b.symbol();
  if (!are_open && !(a.is_number() && b.is_number())) return Extent::unknown();
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a.factor(), b.factor(), &sum)) throw_beyond_64_bits();
  return are_open ? Extent::open(a.symbol(), sum) : Extent::number(sum);
}

Extent times(const Extent& a, const Extent& b) {
  const auto is_zero = [](const Extent& e) { return e.is_number() && e.value() == 0; };
  if (is_zero(a) || is_zero(b)) return Extent::number(0);
  if (!a.is_known() || !b.is_known() || (a.is_open() && b.is_open())) return Extent::unknown();
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a.factor(), b.factor(), &product)) throw_beyond_64_bits();
  if (a.is_number() && b.is_number()) return Extent::number(product);
  if (product < 0) return Extent::unknown();
  return Extent::open(a.is_open() ? a.symbol() : b.symbol(), product);
}

OpenShape to_open(const Shape& shape) {
  OpenShape result;
  for (const std::int64_t extent : shape) result.push_back(Extent::number(extent));
  return result;
}

std::optional<Shape> to_numbers(const OpenShape& shape) {
  Shape result;
  for (const Extent& extent : shape) {
    if (!extent.is_number()) return std::nullopt;
    result.push_back(extent.value());
  }
  return result;
}

std::optional<OpenShape> output_extents(const Op& op, const std::vector<const OpenShape*>& operands) {
  std::vector<Shape> numbers;
  for (const OpenShape* operand : operands) {
    if (operand == nullptr) return std::nullopt;
    if (std::optional<Shape> shape = to_numbers(*operand)) numbers.push_back(std::move(*shape));
  }
  if (operands.empty() || numbers.size() == operands.size()) return to_open(output_shape(op, numbers));
  return open_extents(op, operands);
}

}  // namespace driftbound::onnx
