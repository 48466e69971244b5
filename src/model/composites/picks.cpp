#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"
#include "model/shapes.hpp"

// Indices of the largest elements. Every comparison is one of two different elements: their enclosures may overlap only
// where the elements do, so that an index is decided where its element is known to be the one.

namespace driftbound::composites {
namespace {

/// Indices have to be numbers of float32.
constexpr std::int64_t most_elements = std::int64_t{1} << 24;

using Places = std::vector<std::int64_t>;

/// The axis of a node's only operand, with a number of elements that can be counted.
std::size_t counted_axis(const Body& body, std::int64_t axis) {
  const Shape& shape = body.shape(body.input(0));
  const std::size_t normalized = normalized_axis(axis, shape.size());
  if (shape[normalized] < 1 || shape[normalized] > most_elements)
    throw ShapeMismatch("an axis of " + std::to_string(shape[normalized]) + " elements");
  return normalized;
}

ValueId picked(Body& body, ValueId x, std::size_t axis, Places places) {
  const Shape count = {static_cast<std::int64_t>(places.size())};
  return body.apply(op::Gather{static_cast<std::int64_t>(axis), count, std::move(places)}, {x});
}

/// The index along an axis, for every element: that where 0 x > 1 does not hold.
ValueId indices_of(Body& body, ValueId x, std::size_t axis) {
  Shape extents(body.shape(x).size(), 1);
  extents[axis] = body.extent(x, axis);
  Tensor<double> numbers(extents);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers.values[i] = static_cast<double>(i);
  const ValueId never = body.apply(op::Greater{}, {body.multiply(x, body.number(0.0)), body.number(1.0)});
  return body.apply(op::Choice{}, {never, body.number(0.0), body.constant(std::move(numbers))});
}

}  // namespace

/// A knockout of neighbours: the winner of every pair, and its index, go on, and so does one that is left over.
ValueId write(Body& body, const op::ArgMax& largest) {
  const std::size_t axis = counted_axis(body, largest.axis);
  ValueId x = body.input(0), index = indices_of(body, x, axis);
  while (body.extent(x, axis) > 1) {
    const std::int64_t count = body.extent(x, axis);
    Places first, second;
    for (std::int64_t i = 0; i + 1 < count; i += 2) {
      first.push_back(i);
      second.push_back(i + 1);
    }
    const ValueId a = picked(body, x, axis, first), b = picked(body, x, axis, second);
    const std::vector<ValueId> compared = largest.smallest ? std::vector{b, a} : std::vector{a, b};
    const ValueId wins =
        largest.last ? body.apply(op::Greater{}, compared) : body.apply(op::GreaterOrEqual{}, compared);
    const ValueId of_a = picked(body, index, axis, first), of_b = picked(body, index, axis, second);
    const auto with_last = [&](ValueId winners, ValueId all) {
      if (count % 2 == 0) return winners;
      return body.apply(op::Concat{static_cast<std::int64_t>(axis)}, {winners, picked(body, all, axis, {count - 1})});
    };
    index = with_last(body.apply(op::Choice{}, {wins, of_a, of_b}), index);
    x = with_last(largest.smallest ? body.apply(op::Min{}, {a, b}) : body.apply(op::Max{}, {a, b}), x);
  }
  if (largest.keep_axis) return index;
  Shape shape = body.shape(index);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return body.reshape(index, shape);
}

namespace {

/// Two places whose elements change places where the second is the larger one.
using Exchange = std::pair<std::int64_t, std::int64_t>;
/// Exchanges that have no place in common.
using Stage = std::vector<Exchange>;

/// The stages that put the `count` best (largest or smallest) of `elements` numbers first: blocks of `count`, rounded up
/// to a power of two, are sorted; two and two are merged, of which the first half goes on. Both by Batcher's odd-even
/// merges (D. E. Knuth, The Art of Computer Programming 3, 5.2.2 M). A place behind the last element stands for the
/// worst number: it never changes places.
class BestFirst {
public:
  BestFirst(std::int64_t elements, std::int64_t count) : elements_(elements) {
    while (block_ < count) block_ *= 2;
    for (std::int64_t step = 1; step < block_; step *= 2) merge(block_, block_, step);
    for (std::int64_t apart = block_; apart < elements_; apart *= 2) merge(2 * block_, apart, block_);
  }

  std::vector<Stage> stages() && { return std::move(stages_); }

private:
  /// Merges sorted runs of `step` elements to runs of twice as many, in every group of `size` elements: the block at
  /// every multiple of 2 `apart`, and the one `apart` behind it where a group is two blocks.
  void merge(std::int64_t size, std::int64_t apart, std::int64_t step) {
    const std::int64_t group = size > block_ ? 2 * apart : block_;
    for (std::int64_t distance = step; distance >= 1; distance /= 2) {
      Stage stage;
      for (std::int64_t start = 0; start < elements_; start += group) {
        for (std::int64_t j = distance % step; j + distance < size; j += 2 * distance) {
          for (std::int64_t i = j; i < std::min(j + distance, size - distance); ++i) {
            if (i / (2 * step) != (i + distance) / (2 * step)) continue;
            const std::int64_t a = place(start, i, apart), b = place(start, i + distance, apart);
            if (b < elements_) stage.emplace_back(a, b);
          }
        }
      }
      if (!stage.empty()) stages_.push_back(std::move(stage));
    }
  }

  std::int64_t place(std::int64_t start, std::int64_t i, std::int64_t apart) const {
    return i < block_ ? start + i : start + apart + i - block_;
  }

  std::int64_t elements_, block_ = 1;
  std::vector<Stage> stages_;
};

/// Elements at their places, and the indices that they had.
struct Ranked {
  ValueId x = 0;
  std::optional<ValueId> index;
};

/// The second elements of a stage's pairs go where they belong; places that no pair names keep theirs.
Ranked exchanged(Body& body, const Ranked& from, std::size_t axis, const Stage& stage, bool smallest) {
  const auto pairs = static_cast<std::int64_t>(stage.size()), count = body.extent(from.x, axis);
  Places first, second, others, back(static_cast<std::size_t>(count), -1);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const Exchange& exchange = stage[static_cast<std::size_t>(i)];
    first.push_back(exchange.first);
    second.push_back(exchange.second);
    back[static_cast<std::size_t>(exchange.first)] = i;
    back[static_cast<std::size_t>(exchange.second)] = pairs + i;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t& place = back[static_cast<std::size_t>(i)];
    if (place >= 0) continue;
    place = 2 * pairs + static_cast<std::int64_t>(others.size());
    others.push_back(i);
  }
  const auto together = [&](ValueId before, ValueId better, ValueId worse) {
    std::vector<ValueId> parts = {better, worse};
    if (!others.empty()) parts.push_back(picked(body, before, axis, others));
    return picked(body, body.apply(op::Concat{static_cast<std::int64_t>(axis)}, parts), axis, back);
  };
  const ValueId a = picked(body, from.x, axis, first), b = picked(body, from.x, axis, second);
  Ranked result;
  const ValueId larger = body.apply(op::Max{}, {a, b}), smaller = body.apply(op::Min{}, {a, b});
  result.x = smallest ? together(from.x, smaller, larger) : together(from.x, larger, smaller);
  if (!from.index) return result;
  const ValueId of_a = picked(body, *from.index, axis, first), of_b = picked(body, *from.index, axis, second);
  const ValueId is_better = smallest ? body.apply(op::Greater{}, {b, a}) : body.apply(op::Greater{}, {a, b});
  const ValueId stays =
      body.apply(op::Choice{}, {body.apply(op::Equal{}, {a, b}), body.apply(op::Greater{}, {of_b, of_a}), is_better});
  result.index = together(*from.index, body.apply(op::Choice{}, {stays, of_a, of_b}),
                          body.apply(op::Choice{}, {stays, of_b, of_a}));
  return result;
}

}  // namespace

ValueId write(Body& body, const op::TopK& largest) {
  const std::size_t axis = counted_axis(body, largest.axis);
  const ValueId x = body.input(0);
  const std::int64_t elements = body.extent(x, axis);
  if (largest.count < 1 || largest.count > elements)
    throw ShapeMismatch("the " + std::to_string(largest.count) + " largest of " + std::to_string(elements) +
                        " elements");
  Ranked ranked{x, std::nullopt};
  const bool asks_for_indices = largest.result == op::TopK::Result::indices;
  if (asks_for_indices) ranked.index = indices_of(body, x, axis);
  for (const Stage& stage : BestFirst(elements, largest.count).stages())
    ranked = exchanged(body, ranked, axis, stage, largest.smallest);
  Places first(static_cast<std::size_t>(largest.count));
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<std::int64_t>(i);
  return picked(body, asks_for_indices ? *ranked.index : ranked.x, axis, std::move(first));
}

}  // namespace driftbound::composites
