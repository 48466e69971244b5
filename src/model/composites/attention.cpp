#include <fmt/core.h>

#include <algorithm>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"
#include "model/selections.hpp"
#include "model/shapes.hpp"

namespace driftbound::composites {
namespace {

/// [N, heads, length, size], from that or from [N, length, heads size].
ValueId split_heads(Body& body, ValueId x, std::int64_t heads) {
  const Shape shape = body.shape(x);
  if (shape.size() == 4) return x;
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0) {
    throw ShapeMismatch(fmt::format("{} does not split into {} heads", to_string(shape), heads));
  }
  const ValueId split = body.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  return body.apply(op::Transpose{{0, 2, 1, 3}}, {split});
}

ValueId join_heads(Body& body, ValueId x) {
  const Shape shape = body.shape(x);
  const ValueId swapped = body.apply(op::Transpose{{0, 2, 1, 3}}, {x});
  return body.reshape(swapped, {shape[0], shape[2], shape[1] * shape[3]});
}

/// Every head of keys or values as often as there are query heads for it.
ValueId shared_heads(Body& body, ValueId x, std::int64_t query_heads) {
  const Shape shape = body.shape(x);
  if (shape[1] == query_heads) return x;
  if (shape[1] < 1 || query_heads % shape[1] != 0) {
    throw ShapeMismatch(fmt::format("{} query heads for {} key heads", query_heads, shape[1]));
  }
  const std::int64_t copies = query_heads / shape[1];
  const ValueId split = body.reshape(x, {shape[0], shape[1], 1, shape[2], shape[3]});
  const ValueId repeated = body.apply(op::Expand{{shape[0], shape[1], copies, shape[2], shape[3]}}, {split});
  return body.reshape(repeated, {shape[0], query_heads, shape[2], shape[3]});
}

void require_few(std::int64_t queries, std::int64_t keys, std::int64_t most_entries) {
  if (queries > most_entries || keys > most_entries || queries * keys > most_entries) {
    throw ShapeMismatch(fmt::format("a mask of {} by {} is more than {} entries", queries, keys, most_entries));
  }
}

/// Query i sees keys up to i + first_query.
op::Where causal_mask(std::int64_t queries, std::int64_t keys, std::int64_t first_query) {
  require_few(queries, keys, std::int64_t{1} << 26);
  first_query = std::clamp(first_query, -queries, keys);
  op::Where mask{{queries, keys}, std::vector<bool>(static_cast<std::size_t>(queries * keys), false)};
  for (std::int64_t i = 0; i < queries; ++i) {
    std::fill_n(mask.condition.begin() + i * keys, std::clamp<std::int64_t>(first_query + i + 1, 0, keys), true);
  }
  return mask;
}

/// Which keys a query sees, by the op's mask and causality together.
op::Where visibility(const op::Attention& attention, const Shape& scores) {
  const auto causal = [&] { return causal_mask(scores[2], scores[3], attention.first_query); };
  if (attention.visible.empty()) return causal();
  const Shape shape = attention.visible_shape.empty() ? Shape{1} : attention.visible_shape;
  const bool has_all = element_count(shape) == static_cast<std::int64_t>(attention.visible.size());
  if (!has_all || !broadcasts_to(shape, scores)) {
    throw ShapeMismatch(fmt::format("a mask {} for scores {}", to_string(shape), to_string(scores)));
  }
  const op::Where mask{shape, attention.visible};
  if (!attention.is_causal) return mask;
  const op::Where earlier = causal();
  require_few(1, element_count(broadcast(shape, earlier.condition_shape)), std::int64_t{1} << 22);
  return both(mask, earlier);
}

/// For every row of a mask over keys whether it holds.
template <class Holds>
op::Where by_query(const op::Where& mask, Holds holds) {
  op::Where rows{mask.condition_shape, {}};
  const auto keys = static_cast<std::size_t>(rows.condition_shape.back());
  rows.condition_shape.back() = 1;
  for (std::size_t first = 0; first < mask.condition.size(); first += keys) {
    const auto row = mask.condition.begin() + static_cast<std::ptrdiff_t>(first);
    rows.condition.push_back(holds(row, row + static_cast<std::ptrdiff_t>(keys)));
  }
  return rows;
}

bool always(const op::Where& condition) {
  return std::find(condition.condition.begin(), condition.condition.end(), false) == condition.condition.end();
}

/// A score that is at most the largest one that the query sees: the first key's where all see that, else the smallest.
ValueId stand_in(Body& body, ValueId scores, const op::Where& mask) {
  if (always(by_query(mask, [](auto first, auto) { return *first; })))
    return body.apply(op::Slice{{0}, {1}, {3}, {}}, {scores});
  return body.apply(op::ReduceMin{{3}, true}, {scores});
}

/// e^s_j / sum e^s_j over the last axis. In the maximum a score that is no larger stands for those that are not seen.
ValueId weights_of(Body& body, ValueId scores, const op::Attention& attention) {
  const bool hides = attention.is_causal || !attention.visible.empty();
  const auto powers_of = [&](ValueId seen) {
    const ValueId largest = body.apply(op::ReduceMax{{3}, true}, {seen});
    return body.apply(op::Exp{}, {body.subtract(seen, largest)});
  };
  const auto sum_of = [&](ValueId powers) { return body.apply(op::ReduceSum{{3}, true}, {powers}); };
  if (!hides) {
    const ValueId powers = powers_of(scores);
    return body.divide(powers, sum_of(powers));
  }
  const op::Where mask = visibility(attention, body.shape(scores));
  const ValueId seen = body.apply(mask, {scores, stand_in(body, scores, mask)});
  const ValueId powers = body.apply(mask, {powers_of(seen), body.number(0.0)});
  const op::Where sees_any = by_query(mask, [](auto first, auto last) { return std::find(first, last, true) != last; });
  const ValueId total = sum_of(powers);
  return body.divide(powers, always(sees_any) ? total : body.apply(sees_any, {total, body.number(1.0)}));
}

}  // namespace

ValueId write(Body& body, const op::Attention& attention) {
  using Result = op::Attention::Result;
  const bool is_joined = body.shape(body.input(0)).size() == 3;
  const ValueId queries = split_heads(body, body.input(0), attention.query_heads);
  const std::int64_t heads = body.extent(queries, 1);
  const std::int64_t key_heads = attention.key_heads == 0 ? attention.query_heads : attention.key_heads;
  const ValueId keys = shared_heads(body, split_heads(body, body.input(1), key_heads), heads);
  const ValueId values = shared_heads(body, split_heads(body, body.input(2), key_heads), heads);
  const ValueId turned = body.apply(op::Transpose{{0, 1, 3, 2}}, {keys});
  const ValueId products = body.apply(op::MatMul{}, {queries, turned});
  const ValueId size = body.number(static_cast<double>(body.extent(queries, 3)));
  ValueId scores = attention.scale == 0.0 ? body.divide(products, body.apply(op::Sqrt{}, {size}))
                                          : body.multiply(products, body.number(attention.scale));
  if (attention.result == Result::products) return scores;
  if (attention.softcap != 0.0) {
    const ValueId cap = body.number(attention.softcap);
    scores = body.multiply(cap, body.apply(op::Tanh{}, {body.divide(scores, cap)}));
  }
  if (attention.result == Result::capped) return scores;
  if (body.input_count() > 3) scores = body.add(scores, body.input(3));
  if (attention.result == Result::masked) return scores;
  const ValueId weights = weights_of(body, scores, attention);
  if (attention.result == Result::weights) return weights;
  const ValueId result = body.apply(op::MatMul{}, {weights, values});
  return is_joined ? join_heads(body, result) : result;
}

namespace {

ValueId last_axis(Body& body, ValueId x, std::int64_t start, std::int64_t end, std::int64_t step) {
  return body.apply(op::Slice{{start}, {end}, {-1}, {step}}, {x});
}

/// a_0, b_0, a_1, b_1 … along the last axis
ValueId interleaved(Body& body, ValueId a, ValueId b) {
  Shape shape = body.shape(a);
  shape.push_back(1);
  const ValueId pairs = body.apply(op::Concat{-1}, {body.reshape(a, shape), body.reshape(b, shape)});
  shape.pop_back();
  shape.back() *= 2;
  return body.reshape(pairs, shape);
}

}  // namespace

ValueId write(Body& body, const op::RotaryEmbedding& rotary) {
  const bool is_joined = body.shape(body.input(0)).size() == 3;
  const ValueId x = split_heads(body, body.input(0), rotary.heads);
  const Shape shape = body.shape(x);
  const std::int64_t size = rotary.rotary_size == 0 ? shape[3] : rotary.rotary_size;
  if (size % 2 != 0 || size > shape[3]) {
    throw ShapeMismatch(fmt::format("{} of {} coordinates cannot be rotated in pairs", size, shape[3]));
  }
  const auto angle = [&](std::size_t slot) {
    Shape angles = body.shape(body.input(slot));
    if (angles.size() == 3) angles.insert(angles.begin() + 1, 1);
    return last_axis(body, body.reshape(body.input(slot), angles), 0, size / 2, 1);
  };
  const ValueId cosine = angle(1), sine = angle(2);
  const ValueId turned = last_axis(body, x, 0, size, 1);
  const ValueId a = rotary.interleaved ? last_axis(body, turned, 0, size, 2) : last_axis(body, turned, 0, size / 2, 1);
  const ValueId b =
      rotary.interleaved ? last_axis(body, turned, 1, size, 2) : last_axis(body, turned, size / 2, size, 1);
  const ValueId real = body.subtract(body.multiply(cosine, a), body.multiply(sine, b));
  const ValueId imaginary = body.add(body.multiply(sine, a), body.multiply(cosine, b));
  ValueId result =
      rotary.interleaved ? interleaved(body, real, imaginary) : body.apply(op::Concat{-1}, {real, imaginary});
  if (size < shape[3]) {
    result = body.apply(op::Concat{-1}, {result, last_axis(body, x, size, shape[3], 1)});
  }
  return is_joined ? join_heads(body, result) : result;
}

}  // namespace driftbound::composites
