#include "region/mesh_turned.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "driftbound/num/directed.hpp"

namespace driftbound::meshing {
namespace {

using Vector = std::array<double, 3>;

std::string free_name(const Graph& graph, std::string name) {
  const auto is_taken = [&](const auto& other) { return other.name == name; };
  while (std::any_of(graph.values.begin(), graph.values.end(), is_taken) ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(), is_taken))
    name += "'";
  return name;
}

double along(const Vector& gradient, const std::array<int, 3>& vector) {
  double sum = 0.0, square = 0.0;
  for (std::size_t c = 0; c < 3; ++c) {
    sum += gradient[c] * vector[c];
    square += vector[c] * vector[c];
  }
  return sum / std::sqrt(square);
}

/// The box of coordinates u that holds every x of a box.
void add_turned_box(const Basis& basis, const double* lower, const double* upper, Boxes& boxes) {
  Vector turned_lower{}, turned_upper{};
  for (std::size_t j = 0; j < 3; ++j) {
    double from = 0.0, to = 0.0, size = 0.0;
    int square = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      const int b = basis.vectors[j][c];
      from += b * (b > 0 ? lower[c] : upper[c]);
      to += b * (b > 0 ? upper[c] : lower[c]);
      size += std::abs(b) * std::fmax(std::fabs(lower[c]), std::fabs(upper[c]));
      square += b * b;
    }
    turned_lower[j] = div_down(sub_down(from, 0x1p-49 * size), square);
    turned_upper[j] = div_up(add_up(to, 0x1p-49 * size), square);
  }
  boxes.add(turned_lower, turned_upper);
}

}  // namespace

Graph turned_graph(const Graph& graph, const Basis& basis) {
  const BatchLayout layout = batch_layout(graph);
  const ValueId old = graph.inputs.front();
  Graph turned = graph;
  turned.nodes.clear();
  turned.inputs.clear();
  const ValueId u = turned.add_input(free_name(graph, "turned"), ElementType::f64,
                                     {{layout.batched ? -1 : 1, layout.batched ? "samples" : ""}, {3, ""}});
  Tensor<double> matrix({3, 3});
  for (std::size_t j = 0; j < 3; ++j)
    for (std::size_t c = 0; c < 3; ++c) matrix.values[3 * j + c] = basis.vectors[j][c];
  const ValueId vectors = turned.add_constant(free_name(graph, "turned/vectors"), StoredTensor::from(matrix));
  const ValueId x = turned.add_node(free_name(graph, "turned/x"), op::Gemm{}, {u, vectors});
  op::Reshape reshape{layout.sample_shapes.front(), false};
  if (layout.batched) reshape.target.front() = -1;
  turned.values[old].kind = ValueKind::computed;
  turned.nodes.push_back({free_name(graph, "turned/input"), std::move(reshape), {x}, old});
  turned.nodes.insert(turned.nodes.end(), graph.nodes.begin(), graph.nodes.end());
  validate(turned);
  return turned;
}

std::optional<std::size_t> basis_for(std::span<const Vector> gradients) {
  double best = 0.0;
  std::optional<std::size_t> found;
  for (std::size_t b = 0; b < turned_bases.size(); ++b)
    for (const auto& vector : turned_bases[b].vectors) {
      double least = std::numeric_limits<double>::infinity(), most = -least;
      for (const Vector& gradient : gradients) {
        const double here = along(gradient, vector);
        least = std::fmin(least, here);
        most = std::fmax(most, here);
      }
      const double share = least > 0.0 ? least / most : most < 0.0 ? most / least : 0.0;
      if (share > best) {
        best = share;
        found = b;
      }
    }
  return found;
}

TurnedEvaluators::TurnedEvaluators(const Graph& graph, const Target& target, const RegionOptions& options) {
  for (const Basis& basis : turned_bases) evaluators_.emplace_back(turned_graph(graph, basis), target, options);
}

Ranges TurnedEvaluators::ranges(std::size_t basis, const Boxes& boxes) const {
  Boxes turned{.dimension = 3, .lower = {}, .upper = {}};
  for (std::size_t i = 0; i < boxes.size(); ++i)
    add_turned_box(turned_bases[basis], &boxes.lower[3 * i], &boxes.upper[3 * i], turned);
  return evaluators_[basis].ranges(turned);
}

}  // namespace driftbound::meshing
