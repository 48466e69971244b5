#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bounds/adjoint/shadow.hpp"
#include "bounds/blocks/row_bounds.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/rows/bound_cache.hpp"
#include "bounds/rows/row_walk.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/reference/reference.hpp"
#include "num/enclosed.hpp"
#include "support/approach.hpp"
#include "support/run_checks.hpp"
#include "support/special_numbers.hpp"
#include "support/trajectory_checks.hpp"

// One number a row (T-82): kernels, walks held against 700 bits, and bounds of real runs.

using namespace checks;
using bounds::ElementKernels;

namespace {

struct Kernel {
  const char* name;
  ElementKernels::Function ElementKernels::*f;
  Enclosed (*enclosed)(double);
  double most;
};
const std::vector<Kernel> functions = {
    {"exp", &ElementKernels::exp, enclosed_exp, 708.0},
    {"tanh", &ElementKernels::tanh, enclosed_tanh, 350.0},
    {"sigmoid", &ElementKernels::sigmoid, enclosed_sigmoid, 700.0},
    {"softplus", &ElementKernels::softplus, enclosed_softplus, 700.0},
    {"sin", &ElementKernels::sin, enclosed_sin, 0x1p20},
    {"cos", &ElementKernels::cos, enclosed_cos, 0x1p20},
};

std::vector<double> arguments_up_to(double most, Generator& generator) {
  std::vector<double> x = {0.0, -0.0, most, -most, 0x1p-500, -0x1p-500, 0.25, -1.0};
  for (int i = 0; i < 5003; ++i) {
    const double scale = i % 3 == 0 ? most : i % 3 == 1 ? 4.0 : std::ldexp(1.0, -static_cast<int>(generator() % 60));
    x.push_back(uniform(generator, -1.0, 1.0) * scale);
  }
  return x;
}

}  // namespace

TEST_CASE("every build of a function gives the bits of its enclosure, and says where it covers nothing (T-80)") {
  for (const ElementKernels* kernels : bounds::usable_element_kernels()) {
    CAPTURE(kernels->name);
    Generator generator(61);
    for (const Kernel& kernel : functions) {
      CAPTURE(kernel.name);
      const std::vector<double> x = arguments_up_to(kernel.most, generator);
      std::vector<double> y(x.size());
      REQUIRE((kernels->*kernel.f)(x.data(), y.data(), x.size()));
      for (std::size_t i = 0; i < x.size(); ++i) {
        CAPTURE(x[i]);
        REQUIRE(y[i] == kernel.enclosed(x[i]).value);
      }
      for (const double bad : {std::nan(""), infinity, -infinity, 1.1 * kernel.most, -1.1 * kernel.most, 0x1p-501})
        for (const std::size_t place : {std::size_t{0}, std::size_t{9}, std::size_t{16}}) {
          std::vector<double> spoilt(17, 0.5);
          spoilt[place] = bad;
          CHECK_FALSE((kernels->*kernel.f)(spoilt.data(), spoilt.data(), spoilt.size()));
        }
    }
  }
}

TEST_CASE("every build of what rounds once rounds once, and notices what is not finite") {
  Generator generator(62);
  std::vector<double> a(29), b(29), y(29);
  for (double& x : a) x = uniform(generator, -1.0, 1.0);
  for (double& x : b) x = uniform(generator, -1.0, 1.0) * 1e-9;
  for (const ElementKernels* kernels : bounds::usable_element_kernels()) {
    CAPTURE(kernels->name);
    CHECK(kernels->add(a.data(), b.data(), y.data(), y.size()));
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == a[i] + b[i]);
    CHECK(kernels->sub(a.data(), b.data(), y.data(), y.size()));
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == a[i] - b[i]);
    CHECK(kernels->mul(a.data(), b.data(), y.data(), y.size()));
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == a[i] * b[i]);
    CHECK(kernels->relu(a.data(), y.data(), y.size()));
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == std::max(a[i], 0.0));
    for (const double bad : {std::nan(""), infinity, -infinity}) {
      for (const std::size_t place : {std::size_t{3}, std::size_t{28}}) {
        std::vector<double> spoilt = a;
        spoilt[place] = bad;
        CHECK_FALSE(kernels->add(spoilt.data(), b.data(), y.data(), y.size()));
        CHECK_FALSE(kernels->sub(b.data(), spoilt.data(), y.data(), y.size()));
        CHECK_FALSE(kernels->mul(spoilt.data(), b.data(), y.data(), y.size()));
        CHECK_FALSE(kernels->relu(spoilt.data(), y.data(), y.size()));
      }
    }
    std::vector<double> huge(9, 0x1p1023);
    CHECK_FALSE(kernels->add(huge.data(), huge.data(), y.data(), huge.size()));
    CHECK_FALSE(kernels->mul(huge.data(), huge.data(), y.data(), huge.size()));
  }
}

TEST_CASE("every build adds magnitudes as they are added one by one (T-03)") {
  Generator generator(64);
  std::vector<double> a = {0.0, 0.0, 0x1p-1074, infinity, infinity, 1.0, std::numeric_limits<double>::max(), 1.0};
  std::vector<double> b = {0.0, 1.0, 0x1p-1074, 0.0, infinity, infinity, std::numeric_limits<double>::max(), 0x1p-1074};
  a.push_back(std::nan(""));
  b.push_back(1.0);
  for (int i = 0; i < 1000; ++i) {
    const int exponent = static_cast<int>(generator() % 2040) - 1060;
    a.push_back(std::ldexp(uniform(generator, 0.5, 1.0), exponent));
    b.push_back(std::ldexp(uniform(generator, 0.5, 1.0), exponent + static_cast<int>(generator() % 160) - 80));
    if (generator() % 2 == 0) std::swap(a.back(), b.back());
  }
  for (const ElementKernels* kernels : bounds::usable_element_kernels()) {
    CAPTURE(kernels->name);
    for (const std::size_t first : {0u, 3u, 6u}) {
      std::vector<double> y(a.begin() + static_cast<std::ptrdiff_t>(first), a.end());
      kernels->add_up(y.data(), b.data() + first, y.data(), y.size());
      for (std::size_t i = first; i < a.size(); ++i) {
        CAPTURE(a[i]);
        CAPTURE(b[i]);
        CHECK(y[i - first] == (Magnitude(a[i]) + Magnitude(b[i])).value());
      }
    }
  }
}

TEST_CASE("every build bounds a deviation and a radius together, from the smallest numbers on (T-82)") {
  for (const ElementKernels* kernels : bounds::usable_element_kernels()) {
    CAPTURE(kernels->name);
    Generator generator(63);
    for (int draw = 0; draw < 200; ++draw) {
      const double scale = std::vector{1.0, 1e300, 0x1p-1020, 0x1p-1060}[generator() % 4];
      const std::size_t n = 1 + generator() % 40;
      std::vector<double> computed(n), shadow(n), bound(n);
      Real largest;
      for (std::size_t i = 0; i < computed.size(); ++i) {
        computed[i] = uniform(generator, -1.0, 1.0) * scale;
        shadow[i] =
            i % 2 == 0 ? computed[i] * (1.0 + uniform(generator, -1e-7, 1e-7)) : uniform(generator, -1, 1) * scale;
        largest = std::max(largest, abs(Real(computed[i]) - Real(shadow[i])));
      }
      const double radius = uniform(generator, 0.0, 1e-8) * scale;
      const double u = draw % 2 == 0 ? 0x1p-24 : 0.0;
      const double error = kernels->deviation(computed.data(), shadow.data(), radius, u, bound.data(), n);
      for (std::size_t i = 0; i < bound.size(); ++i) {
        const Real exact = abs(Real(computed[i]) - Real(shadow[i])) + Real(radius);
        CHECK(exact <= Real(bound[i]));
        CHECK(Real(bound[i]) <= exact * Real(1.0 + 0x1p-48) + Real(0x1p-1074));
      }
      double expected = largest.to_double();
      for (const double x : computed) expected = std::max(expected, u * std::abs(x));
      CHECK(error == doctest::Approx(expected).epsilon(1e-12));
    }
    for (const double bad : {std::nan(""), infinity}) {
      for (const std::size_t n : {std::size_t{1}, std::size_t{8}, std::size_t{11}}) {
        std::vector<double> computed(n, 1.0), shadow(n, 1.0), bound(n);
        computed[n - 1] = bad;
        CHECK(kernels->deviation(computed.data(), shadow.data(), 0.0, 0x1p-24, bound.data(), n) == infinity);
        CHECK(bound[n - 1] == infinity);
        if (n > 1) CHECK(bound[n - 2] == 0.0);
      }
    }
  }
}

namespace {

/// A walk over a network of samples, held against the network in 700 bits at inputs that are off.
class HeldWalk {
public:
  HeldWalk(const Graph& graph, const Tensor<double>& x, double radius)
      : graph_(graph),
        arithmetic_(double_arithmetic()),
        setting_(setting_of(arithmetic_)),
        program_(graph, {x.shape}, x.shape.front()),
        x_(x),
        radius_(radius),
        shadow_(program_.size()),
        radii_(program_.size()) {
    std::string obstacle;
    const auto walk = bounds::RowWalk::of(program_, setting_, operands_, obstacle);
    if (walk == nullptr) return;
    const double norm =
        Magnitude(radius).value() *
        sqrt_up(Magnitude(static_cast<double>(x.size()) / static_cast<double>(x.shape.front()))).value() *
        (1.0 + 0x1p-50);
    const std::vector<double> off(static_cast<std::size_t>(x.shape.front()), norm);
    is_known_ = walk->run(program_, {x}, {radius == 0.0 ? std::vector<double>() : off}, setting_,
                          [&](ValueId id, const Tensor<double>& shadow, std::span<const double> radii) {
                            shadow_[id] = shadow;
                            radii_[id].assign(radii.begin(), radii.end());
                          });
  }

  bool is_known() const { return is_known_; }
  double output_radius(std::size_t row) const { return radii_[program_.flat().graph.outputs[0]].at(row); }

  /// Norms of rows against their radii, at inputs that are off by `signs` radii.
  void check_at(const std::vector<double>& signs, Tally& tally) const {
    Tensor<Real> moved = convert<Real>(x_);
    for (std::size_t i = 0; i < x_.size(); ++i) moved.values[i] += Real(signs[i]) * Real(radius_);
    const std::vector<Tensor<Real>> values = exact_values(graph_, moved);
    for (const Node& node : graph_.nodes) check_rows(program_.flat().of_value[node.output], values[node.output], tally);
  }

private:
  void check_rows(ValueId id, const Tensor<Real>& exact, Tally& tally) const {
    const auto rows = static_cast<std::size_t>(program_.rows(id));
    const std::size_t size = exact.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      Real squares;
      for (std::size_t i = row * size; i < (row + 1) * size; ++i) {
        const Real off = exact.values[i] - Real(shadow_[id].values[i]);
        squares += off * off;
      }
      tally.add(0.0, squares.apply(mpfr_sqrt), radii_[id].empty() ? 0.0 : radii_[id][row]);
    }
  }

  const Graph& graph_;
  ArithmeticModel arithmetic_;
  bounds::Setting setting_;
  Program program_;
  bounds::BoundCache operands_;
  Tensor<double> x_;
  double radius_;
  bool is_known_ = false;
  std::vector<Tensor<double>> shadow_;
  std::vector<std::vector<double>> radii_;
};

/// Whose Lipschitz constants depend on the values of a row.
const std::vector<std::string> blocks_by_values = {"exp", "sqrt", "div", "mul", "square"};
const std::set<std::string> blocks_without_a_line = {"attention", "reshape", "mul-computed"};

std::vector<std::string> blocks_with_a_line() {
  std::vector<std::string> blocks = NetworkBuilder::blocks();
  std::erase_if(blocks, [](const std::string& block) {
    return blocks_without_a_line.contains(block) ||
           std::find(blocks_by_values.begin(), blocks_by_values.end(), block) != blocks_by_values.end();
  });
  return blocks;
}

}  // namespace

/// `make()` builds the networks.
void check_distances(Generator& generator, double moved_approach, double rounded_approach, auto make) {
  Tally moved, rounded;
  for (int repetition = 0; repetition < 6 * test_multiplier(); ++repetition) {
    const Graph graph = make();
    for (const double radius : {0.0, 1e-9, 1e-3, 0.1, 1.0}) {
      const Tensor<double> x = network_inputs(repetition % 2 == 0 ? 1.0 : 30.0, true, generator);
      const HeldWalk walk(graph, x, radius);
      REQUIRE(walk.is_known());
      for (int corner = 0; corner < (radius == 0.0 ? 1 : 6); ++corner)
        walk.check_at(random_corner(x.size(), generator), radius == 0.0 ? rounded : moved);
    }
  }
  INFO(moved.first_violation, rounded.first_violation);
  CHECK(moved.violations == 0);
  CHECK(rounded.violations == 0);
  CHECK_APPROACH("T-82", moved.utilisation, moved_approach);
  CHECK_APPROACH("T-82", rounded.utilisation, rounded_approach);
}

TEST_CASE("one number a row holds for every op that has one, at coarse distances and at none (T-82)") {
  for (const std::string& block : blocks_with_a_line()) {
    CAPTURE(block);
    Generator generator(64);
    check_distances(generator, 0.997, 0.0751, [&] {
      NetworkBuilder builder(generator, true);
      for (const std::string& name : {std::string("gemm"), block, std::string("gemm")}) builder.add(name);
      return builder.finish();
    });
  }
}

TEST_CASE("one number a row holds for Gelu as one op (T-82, T-124)") {
  Generator generator(68);
  for (const char* function : {"gelu", "gelu_tanh"}) {
    CAPTURE(function);
    check_distances(generator, 0.956, 0.0641, [&] { return network_of_rows(function, generator); });
  }
}

TEST_CASE("one number a row holds for ops whose Lipschitz constants depend on the values of the row (T-82)") {
  Generator generator(69);
  for (const std::string& block : blocks_by_values) {
    CAPTURE(block);
    Tally moved, rounded;
    for (int repetition = 0; repetition < 12 * test_multiplier(); ++repetition) {
      NetworkBuilder builder(generator, true);
      for (const std::string& name : {std::string("gemm"), block, std::string("gemm")}) builder.add(name);
      const Graph graph = builder.finish();
      for (const double radius : {0.0, 1e-9, 1e-3, 0.1}) {
        const Tensor<double> x = network_inputs(1.0, true, generator);
        const HeldWalk walk(graph, x, radius);
        if (!walk.is_known()) continue;
        for (int corner = 0; corner < (radius == 0.0 ? 1 : 6); ++corner)
          walk.check_at(random_corner(x.size(), generator), radius == 0.0 ? rounded : moved);
      }
    }
    INFO(moved.first_violation, rounded.first_violation);
    CHECK(moved.checked > 0);
    CHECK(moved.violations == 0);
    CHECK(rounded.violations == 0);
    MESSAGE(block << ": " << moved.utilisation << " " << rounded.utilisation);
    CHECK_APPROACH("T-82", moved.utilisation, 0.1);
  }
}

TEST_CASE("an op without a line in the table leaves everything to the radii (T-82)") {
  Generator generator(65);
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {4, ""}});
  const ValueId zero = graph.add_constant("zero", StoredTensor::from(Tensor<float>({1}, {0.0F})));
  const ValueId is_positive = graph.add_node("is positive", op::Greater{}, {x, zero});
  graph.outputs = {graph.add_node("y", op::Choice{}, {is_positive, x, zero})};
  CHECK_FALSE(HeldWalk(graph, network_inputs(1.0, true, generator), 0.0).is_known());
}

TEST_CASE("sums that lose nearly everything stay within their number (T-82)") {
  Generator generator(66);
  Tally tally;
  for (int repetition = 0; repetition < 30 * test_multiplier(); ++repetition) {
    const auto k = static_cast<std::int64_t>(1 + generator() % 40);
    Graph graph;
    const ValueId x = graph.add_input("x", ElementType::f64, {{-1, "N"}, {k, ""}});
    Tensor<double> w({k, 1}), row({1, k});
    for (std::size_t i = 0; i < w.size(); ++i) {
      row.values[i] = uniform(generator, 0.5, 1.0);
      w.values[i] = (i % 2 == 0 ? 1.0 : -1.0) / row.values[i] * (1.0 + uniform(generator, 0.0, 1e-9));
    }
    const ValueId y = graph.add_node("y", op::MatMul{}, {x, graph.add_constant("w", StoredTensor::from(w))});
    graph.outputs = {
        graph.add_node("z", op::Mul{}, {y, graph.add_constant("c", StoredTensor::from(Tensor<double>({1}, {1e6})))})};
    const HeldWalk walk(graph, row, 0.0);
    REQUIRE(walk.is_known());
    walk.check_at(std::vector<double>(row.size(), 0.0), tally);
  }
  INFO(tally.first_violation);
  CHECK(tally.violations == 0);
  CHECK_APPROACH("T-82", tally.utilisation, 0.0419);
}

namespace {

/// How much of its number a network of one row uses that is rounded in double, at x as it is.
double rounded_share(const Graph& graph, const Tensor<double>& x) {
  const HeldWalk walk(graph, x, 0.0);
  REQUIRE(walk.is_known());
  Tally tally;
  walk.check_at(std::vector<double>(x.size(), 0.0), tally);
  CHECK(tally.violations == 0);
  return tally.utilisation;
}

}  // namespace

TEST_CASE("the smallest walks whose roundings are as large as their numbers (T-82)") {
  Graph sum;
  const ValueId x = sum.add_input("x", ElementType::f64, {{-1, "N"}, {1, ""}});
  sum.outputs = {
      sum.add_node("y", op::Add{}, {x, sum.add_constant("c", StoredTensor::from(Tensor<double>({1}, {0x1p-53})))})};
  CHECK_APPROACH("T-82", rounded_share(sum, Tensor<double>({1, 1}, {1.0})), 1.0);

  // Every step of the chain loses half a unit, and the operands are parallel.
  Graph product;
  std::vector<double> chain(16, 0x1.6a09ep-27);
  chain[0] = 1.0;
  const ValueId row = product.add_input("x", ElementType::f64, {{-1, "N"}, {16, ""}});
  const ValueId w = product.add_constant("w", StoredTensor::from(Tensor<double>({16, 1}, chain)));
  product.outputs = {product.add_node("y", op::MatMul{}, {row, w})};
  CHECK_APPROACH("T-82", rounded_share(product, Tensor<double>({1, 16}, chain)), 15.0 / 18.0);
}

TEST_CASE("numbers that are not finite leave everything to the radii (T-82)") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{-1, "N"}, {2, ""}});
  const ValueId w =
      graph.add_constant("w", StoredTensor::from(Tensor<double>({2, 2}, {-0x1p1000, 1.0, -0x1p1000, 1.0})));
  graph.outputs = {graph.add_node("z", op::Relu{}, {graph.add_node("y", op::MatMul{}, {x, w})})};
  CHECK(HeldWalk(graph, Tensor<double>({1, 2}, {1.0, 1.0}), 0.0).is_known());
  for (const double bad : {0x1p100, infinity, std::nan("")})
    CHECK_FALSE(HeldWalk(graph, Tensor<double>({1, 2}, {1.0, bad}), 0.0).is_known());
}

namespace {

std::vector<double> shadow_of_layer(const Bounds& bounds, std::size_t layer) {
  const BoundResult* result = find_bound(bounds.layers[layer].accumulated, BoundKind::shadow);
  REQUIRE(result != nullptr);
  return result->values.values;
}

Bounds shadow_alone(const Graph& graph, const Trace& trace) {
  BoundOptions options;
  options.requests = {BoundKind::shadow};
  return bound(graph, trace, options);
}

}  // namespace

TEST_CASE("the error of every layer of a bundled network is enclosed to a hundredth at its largest") {
  double loosest = 1.0;
  for (const auto& entry : std::filesystem::directory_iterator(DRIFTBOUND_SOURCE_DIR "/examples/models")) {
    if (entry.path().extension() != ".onnx") continue;
    CAPTURE(entry.path().filename());
    const Graph graph = load_model(entry.path());
    InputGenerator generator;
    generator.samples = 6;
    const Inputs inputs = generate_inputs(graph, generator);
    const Trace trace =
        cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma"))).run(graph, inputs);
    const Bounds bounds = shadow_alone(graph, trace);
    const Reference reference = certified_reference(graph, inputs);
    for (std::size_t layer = 0; layer < graph.nodes.size(); ++layer) {
      CHECK(bounds.layers[layer].local.empty());
      CHECK(bounds.layers[layer].accumulated.size() == 1);
      const std::vector<double> computed = trace.layers[layer].output.to_double().values;
      const std::vector<double> bound = shadow_of_layer(bounds, layer);
      double largest = 0.0, at_largest = 0.0;
      for (std::size_t i = 0; i < bound.size(); ++i) {
        const double error = error_of(computed[i], reference.layers[layer].values[i]).lower();
        CHECK(error <= bound[i]);
        if (error > largest) {
          largest = error;
          at_largest = bound[i];
        }
      }
      if (largest > 0.0) loosest = std::max(loosest, at_largest / largest);
    }
  }
  MESSAGE("loosest: " << loosest);
  CHECK(loosest <= 1.01);
}

TEST_CASE("a neuron that is off in all rows within reach hands nothing on (T-82)") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f64, {{-1, "N"}, {2, ""}});
  graph.outputs = {graph.add_node("y", op::Relu{}, {x})};
  Tally tally;
  for (const double offset : {0.0, 0.5, 0.9, 1.5}) {  // within reach are numbers above 0 up to sqrt(2) from 0
    const HeldWalk walk(graph, Tensor<double>({1, 2}, {-offset, -offset}), 1.0);
    CHECK((walk.output_radius(0) == 0.0) == (offset == 1.5));
    walk.check_at({1.0, 1.0}, tally);
  }
  CHECK(tally.violations == 0);
}

namespace {

/// Of the only layer of a graph without loops over rows.
std::vector<double> shadow_in_full(const Graph& graph, const Trace& trace) {
  const bounds::Setting setting = setting_of(trace.arithmetic);
  const Tensor<double> x = trace.inputs.tensors.front().second.to_double(), y = trace.layers[0].output.to_double();
  const Program program(graph, {x.shape}, x.shape.front());
  bounds::RecordedBlock block;
  block.layers = {&y};
  block.given = block.used = {x};
  block.input_error = {{}};
  bounds::AdjointRequest request;
  request.any_order = request.declared_order = request.rounded = false;
  bounds::BoundCache operands;
  return bounds::block_bounds_in_full(program, block, {}, request, setting, operands).this_run[0];
}

}  // namespace

TEST_CASE("constants are the same tensors in every network of a graph") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const Tensor<float> numbers({3, 2}, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F});
  const StoredTensor w = StoredTensor::from(numbers);
  graph.outputs = {graph.add_node("y", op::MatMul{}, {x, graph.add_constant("w", w)})};
  bounds::BoundCache operands;
  const Tensor<double>& kept = operands.constant(w);
  CHECK(kept.values == w.to_double().values);
  CHECK(&operands.constant(StoredTensor::from(numbers)) != &kept);
  const auto arithmetic = cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma"));
  const bounds::Setting setting = setting_of(arithmetic);
  for (const std::int64_t rows : {1, 5}) {
    const Shape shape = {rows, 3};
    const Program program(graph, {shape}, rows);
    const bounds::Shadow shadow = bounds::shadow_of(program, {Tensor<double>(shape)}, setting, &operands);
    const bounds::NodeView view = shadow.view_of(program.nodes().front());
    REQUIRE(view.inputs.size() == 2);
    CHECK(view.inputs[1] == &kept);
    CHECK(shadow.value(program.nodes().front().inputs[1]).values == kept.values);
  }
}

TEST_CASE("rows whose numbers are not negligible have the bounds of the radii, the others those of one number") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const Tensor<float> w({3, 2}, {1.0F, 2.0F, 1.0F, 2.0F, 1.0F, 2.0F});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {x, graph.add_constant("w", StoredTensor::from(w))})};
  Generator generator(67);
  Tensor<float> rows({6, 3});
  for (std::size_t i = 0; i < rows.size(); ++i) rows.values[i] = static_cast<float>(uniform(generator, 0.5, 1.0));
  for (std::size_t i = 3; i < rows.size(); i += 6) {  // large numbers that cancel exactly: nothing is lost, 0 is left
    rows.values[i] = 0x1p20F;
    rows.values[i + 1] = -0x1p20F;
    rows.values[i + 2] = 0.0F;
  }
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(rows));
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8"))).run(graph, inputs);
  const std::vector<double> quick = shadow_of_layer(shadow_alone(graph, trace), 0);
  CHECK(shadow_of_layer(bound(graph, trace), 0) == quick);
  const std::vector<double> full = shadow_in_full(graph, trace);
  for (std::size_t i = 0; i < quick.size(); ++i) {
    CAPTURE(i);
    const bool cancels = i / 2 % 2 == 1;
    if (cancels) {
      CHECK(quick[i] == full[i]);
    } else {
      CHECK(full[i] < quick[i]);
      CHECK(quick[i] <= full[i] + 0x1p-8 * *std::max_element(full.begin(), full.end()));
    }
  }
}
