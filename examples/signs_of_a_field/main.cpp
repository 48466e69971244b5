// The octahedron |x| + |y| + |z| = 1 as a network of rectifiers, on a grid of steps of 0.1. Many points of the grid lie
// on its faces but for the last bits of 0.1, 0.2, …: on which side? A float32 evaluation cannot know.
#include <Eigen/Core>
#include <cstdio>

#include "driftbound/adapters/eigen.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/sign_field.hpp"

using namespace driftbound;

namespace {

constexpr int per_axis = 21;
constexpr int points_in_all = per_axis * per_axis * per_axis;

Graph octahedron() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {3, ""}});
  // Rectifiers of x, y, z, -x, -y, -z add up to |x| + |y| + |z|.
  const ValueId both = graph.add_constant(
      "both", StoredTensor::from(Tensor<float>({3, 6}, {1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1})));
  const ValueId ones = graph.add_constant("ones", StoredTensor::from(Tensor<float>({6, 1}, {1, 1, 1, 1, 1, 1})));
  const ValueId level = graph.add_constant("level", StoredTensor::from(Tensor<float>({1}, {-1})));
  const ValueId sides = graph.add_node("sides", op::Gemm{}, {x, both});
  const ValueId parts = graph.add_node("parts", op::Relu{}, {sides});
  graph.outputs = {graph.add_node("f", op::Gemm{}, {parts, ones, level})};
  return graph;
}

Eigen::MatrixX3d grid() {
  Eigen::MatrixX3d points(points_in_all, 3);
  for (int row = 0; row < points_in_all; ++row)
    points.row(row) << row / (per_axis * per_axis) - 10, row / per_axis % per_axis - 10, row % per_axis - 10;
  return 0.1 * points;
}

/// What a program finds that evaluates the network in float32.
Eigen::VectorXd evaluated_in_float32(const Graph& graph, const Eigen::MatrixX3d& points) {
  const Eigen::Matrix<float, Eigen::Dynamic, 3, Eigen::RowMajor> rounded = points.cast<float>();
  Inputs inputs;
  inputs.tensors.emplace_back(
      "x", StoredTensor::from(Tensor<float>({points_in_all, 3}, {rounded.data(), rounded.data() + rounded.size()})));
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential")));
  const std::vector<double> values = evaluator.run(graph, inputs).layers.back().output.to_double().values;
  return Eigen::Map<const Eigen::VectorXd>(values.data(), points_in_all);
}

/// What a mesher calls, one point at a time, also from several threads: only the sign of what it gets matters.
struct Oracle {
  SignField field;  // a cheap handle
  double operator()(double x, double y, double z) const {
    const double point[] = {x, y, z};
    return static_cast<double>(static_cast<int>(field.at(point).sign));
  }
};

}  // namespace

int main() {
  const SignField field(octahedron());
  const Eigen::MatrixX3d points = grid();
  const auto print = [](const char* name, const auto& values) {
    std::printf("%-8s %4d negative, %4d zero, %4d positive\n", name, static_cast<int>((values < 0).count()),
                static_cast<int>((values == 0).count()), static_cast<int>((values > 0).count()));
  };
  print("exact", eigen::signs(field, points).array());
  print("float32", evaluated_in_float32(field.graph(), points).array());

  const Oracle oracle{field};
  std::printf("(0.5, 0.25, 0.25): %g\n", oracle(0.5, 0.25, 0.25));
  std::printf("(0.1, 0.2, 0.7):   %g\n", oracle(0.1, 0.2, 0.7));
}
