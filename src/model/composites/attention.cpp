#include <fmt/core.h>

#include <algorithm>

#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"

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

/// Query i sees keys up to i.
op::Where causal_mask(std::int64_t queries, std::int64_t keys) {
  constexpr std::int64_t most_scores = std::int64_t{1} << 26;
  if (queries > most_scores || keys > most_scores || queries * keys > most_scores) {
    throw ShapeMismatch(fmt::format("a causal mask of {} by {} is more than 2^26 entries", queries, keys));
  }
  op::Where mask{{queries, keys}, std::vector<bool>(static_cast<std::size_t>(queries * keys), false)};
  for (std::int64_t i = 0; i < queries; ++i) {
    std::fill_n(mask.condition.begin() + i * keys, std::min(i + 1, keys), true);
  }
  return mask;
}

/// e^s_j / sum e^s_j over the last axis; masked scores weigh 0, and the first key, which is never masked, stands for
/// them in the maximum.
ValueId weights_of(Body& body, ValueId scores, bool is_causal) {
  const Shape shape = body.shape(scores);
  const op::Where mask = is_causal ? causal_mask(shape[2], shape[3]) : op::Where{};
  ValueId visible = scores;
  if (is_causal) {
    const ValueId first = body.apply(op::Slice{{0}, {1}, {3}, {}}, {scores});
    visible = body.apply(mask, {scores, first});
  }
  const ValueId largest = body.apply(op::ReduceMax{{3}, true}, {visible});
  ValueId powers = body.apply(op::Exp{}, {body.subtract(visible, largest)});
  if (is_causal) powers = body.apply(mask, {powers, body.number(0.0)});
  return body.divide(powers, body.apply(op::ReduceSum{{3}, true}, {powers}));
}

}  // namespace

ValueId write(Body& body, const op::Attention& attention) {
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
  if (attention.softcap != 0.0) {
    const ValueId cap = body.number(attention.softcap);
    scores = body.multiply(cap, body.apply(op::Tanh{}, {body.divide(scores, cap)}));
  }
  if (body.input_count() > 3) scores = body.add(scores, body.input(3));
  const ValueId result = body.apply(op::MatMul{}, {weights_of(body, scores, attention.is_causal), values});
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
  if (size < 0 || size % 2 != 0 || size > shape[3]) {
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
