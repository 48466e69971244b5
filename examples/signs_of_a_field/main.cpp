// The octahedron |x| + |y| + |z| = 1 as a network of rectifiers, on a grid of steps of 0.1. Many points of the grid lie
// on its faces but for the last bits of 0.1, 0.2, …: on which side? A float32 evaluation cannot know.
// Behind it certified values of a whole grid for marching cubes in the style of libigl, with a closed surface.
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "driftbound/adapters/eigen.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/bounded_field.hpp"
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

/// Points of a grid over a cube as libigl has them, the first coordinate running fastest.
Eigen::MatrixX3d grid_over(double lower, double upper, int per_side) {
  const Eigen::VectorXd steps = Eigen::VectorXd::LinSpaced(per_side, lower, upper);
  Eigen::MatrixX3d points(per_side * per_side * per_side, 3);
  for (int row = 0; row < points.rows(); ++row)
    points.row(row) << steps[row % per_side], steps[row / per_side % per_side], steps[row / (per_side * per_side)];
  return points;
}

/// What igl::marching_cubes(S, GV, nx, ny, nz, isovalue, V, F) does, by six tetrahedra a cell: the surface between points
/// with values below the level and others, its triangles counter-clockwise seen from the latter.
class MarchingTetrahedra {
public:
  MarchingTetrahedra(const Eigen::VectorXd& values, const Eigen::MatrixX3d& points, double level)
      : values_(values), points_(points), level_(level) {}

  void march(int nx, int ny, int nz, Eigen::MatrixX3d& vertices, Eigen::MatrixX3i& triangles) {
    for (int k = 0; k + 1 < nz; ++k)
      for (int j = 0; j + 1 < ny; ++j)
        for (int i = 0; i + 1 < nx; ++i) {
          std::array<int, 3> axes = {0, 1, 2};
          do {
            const auto corner = [&](int bits) {
              return i + (bits & 1) + nx * (j + (bits >> 1 & 1) + ny * (k + (bits >> 2)));
            };
            const int first = 1 << axes[0], second = first | 1 << axes[1];
            const bool is_even = (axes[1] - axes[0] + 3) % 3 == 1;
            cut({corner(0), corner(is_even ? first : second), corner(is_even ? second : first), corner(7)});
          } while (std::next_permutation(axes.begin(), axes.end()));
        }
    vertices.resize(static_cast<Eigen::Index>(vertices_.size()), 3);
    for (std::size_t v = 0; v < vertices_.size(); ++v) vertices.row(static_cast<Eigen::Index>(v)) = vertices_[v];
    triangles.resize(static_cast<Eigen::Index>(triangles_.size()), 3);
    for (std::size_t t = 0; t < triangles_.size(); ++t) triangles.row(static_cast<Eigen::Index>(t)) = triangles_[t];
  }

private:
  bool is_below(int corner) const { return values_[corner] < level_; }

  /// A tetrahedron, the last three corners counter-clockwise seen from outside.
  void cut(std::array<int, 4> t) {
    // Corners below the level first, by exchanges of two: after an odd number of them one more that changes no side.
    bool is_turned = false;
    for (int end = 3; end > 0; --end)
      for (std::size_t c = 0; c < static_cast<std::size_t>(end); ++c)
        if (!is_below(t[c]) && is_below(t[c + 1])) {
          std::swap(t[c], t[c + 1]);
          is_turned = !is_turned;
        }
    const auto below = std::count_if(t.begin(), t.end(), [&](int corner) { return is_below(corner); });
    if (is_turned) below == 1 ? std::swap(t[2], t[3]) : std::swap(t[0], t[1]);
    const auto add = [&](int a, int b, int c) { triangles_.emplace_back(a, b, c); };
    if (below == 1) add(between(t[0], t[1]), between(t[0], t[2]), between(t[0], t[3]));
    if (below == 3) add(between(t[0], t[3]), between(t[1], t[3]), between(t[2], t[3]));
    if (below == 2) {
      add(between(t[0], t[2]), between(t[0], t[3]), between(t[1], t[3]));
      add(between(t[0], t[2]), between(t[1], t[3]), between(t[1], t[2]));
    }
  }

  int between(int a, int b) {
    const auto [place, is_new] = number_.try_emplace(std::minmax(a, b), static_cast<int>(vertices_.size()));
    const double share = (level_ - values_[a]) / (values_[b] - values_[a]);
    if (is_new) vertices_.emplace_back(points_.row(a) + share * (points_.row(b) - points_.row(a)));
    return place->second;
  }

  const Eigen::VectorXd& values_;
  const Eigen::MatrixX3d& points_;
  double level_;
  std::map<std::pair<int, int>, int> number_;  // of vertices, by the points on both sides
  std::vector<Eigen::RowVector3d> vertices_;
  std::vector<Eigen::RowVector3i> triangles_;
};

/// Edges that no triangle passes in the other direction.
int open_edges(const Eigen::MatrixX3i& triangles) {
  std::set<std::pair<int, int>> edges;
  for (Eigen::Index t = 0; t < triangles.rows(); ++t)
    for (int c = 0; c < 3; ++c) edges.emplace(triangles(t, c), triangles(t, (c + 1) % 3));
  return static_cast<int>(std::count_if(edges.begin(), edges.end(), [&](const auto& e) {
    return edges.count({e.second, e.first}) == 0;
  }));
}

/// The part of the octahedron in a cube that cuts off its corners: open, and closed by the sides of the cube.
void march_in_cube() {
  constexpr double side = 0.75;
  constexpr int per_side = 31;
  SignOptions options;
  options.domain = Box{{-side, -side, -side}, {side, side, side}};
  const SignField field(octahedron(), options);
  const Eigen::MatrixX3d points = grid_over(-side, side, per_side);
  const auto show = [&](const char* name, const Eigen::VectorXd& values) {
    Eigen::MatrixX3d vertices;
    Eigen::MatrixX3i triangles;
    MarchingTetrahedra(values, points, 0.0).march(per_side, per_side, per_side, vertices, triangles);
    std::printf("%-8s %5d vertices, %5d triangles, %3d open edges\n", name, static_cast<int>(vertices.rows()),
                static_cast<int>(triangles.rows()), open_edges(triangles));
  };
  show("surface", eigen::values(field, points));
  show("solid", eigen::values(BoundedField(field), points));
}

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

  march_in_cube();
}
