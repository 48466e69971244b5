#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/num/errors.hpp"
#include "support/text.hpp"

/// Small graphs and messages for the tests of the model part.
namespace graphs {

using namespace driftbound;

inline DeclaredDimension fixed(std::int64_t extent) {
  return {extent, ""};
}
inline DeclaredDimension open(std::string symbol = "N") {
  return {-1, std::move(symbol)};
}

/// Extents of -1 are open.
inline std::vector<DeclaredDimension> declared(const Shape& shape) {
  std::vector<DeclaredDimension> dimensions;
  for (const std::int64_t extent : shape) dimensions.push_back(extent < 0 ? open() : fixed(extent));
  return dimensions;
}

/// A constant of ones.
inline StoredTensor ones(const Shape& shape) {
  Tensor<float> tensor(shape);
  for (float& value : tensor.values) value = 1.0f;
  return StoredTensor::from(tensor);
}

/// One node, named "layer", on inputs of the given shapes.
inline Graph one_node(Op op, const std::vector<Shape>& inputs) {
  Graph graph;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ids.push_back(graph.add_input("x" + std::to_string(i), ElementType::f32, declared(inputs[i])));
  }
  graph.outputs = {graph.add_node("layer", std::move(op), ids)};
  return graph;
}

template <class Exception, class Function>
std::string message_of(Function f) {
  try {
    f();
  } catch (const Exception& error) {
    return error.what();
  }
  FAIL("nothing was thrown");
  return "";
}

inline int multiplier() {
  const char* text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

}  // namespace graphs
