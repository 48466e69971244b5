#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::test {

/// Sums of 64 numbers of which a chain of additions loses all but the first: rows are 1 + 2^-22 i, then 2^-24, which ties to
/// even.
struct LostNumbers {
  static constexpr std::int64_t k = 64;
  Graph graph;
  Trace trace;
  std::vector<double> errors;  ///< by row: those of the run; all sums are numbers of float64

  /// `lanes_of`: a power of two, by row: lanes that are added up in turn, and then half to half; 1 is a chain.
  LostNumbers(std::int64_t rows, const std::function<std::size_t(std::int64_t row)>& lanes_of) {
    std::vector<float> x, y;
    for (std::int64_t row = 0; row < rows; ++row) {
      double exact = 0.0;
      std::vector<float> sums(lanes_of(row), 0.0f);
      for (std::int64_t i = 0; i < k; ++i) {
        x.push_back(i == 0 ? 1.0f + 0x1p-22f * static_cast<float>(row) : 0x1p-24f);
        exact += static_cast<double>(x.back());
        sums[static_cast<std::size_t>(i) % sums.size()] += x.back();
      }
      for (std::size_t count = sums.size(); count > 1; count /= 2)
        for (std::size_t i = 0; i < count / 2; ++i) sums[i] += sums[i + count / 2];
      y.push_back(sums[0]);
      errors.push_back(std::fabs(static_cast<double>(sums[0]) - exact));
    }
    const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "samples"}, {k, ""}});
    const ValueId ones = graph.add_constant(
        "w", StoredTensor::from(Tensor<float>({k, 1}, std::vector<float>(static_cast<std::size_t>(k), 1.0f))));
    graph.outputs = {graph.add_node("y", op::MatMul{}, {input, ones})};
    trace.arithmetic = cpu_arithmetic("fp32", {});
    trace.samples = rows;
    trace.inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({rows, k}, x)));
    trace.layers = {{"y", StoredTensor::from(Tensor<float>({rows, 1}, y))}};
  }
};

}  // namespace driftbound::test
