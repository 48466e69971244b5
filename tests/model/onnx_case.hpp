#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/load.hpp"
#include "support/load_errors.hpp"
#include "support/onnx_writer.hpp"

// Models of one node whose values are compared with those of ONNX's definitions.

namespace driftbound::test {

using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline std::int64_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// 1, 2, 3 …
inline Tensor<float> counted(const Shape& shape, float first = 1.0f) {
  Tensor<float> result(shape);
  std::iota(result.values.begin(), result.values.end(), first);
  return result;
}

inline Message boolean_list(std::string_view name, const std::string& bytes) {
  return onnx_tensor_header(name, onnx_bool, {static_cast<std::int64_t>(bytes.size())}).bytes(9, bytes);
}

/// A model whose node reads x, whose shape is as given, and what `add` puts there.
struct Case {
  explicit Case(std::int64_t opset, const Shape& shape) : model(opset), x(counted(shape)) {
    model.input("x", {shape.begin(), shape.end()});
  }
  template <class T>
  Case& with(const std::string& name, const Shape& shape, const std::vector<T>& values) {
    model.initializer(name, shape, values);
    return *this;
  }
  Case& with(const Message& tensor) {
    model.initializer(tensor);
    return *this;
  }
  Case& also(const std::string& name, const Tensor<float>& values) {
    model.input(name, {values.shape.begin(), values.shape.end()});
    others.emplace_back(name, StoredTensor::from(values));
    return *this;
  }
  Case& node(const std::string& op, const std::vector<std::string>& inputs,
             const std::vector<OnnxAttribute>& attributes = {}) {
    model.node(op, inputs, "y", attributes, "only").output("y");
    return *this;
  }

  Tensor<double> value() const {
    const Graph graph = loaded(model);
    Inputs given{{{"x", StoredTensor::from(x)}}};
    given.tensors.insert(given.tensors.end(), others.begin(), others.end());
    std::vector<Shape> shapes;
    for (const ValueId input : graph.inputs) {
      for (const auto& [name, tensor] : given.tensors) {
        if (name == graph.value(input).name) shapes.push_back(tensor.shape());
      }
    }
    return {infer_shapes(graph, shapes)[graph.outputs.at(0)], evaluate_as<double>(graph, given).back().values};
  }
  Doubles values() const { return value().values; }
  std::string refusal() const { return load_error<Unsupported>(model); }
  std::string mismatch() const { return load_error<ShapeMismatch>(model); }
  std::string error() const { return load_error<ParseError>(model); }

  OnnxModel model;
  Tensor<float> x;
  std::vector<std::pair<std::string, StoredTensor>> others;
};

inline bool holds(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

inline void check_near(const Doubles& found, const Doubles& expected, double tolerance = 1e-12) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - expected[i]) <= tolerance * (1.0 + std::abs(expected[i])));
  }
}

/// Row-major index of every element, the last axis fastest.
inline void for_indices(const Shape& shape, const std::function<void(const Integers&, std::size_t)>& visit) {
  Integers index(shape.size(), 0);
  for (std::size_t flat = 0; flat < static_cast<std::size_t>(elements_of(shape)); ++flat) {
    visit(index, flat);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

inline std::size_t flat_index(const Shape& shape, const Integers& index) {
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) at = at * shape[axis] + index[axis];
  return static_cast<std::size_t>(at);
}

}  // namespace driftbound::test
