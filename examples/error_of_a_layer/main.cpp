// A layer of one sum, 1 * 1 + 2^-24 * 1 - 1 * 1, evaluated in float32: how large is the error, what does
// the theorem allow, and what does the folklore gamma_n |y| say?
#include <cmath>
#include <cstdio>

#include "driftbound.hpp"

int main() {
  using namespace driftbound;

  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {3, ""}});
  const ValueId w = graph.add_constant("w", StoredTensor::from(Tensor<float>({3, 1}, {1.0F, 0x1p-24F, -1.0F})));
  graph.outputs = {graph.add_node("layer", op::MatMul{}, {x, w})};

  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({1, 3}, {1.0F, 1.0F, 1.0F})));

  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential")));
  const Trace trace = evaluator.run(graph, inputs);
  const Reference reference = certified_reference(graph, inputs, {}, &trace);
  const Bounds bounds = bound(graph, trace);

  const double computed = trace.layers[0].output.to_double().values[0];
  const Interval error = error_of(computed, reference.layers[0].values[0]);
  std::printf("computed %g, exact %g, error %g\n", computed, reference.layers[0].values[0].hi, error.upper());
  for (const BoundResult& result : bounds.layers[0].local) {
    const double value = result.values.values[0];
    const char* verdict = error.lower() > value ? "violated" : (error.upper() <= value ? "holds" : "undecided");
    std::printf("%-15s %-13s %s\n", name_of(result.kind).data(), name_of(result.guarantee).data(), verdict);
  }
}
