#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"

namespace driftbound::composites {
namespace {

/// The terms of an equation: one string of indices an operand, and those of the result.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

void require_indices(const std::string& indices, const std::string& equation) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const bool is_letter = std::isalpha(static_cast<unsigned char>(indices[i])) != 0;
    const bool is_repeated = indices.find(indices[i], i + 1) != std::string::npos;
    if (!is_letter || is_repeated) {
      throw ShapeMismatch(fmt::format("einsum '{}': only products over letters, each once an operand", equation));
    }
  }
}

/// Without an arrow the result has the indices that occur once, in alphabetical order.
std::string implied_result(const std::vector<std::string>& operands) {
  std::string all, result;
  for (const std::string& operand : operands) all += operand;
  std::sort(all.begin(), all.end());
  for (const char index : all) {
    if (std::count(all.begin(), all.end(), index) == 1) result += index;
  }
  return result;
}

Equation parsed(std::string text) {
  const std::string whole = text;
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t arrow = text.find("->");
  Equation equation;
  std::string left = text.substr(0, arrow);
  for (std::size_t comma = left.find(','); comma != std::string::npos; comma = left.find(',')) {
    equation.operands.push_back(left.substr(0, comma));
    left.erase(0, comma + 1);
  }
  equation.operands.push_back(left);
  equation.result = arrow == std::string::npos ? implied_result(equation.operands) : text.substr(arrow + 2);
  for (const std::string& operand : equation.operands) require_indices(operand, whole);
  require_indices(equation.result, whole);
  return equation;
}

bool has(const std::string& indices, char index) {
  return indices.find(index) != std::string::npos;
}

/// A value with the name of each of its axes.
struct Labelled {
  ValueId value = 0;
  std::string indices;
};

std::int64_t extent(Body& body, const Labelled& x, char index) {
  return body.extent(x.value, x.indices.find(index));
}

Labelled permuted(Body& body, const Labelled& x, const std::string& order) {
  if (order == x.indices) return x;
  op::Transpose transpose;
  for (const char index : order) transpose.permutation.push_back(static_cast<std::int64_t>(x.indices.find(index)));
  return {body.apply(transpose, {x.value}), order};
}

/// Sums over the indices that nothing else needs.
Labelled summed(Body& body, const Labelled& x, const std::string& needed) {
  op::ReduceSum sum{{}, false};
  std::string kept;
  for (std::size_t axis = 0; axis < x.indices.size(); ++axis) {
    if (has(needed, x.indices[axis])) {
      kept += x.indices[axis];
    } else {
      sum.axes.push_back(static_cast<std::int64_t>(axis));
    }
  }
  if (sum.axes.empty()) return x;
  return {body.apply(sum, {x.value}), kept};
}

/// The extents of several indices, one after the other, and their product.
Shape extents(Body& body, const Labelled& x, const std::string& indices) {
  Shape shape;
  for (const char index : indices) shape.push_back(extent(body, x, index));
  return shape;
}

/// One matrix product over all indices that both have and nothing else needs.
Labelled multiplied(Body& body, Labelled a, Labelled b, const std::string& needed) {
  a = summed(body, a, needed + b.indices);
  b = summed(body, b, needed + a.indices);
  std::string batch, contracted, rows, columns;
  for (const char index : a.indices) {
    if (!has(b.indices, index)) {
      rows += index;
    } else if (extent(body, a, index) != extent(body, b, index)) {
      throw ShapeMismatch(fmt::format("einsum: index '{}' has extents {} and {}", index, extent(body, a, index),
                                      extent(body, b, index)));
    } else {
      (has(needed, index) ? batch : contracted) += index;
    }
  }
  for (const char index : b.indices) {
    if (!has(a.indices, index)) columns += index;
  }
  const Shape batches = extents(body, a, batch);
  const std::int64_t count = element_count(batches), k = element_count(extents(body, a, contracted));
  const Shape m = extents(body, a, rows), n = extents(body, b, columns);
  const ValueId left = body.reshape(permuted(body, a, batch + rows + contracted).value, {count, element_count(m), k});
  const ValueId right =
      body.reshape(permuted(body, b, batch + contracted + columns).value, {count, k, element_count(n)});
  Shape shape = batches;
  shape.insert(shape.end(), m.begin(), m.end());
  shape.insert(shape.end(), n.begin(), n.end());
  return {body.reshape(body.apply(op::MatMul{}, {left, right}), shape), batch + rows + columns};
}

}  // namespace

ValueId write(Body& body, const op::Einsum& einsum) {
  const Equation equation = parsed(einsum.equation);
  if (equation.operands.size() != body.input_count()) {
    throw ShapeMismatch(fmt::format("einsum '{}' with {} operands", einsum.equation, body.input_count()));
  }
  const auto operand = [&](std::size_t slot) {
    if (equation.operands[slot].size() != body.shape(body.input(slot)).size()) {
      throw ShapeMismatch(
          fmt::format("einsum '{}': operand {} is {}", einsum.equation, slot, to_string(body.shape(body.input(slot)))));
    }
    return Labelled{body.input(slot), equation.operands[slot]};
  };
  Labelled result = operand(0);
  for (std::size_t slot = 1; slot < equation.operands.size(); ++slot) {
    std::string needed = equation.result;
    for (std::size_t later = slot + 1; later < equation.operands.size(); ++later) needed += equation.operands[later];
    result = multiplied(body, result, operand(slot), needed);
  }
  result = summed(body, result, equation.result);
  if (result.indices.size() != equation.result.size()) {
    throw ShapeMismatch(fmt::format("einsum '{}': its result has an index that no operand has", einsum.equation));
  }
  return permuted(body, result, equation.result).value;
}

}  // namespace driftbound::composites
