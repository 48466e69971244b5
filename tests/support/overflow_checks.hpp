#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "driftbound/bounds/box.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "support/bound_checks.hpp"
#include "support/theorems.hpp"

/// Products that overflow what they are stored in (T-22).
namespace checks {

/// 250 x, and what atan makes of it.
inline Graph product_that_may_be_large(double alpha, bool has_atan) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{1, ""}, {2, ""}});
  const ValueId w =
      graph.add_constant("w", StoredTensor::from(Tensor<float>({2, 1}, {static_cast<float>(250.0 / alpha), 0.0f})));
  const ValueId y = graph.add_node("y", op::Gemm{alpha, 1.0, false, false}, {x, w});
  graph.outputs = {has_atan ? graph.add_node("z", op::Atan{}, {y}) : y};
  return graph;
}

/// Products that are added up in every way, all stored in fp16, but for the last ones.
inline std::vector<ArithmeticModel> narrow_storing_arithmetics() {
  ArithmeticModel plain = cpu_arithmetic("fp16", {});
  plain.output = FormatId::fp16;
  ArithmeticModel unit = plain, flushing = plain, reducing = plain;
  unit.tensor_core = TensorCore{24, 8};
  flushing.products_may_flush = true;
  reducing.reduced_reduction = ReducedReduction{FormatId::bf16, 2};
  ArithmeticModel fp8 = unit;
  fp8.output = FormatId::fp8_e4m3;
  return {plain, unit, flushing, reducing, fp8};
}

/// Finite bounds of runs that overflow, or that go on from a number that did, and infinite ones of others.
inline std::int64_t check_stored_overflow() {
  std::int64_t wrong = 0;
  BoundOptions options;
  for (const ArithmeticModel& arithmetic : narrow_storing_arithmetics()) {
    for (const double alpha : {1.0, 2.0}) {
      for (const bool has_atan : {false, true}) {
        const Graph graph = product_that_may_be_large(alpha, has_atan);
        const auto error_at = [&](double x) {
          return forward_error_bound(graph, arithmetic, {{x, 0.0}, {x, 0.0}}, {}, options).error.value();
        };
        const double too_large = arithmetic.output == FormatId::fp16 ? 280.0 : 2.0;
        const double least = has_atan ? 1e-5 : HUGE_VAL;  // atan(70000) is so far from that of infinity
        if (!std::isfinite(error_at(1.0))) ++wrong;
        if (!(error_at(too_large) >= least)) ++wrong;
      }
    }
  }
  return wrong;
}

}  // namespace checks
