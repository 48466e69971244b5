#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/region/range.hpp"
#include "region_checks.hpp"
#include "support/tally.hpp"

using namespace driftbound;
using region_checks::exact, region_checks::random_box, region_checks::share_of, region_checks::uniform;

namespace {

/// a_1 x_1 + … + a_d x_d + a_(d+1)
using Affine = std::vector<double>;

double value_of(const Affine& f, const std::vector<double>& x) {
  double sum = f.back();
  for (std::size_t j = 0; j < x.size(); ++j) sum += f[j] * x[j];
  return sum;
}

/// Where d of them are 0; empty: nowhere, or not at one point.
std::vector<double> meeting_point(std::vector<Affine> rows) {
  const std::size_t d = rows.size();
  for (std::size_t j = 0; j < d; ++j) {
    std::size_t pivot = j;
    for (std::size_t i = j; i < d; ++i)
      if (std::fabs(rows[i][j]) > std::fabs(rows[pivot][j])) pivot = i;
    std::swap(rows[j], rows[pivot]);
    if (std::fabs(rows[j][j]) < 1e-9) return {};
    for (std::size_t i = 0; i < d; ++i) {
      const double factor = i == j ? 0.0 : rows[i][j] / rows[j][j];
      for (std::size_t k = 0; k <= d; ++k) rows[i][k] -= factor * rows[j][k];
    }
  }
  std::vector<double> point;
  for (std::size_t j = 0; j < d; ++j) point.push_back(-rows[j][d] / rows[j][j]);
  return point;
}

/// Layers of rectifiers, and a sum of the last ones.
struct Rectifiers {
  std::size_t inputs = 0;
  std::vector<Tensor<float>> weights, biases;
  Tensor<float> sum;

  Rectifiers(std::size_t d, const std::vector<std::size_t>& widths, std::mt19937_64& generator) : inputs(d) {
    const auto drawn = [&](std::size_t rows, std::size_t columns) {
      Tensor<float> tensor({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)});
      for (float& number : tensor.values) number = static_cast<float>(2.0 * uniform(generator) - 1.0);
      return tensor;
    };
    for (const std::size_t width : widths) {
      weights.push_back(drawn(d, width));
      biases.push_back(drawn(1, width));
      d = width;
    }
    sum = drawn(d, 1);
  }

  Graph graph() const {
    Graph graph;
    ValueId x = graph.add_input("x", ElementType::f64, {{-1, "batch"}, {static_cast<std::int64_t>(inputs), ""}});
    const auto constant = [&](const std::string& name, const Tensor<float>& tensor) {
      return graph.add_constant(name, StoredTensor::from(tensor));
    };
    for (std::size_t l = 0; l < weights.size(); ++l) {
      const std::string number = std::to_string(l);
      x = graph.add_node("hidden" + number, op::Gemm{},
                         {x, constant("w" + number, weights[l]), constant("b" + number, biases[l])});
      x = graph.add_node("rectified" + number, op::Relu{}, {x});
    }
    graph.outputs = {graph.add_node("sum", op::MatMul{}, {x, constant("v", sum)})};
    return graph;
  }

  std::size_t units() const {
    std::size_t count = 0;
    for (const Tensor<float>& bias : biases) count += bias.values.size();
    return count;
  }

  /// In the piece where the units in `on` pass their arguments: the arguments of all units, and last the result.
  std::vector<Affine> functions(std::size_t on) const {
    std::vector<Affine> before, all;
    for (std::size_t j = 0; j < inputs; ++j) {
      before.emplace_back(inputs + 1, 0.0);
      before.back()[j] = 1.0;
    }
    for (std::size_t l = 0; l <= weights.size(); ++l) {
      const Tensor<float>& w = l < weights.size() ? weights[l] : sum;
      const std::size_t width = w.values.size() / before.size();
      std::vector<Affine> after;
      for (std::size_t i = 0; i < width; ++i) {
        Affine argument(inputs + 1, 0.0);
        if (l < weights.size()) argument.back() = static_cast<double>(biases[l].values[i]);
        for (std::size_t k = 0; k < before.size(); ++k)
          for (std::size_t j = 0; j <= inputs; ++j)
            argument[j] += static_cast<double>(w.values[k * width + i]) * before[k][j];
        all.push_back(argument);
        after.push_back((on >> (all.size() - 1) & 1U) != 0 ? argument : Affine(inputs + 1, 0.0));
      }
      before = std::move(after);
    }
    return all;
  }
};

/// Calls visit(vertices, result) for every piece of a network with an interior in the box: there it is affine.
template <class Visit>
void for_each_piece(const Rectifiers& network, const Box& box, const Visit& visit) {
  const std::size_t d = network.inputs, units = network.units();
  for (std::size_t on = 0; on < std::size_t{1} << units; ++on) {
    std::vector<Affine> planes = network.functions(on);
    const Affine result = planes.back();
    planes.pop_back();
    for (std::size_t i = 0; i < units; ++i)
      if ((on >> i & 1U) == 0)
        for (double& a : planes[i]) a = -a;
    for (std::size_t j = 0; j < d; ++j)
      for (const double side : {-1.0, 1.0}) {
        Affine face(d + 1, 0.0);
        face[j] = -side;
        face[d] = side < 0.0 ? -box.lower[j] : box.upper[j];
        planes.push_back(face);
      }
    std::vector<std::vector<double>> vertices;
    std::vector<std::size_t> chosen(d);
    const std::function<void(std::size_t, std::size_t)> choose = [&](std::size_t count, std::size_t first) {
      for (std::size_t i = first; count < d && i < planes.size(); ++i) {
        chosen[count] = i;
        choose(count + 1, i + 1);
      }
      if (count < d) return;
      std::vector<Affine> rows;
      for (const std::size_t i : chosen) rows.push_back(planes[i]);
      std::vector<double> point = meeting_point(std::move(rows));
      const auto is_within = [&](const Affine& plane) { return value_of(plane, point) >= -1e-9; };
      if (point.empty() || !std::all_of(planes.begin(), planes.end(), is_within)) return;
      for (std::size_t j = 0; j < d; ++j) point[j] = std::min(std::max(point[j], box.lower[j]), box.upper[j]);
      vertices.push_back(std::move(point));
    };
    choose(0, 0);
    if (vertices.empty()) continue;
    std::vector<double> middle(d, 0.0);
    for (const std::vector<double>& vertex : vertices)
      for (std::size_t j = 0; j < d; ++j) middle[j] += vertex[j] / static_cast<double>(vertices.size());
    if (std::all_of(planes.begin(), planes.end(), [&](const Affine& plane) { return value_of(plane, middle) > 1e-6; }))
      visit(vertices, result);
  }
}

}  // namespace

TEST_CASE("small Relu networks: range and gradient against all vertices of all linear pieces") {
  struct Kind {
    std::size_t inputs;
    std::vector<std::size_t> widths;
    int trials;
    double value_excess, gradient_excess;  // of the means of what is enclosed over what there is
  };
  std::mt19937_64 generator(5);
  double closest = 0.0, closest_gradient = 0.0;
  for (const Kind& kind : {Kind{2, {4}, 200, 1.35, 1.75}, Kind{3, {5}, 60, 1.35, 1.85}, Kind{2, {4, 3}, 60, 2.3, 3.7},
                           Kind{3, {4, 3}, 40, 1.9, 3.5}}) {
    CAPTURE(kind.inputs);
    CAPTURE(kind.widths.size());
    double excess = 0.0, count = 0.0, gradient_excess = 0.0, gradients = 0.0;
    const int trials = kind.trials * test_multiplier();
    for (int trial = 0; trial < trials; ++trial) {
      const Rectifiers network(kind.inputs, kind.widths, generator);
      const RegionEvaluator regions(network.graph());
      const Box box = random_box(kind.inputs, 0.5, generator);
      const Range range = regions.range(box);
      double least = std::numeric_limits<double>::infinity(), most = -least;
      std::vector<double> flattest(kind.inputs, least), steepest(kind.inputs, most);
      for_each_piece(network, box, [&](const std::vector<std::vector<double>>& vertices, const Affine& result) {
        for (const std::vector<double>& point : vertices) {
          const double value = value_of(result, point);
          if (value >= least && value <= most) continue;
          CHECK(share_of(exact(regions, point), range.value) <= 1.0);
          least = std::min(least, value);
          most = std::max(most, value);
        }
        for (std::size_t j = 0; j < kind.inputs; ++j) {
          CHECK(result[j] >= range.gradient[j].lower() - 1e-14);
          CHECK(result[j] <= range.gradient[j].upper() + 1e-14);
          flattest[j] = std::min(flattest[j], result[j]);
          steepest[j] = std::max(steepest[j], result[j]);
        }
      });
      REQUIRE(least <= most);
      if (!(most - least > 1e-9)) continue;  // nothing but a constant
      const double share = (most - least) / range.value.width().value();
      closest = std::max(closest, share);
      excess += 1.0 / share;
      ++count;
      for (std::size_t j = 0; j < kind.inputs; ++j) {
        if (!(steepest[j] - flattest[j] > 1e-9)) continue;  // one slope
        const double part = (steepest[j] - flattest[j]) / range.gradient[j].width().value();
        closest_gradient = std::max(closest_gradient, part);
        gradient_excess += 1.0 / part;
        ++gradients;
      }
    }
    CHECK(count > 0.7 * trials);
    CHECK(excess < kind.value_excess * count);
    CHECK(gradients > 0.5 * trials);
    CHECK(gradient_excess < kind.gradient_excess * gradients);
  }
  CHECK(closest > 0.999);
  CHECK(closest_gradient > 0.96);
}
