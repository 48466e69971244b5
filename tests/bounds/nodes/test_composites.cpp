#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "bounds/nodes/forward.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/reference/reference.hpp"
#include "faults/theorems.hpp"
#include "support/bound_checks.hpp"

// One node of every composite and every new primitive, run by the CPU evaluator and held against the certified
// reference: local bounds against the exact node on the recorded operands, the forward bound against the exact node on
// operands finer than the arithmetic reads.

using namespace checks;

namespace {

struct OperandShape {
  Shape shape;
  enum class Sign { any, positive } sign = Sign::any;
};

struct Family {
  std::string name;
  Op op;
  std::vector<OperandShape> operands;
  double largest_median = 0.0;  ///< of bound / error; 0: that of the list
  std::vector<double> scales = {1.0, 1e-3, 8.0};
};

using Sign = OperandShape::Sign;

op::WindowGeometry window(std::vector<std::int64_t> kernel, std::vector<std::int64_t> strides = {},
                          std::vector<std::int64_t> dilations = {}, std::vector<std::int64_t> pads = {}) {
  op::WindowGeometry geometry;
  geometry.kernel = std::move(kernel);
  geometry.strides = std::move(strides);
  geometry.dilations = std::move(dilations);
  geometry.pads_before = geometry.pads_after = std::move(pads);
  return geometry;
}

std::vector<Family> primitives() {
  return {
      {"abs", op::Abs{}, {{{40}}}},
      {"reciprocal", op::Reciprocal{}, {{{40}, Sign::positive}}},
      {"log", op::Log{}, {{{40}, Sign::positive}}},
      {"tan", op::Tan{}, {{{40}}}, 0.0, {1.0, 1e-3}},
      {"atan", op::Atan{}, {{{40}}}},
      {"sinh", op::Sinh{}, {{{40}}}},
      {"cosh", op::Cosh{}, {{{40}}}},
      {"floor", op::Floor{}, {{{40}}}},
      {"ceil", op::Ceil{}, {{{40}}}},
      {"round", op::Round{}, {{{40}}}},
      {"sign", op::Sign{}, {{{40}}}},
      {"square", op::Pow{2.0}, {{{40}}}},
      {"power", op::Pow{1.7}, {{{40}, Sign::positive}}},
      {"clip", op::Clip{-0.25, 0.1}, {{{40}}}},
      {"thresholded relu", op::ThresholdedRelu{0.5}, {{{40}}}},
      {"min", op::Min{}, {{{5, 8}}, {{8}}}},
      {"max", op::Max{}, {{{5, 8}}, {{8}}}},
      {"prelu", op::PRelu{}, {{{5, 8}}, {{8}}}},
      {"greater", op::Greater{}, {{{5, 8}}, {{8}}}},
      {"greater or equal", op::GreaterOrEqual{}, {{{5, 8}}, {{8}}}},
      {"equal", op::Equal{}, {{{5, 8}}, {{8}}}},
      {"choice", op::Choice{}, {{{5, 1}}, {{5, 8}}, {{8}}}},
      {"reduce sum", op::ReduceSum{{1}, true}, {{{5, 9, 4}}}, 45.0},
      {"reduce sum of all", op::ReduceSum{{}, false}, {{{5, 9}}}, 1000.0},
      {"reduce max", op::ReduceMax{{0}, false}, {{{5, 8}}}},
      {"reduce min", op::ReduceMin{{-1}, true}, {{{5, 8}}}},
      {"slice", op::Slice{{7}, {0}, {1}, {-2}}, {{{5, 8}}}},
      {"gather", op::Gather{1, {3}, {0, -1, 2}}, {{{5, 8}}}},
      {"expand", op::Expand{{5, 8}}, {{{5, 1}}}},
      {"tile", op::Tile{{2, 1}}, {{{5, 8}}}},
      {"pad", op::Pad{op::Pad::Mode::constant, {1, 2}, {0, 1}, 0.1}, {{{5, 8}}}},
      {"where", op::Where{{4}, {true, false, false, true}}, {{{5, 4}}, {{4}}}},
      {"windows", op::Windows{window({3}, {2}, {}, {1})}, {{{2, 3, 8}}}},
  };
}

std::vector<Family> elementwise() {
  return {
      {"selu", op::Selu{}, {{{40}}}},
      {"celu", op::Celu{0.7}, {{{40}}}},
      {"hard sigmoid", op::HardSigmoid{}, {{{40}}}},
      {"hard swish", op::HardSwish{}, {{{40}}}},
      {"swish", op::Swish{1.3}, {{{40}}}},
      {"mish", op::Mish{}, {{{40}}}},
      {"softsign", op::Softsign{}, {{{40}}}},
      {"gelu", op::Gelu{false}, {{{40}}}},
      {"gelu, tanh", op::Gelu{true}, {{{40}}}},
      {"sum", op::SumOf{}, {{{5, 8}}, {{8}}, {{5, 1}}}},
      {"mean", op::MeanOf{}, {{{5, 8}}, {{8}}, {{5, 1}}}},
      {"least", op::MinOf{}, {{{5, 8}}, {{8}}, {{5, 1}}}},
      {"largest", op::MaxOf{}, {{{5, 8}}, {{8}}, {{5, 1}}}},
  };
}

std::vector<Family> reductions() {
  const std::vector<std::int64_t> axes = {1, 2};
  return {
      {"log softmax", op::LogSoftmax{}, {{{5, 8}}}},
      {"log softmax, trailing", op::LogSoftmax{1, true}, {{{2, 3, 4}}}},
      {"masked softmax", op::MaskedSoftmax{-1, {4}, {true, false, true, true}}, {{{5, 4}}}},
      {"reduce mean", op::ReduceMean{axes, true}, {{{3, 4, 5}}}, 200.0},
      {"reduce l1", op::ReduceL1{axes, false}, {{{3, 4, 5}}}},
      {"reduce l2", op::ReduceL2{axes, true}, {{{3, 4, 5}}}},
      {"reduce sum of squares", op::ReduceSumSquare{axes, true}, {{{3, 4, 5}}}},
      {"reduce log sum", op::ReduceLogSum{axes, true}, {{{3, 4, 5}, Sign::positive}}},
      {"reduce log sum exp", op::ReduceLogSumExp{axes, true}, {{{3, 4, 5}}}},
      {"batch normalisation", op::BatchNormalization{}, {{{2, 3, 5}}, {{3}}, {{3}}, {{3}}, {{3}, Sign::positive}}},
      {"instance normalisation", op::InstanceNormalization{}, {{{2, 3, 7}}, {{3}}, {{3}}}},
      {"group normalisation", op::GroupNormalization{2}, {{{2, 4, 5}}, {{4}}, {{4}}}},
      {"layer normalisation", op::LayerNormalization{}, {{{4, 9}}, {{9}}, {{9}}}},
      {"rms normalisation", op::RMSNormalization{}, {{{4, 9}}, {{9}}}},
      {"l1 normalisation", op::LpNormalization{-1, 1}, {{{4, 9}}}},
      {"l2 normalisation", op::LpNormalization{-1, 2}, {{{4, 9}}}},
  };
}

std::vector<Family> windows() {
  op::ConvTranspose transposed{window({}, {2}, {}, {1}), 2, {1}, {}};
  return {
      {"conv 1-d", op::Conv{window({}, {}, {}, {1})}, {{{2, 3, 9}}, {{4, 3, 3}}, {{4}}}},
      {"conv 2-d", op::Conv{window({}, {2, 1}, {1, 2}, {1, 0}), 2}, {{{1, 4, 6, 7}}, {{4, 2, 3, 2}}}, 160.0},
      {"conv transposed", transposed, {{{1, 4, 5}}, {{4, 2, 3}}, {{4}}}},
      {"max pool", op::MaxPool{window({2, 3}, {2, 1}, {}, {1, 1})}, {{{1, 2, 6, 5}}}},
      {"average pool", op::AveragePool{window({3}, {2}, {}, {1})}, {{{1, 2, 9}}}},
      {"average pool, padding", op::AveragePool{window({3}, {2}, {}, {1}), true}, {{{1, 2, 9}}}},
      {"global average pool", op::GlobalAveragePool{}, {{{2, 3, 4, 4}}}, 125.0},
      {"global max pool", op::GlobalMaxPool{}, {{{2, 3, 4, 4}}}},
      {"grid sample", op::GridSample{}, {{{1, 2, 3, 4}}, {{1, 2, 2, 2}}}, 150.0, {1.0}},
      {"largest", op::TopK{-1, 3, op::TopK::Result::values}, {{{3, 7}}}},
  };
}

std::vector<Family> attention() {
  const OperandShape x{{1, 2, 4, 6}};
  return {
      {"attention", op::Attention{}, {x, x, x}, 0.0, {1.0, 1e-3}},
      {"attention, causal", op::Attention{true, 0.0, 0.0, 0, 0, 0, {}, {}}, {x, x, x}, 0.0, {1.0, 1e-3}},
      {"attention, masked",
       op::Attention{
           false,
           0.0,
           0.0,
           0,
           0,
           0,
           {4, 4},
           {false, true, true, false, true, false, true, true, false, false, false, false, true, true, true, true}},
       {x, x, x},
       0.0,
       {1.0, 1e-3}},
      {"attention, grouped",
       op::Attention{false, 0.3, 5.0, 4, 2, 0, {}, {}},
       {{{1, 3, 16}}, {{1, 5, 8}}, {{1, 5, 8}}, {{3, 5}}},
       0.0,
       {1.0, 1e-3}},
      {"rotary embedding", op::RotaryEmbedding{}, {x, {{1, 4, 3}}, {{1, 4, 3}}}},
      {"rotary embedding, interleaved", op::RotaryEmbedding{true, 0, 4}, {x, {{1, 4, 2}}, {{1, 4, 2}}}},
      {"einsum, product", op::Einsum{"bij,bjk->bik"}, {{{2, 3, 7}}, {{2, 7, 4}}}},
      {"einsum, three", op::Einsum{"i,ij,j->"}, {{{6}}, {{6, 5}}, {{5}}}, 250.0},
      {"einsum, sum", op::Einsum{"ij->i"}, {{{6, 6}}}},
  };
}

Tensor<double> draw_operand(const OperandShape& operand, double scale, bool is_fine, Generator& generator) {
  Tensor<double> values(operand.shape);
  for (double& x : values.values) {
    x = scale * uniform(generator, operand.sign == Sign::positive ? 0.25 : -1.0, 1.0);
    if (!is_fine) x = static_cast<double>(static_cast<float>(x));
  }
  return values;
}

struct Problem {
  Graph graph;
  Inputs inputs;
};

/// How operands are drawn and what they pass before the op sees them.
struct Draw {
  double scale = 1.0;
  bool is_fine = false;      ///< finer than the arithmetic reads
  bool passes_cast = false;  ///< to float16: errors that dwarf the roundings of the op
  bool is_wide = false;      ///< of all magnitudes
};

Problem draw_problem(const Family& family, const Draw& draw, ElementType type, Generator& generator) {
  Problem problem;
  std::vector<ValueId> ids;
  for (const OperandShape& operand : family.operands) {
    const std::string name = "x" + std::to_string(ids.size());
    Tensor<double> values =
        draw_operand(operand, operand.sign == Sign::positive ? 1.0 : draw.scale, draw.is_fine, generator);
    for (double& x : values.values) {
      if (draw.is_wide)
        x = static_cast<double>(static_cast<float>(std::ldexp(x, static_cast<int>(generator() % 60) - 40)));
    }
    ids.push_back(add_fixed_input(problem.graph, name, type, operand.shape));
    problem.inputs.tensors.emplace_back(name, StoredTensor::from(values));
  }
  if (draw.passes_cast) {
    for (ValueId& id : ids) {
      id = problem.graph.add_node("cast" + std::to_string(id), op::Cast{ElementType::f16}, {id});
    }
  }
  problem.graph.outputs = {problem.graph.add_node("y", family.op, ids)};
  return problem;
}

/// Least |computed - exact| that the ball leaves, and the largest.
std::pair<double, double> error_range(double computed, const Ball& exact) {
  const Real distance = abs(Real(computed) - Real(exact.hi) - Real(exact.lo));
  const Real radius = Real(exact.radius.value());
  const Real least = distance - radius;
  return {least < Real() ? 0.0 : least.to_double(), (distance + radius).to_double()};
}

struct Report {
  std::int64_t checked = 0, violations = 0, infinite = 0;
  std::string first_violation;
  std::vector<double> ratios;  ///< bound / error, where there is an error
  double utilisation = 0.0;

  void add(BoundKind kind, double computed, const Ball& exact, double bound) {
    if (!std::isfinite(computed) || !exact.is_finite()) return;
    ++checked;
    if (!std::isfinite(bound)) {
      ++infinite;
      return;
    }
    const auto [least, largest] = error_range(computed, exact);
    if (!(least <= bound)) {
      if (violations++ == 0) {
        char text[200];
        std::snprintf(text, sizeof text, "%s: computed %a, exact %a, error %.6g, bound %.6g", name_of(kind).data(),
                      computed, exact.hi, least, bound);
        first_violation = text;
      }
    }
    if (least <= 0.0 || largest > 1.001 * least) return;
    ratios.push_back(bound / least);
    utilisation = std::max(utilisation, least / bound);
  }
  Report& operator+=(const Report& other) {
    checked += other.checked;
    violations += other.violations;
    infinite += other.infinite;
    if (first_violation.empty()) first_violation = other.first_violation;
    ratios.insert(ratios.end(), other.ratios.begin(), other.ratios.end());
    utilisation = std::max(utilisation, other.utilisation);
    return *this;
  }
  double median() {
    if (ratios.empty()) return 0.0;
    std::sort(ratios.begin(), ratios.end());
    return ratios[ratios.size() / 2];
  }
};

bool claims_to_hold(const BoundResult& result) {
  return result.guarantee == Guarantee::proven || result.guarantee == Guarantee::conditional;
}

struct Reports {
  Report local, forward;
};

/// The trace of the one sample, in the graph's own shapes.
Trace run_once(const Problem& problem, const ArithmeticModel& arithmetic) {
  std::vector<Shape> given;
  for (const auto& [name, tensor] : problem.inputs.tensors) given.push_back(tensor.shape());
  const std::vector<Shape> shapes = infer_shapes(problem.graph, given);
  Trace trace = cpu_evaluator(arithmetic).run(problem.graph, problem.inputs);
  for (std::size_t node = 0; node < trace.layers.size(); ++node) {
    Tensor<double> output = trace.layers[node].output.to_double();
    output.shape = shapes[problem.graph.nodes[node].output];
    trace.layers[node].output = StoredTensor::from(output);
  }
  return trace;
}

void check_trace(const Problem& problem, const Trace& trace, Reports& reports) {
  BoundOptions options;
  const LayerBounds bounds = bound(problem.graph, trace, options).layers.back();
  const Tensor<Ball> local = local_reference(problem.graph, trace).layers.back();
  const Tensor<Ball> exact = certified_reference(problem.graph, problem.inputs).layers.back();
  const Tensor<double> computed = trace.layers.back().output.to_double();
  REQUIRE(computed.size() == local.size());
  for (std::size_t i = 0; i < computed.size(); ++i) {
    for (const BoundResult& result : bounds.local) {
      if (claims_to_hold(result))
        reports.local.add(result.kind, computed.values[i], local.values[i], result.values.values.at(i));
    }
    for (const BoundResult& result : bounds.accumulated) {
      if (result.kind == BoundKind::forward)
        reports.forward.add(result.kind, computed.values[i], exact.values[i], result.values.values.at(i));
    }
  }
}

Reports check_family(const Family& family, const std::string& arithmetic, const std::vector<SummationOrder>& orders,
                     std::uint64_t seed) {
  Generator generator(seed);
  Reports reports;
  const ElementType type = arithmetic == "fp64" ? ElementType::f64 : ElementType::f32;
  for (const SummationOrder& order : orders) {
    for (const double scale : family.scales) {
      for (const bool is_fine : {false, true}) {
        const Problem problem = draw_problem(family, {scale, is_fine}, type, generator);
        check_trace(problem, run_once(problem, cpu_arithmetic(arithmetic, order)), reports);
      }
    }
  }
  return reports;
}

std::vector<SummationOrder> some_orders() {
  using Kind = SummationOrder::Kind;
  return {{Kind::sequential, 0, false}, {Kind::pairwise, 0, true}, {Kind::blocked, 3, false}};
}

std::vector<Family> all_families() {
  std::vector<Family> all;
  const auto take = [&](std::vector<Family> list, double largest_median) {
    for (Family& family : list) {
      if (family.largest_median == 0.0) family.largest_median = largest_median;
      all.push_back(std::move(family));
    }
  };
  take(primitives(), 5.0);
  take(elementwise(), 25.0);
  take(reductions(), 65.0);
  take(windows(), 60.0);
  take(attention(), 150.0);
  return all;
}

/// Another program's run: its arithmetic declared, its order of sums not.
Reports check_foreign_order(const Family& family, const SummationOrder& order, std::uint64_t seed) {
  Generator generator(seed);
  Reports reports;
  for (const double scale : family.scales) {
    const Problem problem = draw_problem(family, {scale}, ElementType::f32, generator);
    Trace trace = run_once(problem, cpu_arithmetic("fp32", order));
    trace.arithmetic.order = SummationOrder{};
    trace.provenance = foreign_provenance;
    check_trace(problem, trace, reports);
    CHECK(find_bound(bound(problem.graph, trace).layers.back().local, BoundKind::order_aware) == nullptr);
  }
  return reports;
}

/// Rows that stagnate: one large term, the rest half a unit in its last place.
Problem stagnating(const Op& op) {
  Problem problem;
  Tensor<double> x({1, 1, 32});
  for (double& value : x.values) value = 0x1p-24;
  x.values[0] = 1.0;
  const ValueId id = add_fixed_input(problem.graph, "x", ElementType::f32, x.shape);
  problem.inputs.tensors.emplace_back("x", StoredTensor::from(x));
  problem.graph.outputs = {problem.graph.add_node("y", op, {id})};
  return problem;
}

void require_holds(const Report& report) {
  INFO(report.first_violation);
  CHECK(report.checked > 0);
  CHECK(report.violations == 0);
}

void check_arithmetic(const std::string& arithmetic, const std::vector<SummationOrder>& orders,
                      double least_utilisation = 0.01) {
  for (const Family& family : all_families()) {
    CAPTURE(family.name);
    CAPTURE(arithmetic);
    Reports reports;
    for (int i = 0; i < test_multiplier(); ++i) {
      const Reports more = check_family(family, arithmetic, orders, 71 + static_cast<std::uint64_t>(i));
      reports.local += more.local;
      reports.forward += more.forward;
    }
    require_holds(reports.local);
    require_holds(reports.forward);
    CHECK(reports.local.infinite == 0);
    CHECK(reports.forward.infinite == 0);
    CHECK(reports.local.median() <= family.largest_median);
    if (!reports.local.ratios.empty()) CHECK(reports.local.utilisation >= least_utilisation);
  }
}

}  // namespace

TEST_CASE("every composite and new primitive keeps its bounds in float32, in several orders") {
  check_arithmetic("fp32", some_orders(), 0.05);
}

TEST_CASE("every composite and new primitive keeps its bounds where products round their operands" *
          doctest::test_suite("campaign")) {
  check_arithmetic("tf32", {{SummationOrder::Kind::sequential, 0, false}});
  check_arithmetic("bf16", {{SummationOrder::Kind::pairwise, 0, false}});
  check_arithmetic("fp16", {{SummationOrder::Kind::pairwise, 0, false}});
}

TEST_CASE("every composite and new primitive keeps its bounds in float64") {
  check_arithmetic("fp64", {{SummationOrder::Kind::blocked, 4, true}});
}

TEST_CASE("a run of another program in an order unknown lies within the bounds of any order") {
  for (const Family& family : all_families()) {
    CAPTURE(family.name);
    for (const SummationOrder& order : some_orders()) {
      const Reports reports = check_foreign_order(family, order, 81);
      require_holds(reports.local);
      require_holds(reports.forward);
      CHECK(reports.local.infinite == 0);
    }
  }
}

TEST_CASE("sums inside composites that lose every small term come near their bounds") {
  const SummationOrder sequential{SummationOrder::Kind::sequential, 0, false};
  for (const Op& op : {Op(op::ReduceSum{{2}, true}), Op(op::ReduceL1{{2}, true}), Op(op::ReduceMean{{2}, true}),
                       Op(op::GlobalAveragePool{})}) {
    CAPTURE(std::string(name_of(op)));
    const Problem problem = stagnating(op);
    Reports reports;
    check_trace(problem, run_once(problem, cpu_arithmetic("fp32", sequential)), reports);
    require_holds(reports.local);
    CHECK(reports.local.utilisation >= 0.9);
  }
}

TEST_CASE("errors that operands bring along are followed through every composite and new primitive" *
          doctest::test_suite("campaign")) {
  Generator generator(91);
  for (const Family& family : all_families()) {
    CAPTURE(family.name);
    Reports reports;
    for (int i = 0; i < 4 * test_multiplier(); ++i) {
      for (const double scale : family.scales) {
        const Problem problem = draw_problem(family, {scale, i % 2 == 0, true}, ElementType::f32, generator);
        check_trace(problem, run_once(problem, cpu_arithmetic("fp32", some_orders()[0])), reports);
      }
    }
    require_holds(reports.local);
    require_holds(reports.forward);
    CHECK(reports.forward.infinite <= reports.forward.checked / 4);
  }
}

TEST_CASE("operands near underflow, near overflow and of all magnitudes keep every bound" *
          doctest::test_suite("campaign")) {
  Generator generator(92);
  for (const Family& family : all_families()) {
    CAPTURE(family.name);
    for (const char* arithmetic : {"fp32", "bf16"}) {
      CAPTURE(arithmetic);
      Reports reports;
      for (int i = 0; i < test_multiplier(); ++i) {
        for (const double scale : {1e-44, 1e-38, 1e-25, 1e-15, 100.0, 1e10, 1e18, 1e30}) {
          for (const bool is_wide : {false, true}) {
            const Problem problem = draw_problem(family, {scale, false, false, is_wide}, ElementType::f32, generator);
            check_trace(problem, run_once(problem, cpu_arithmetic(arithmetic, some_orders()[generator() % 3])),
                        reports);
          }
        }
      }
      require_holds(reports.local);
      require_holds(reports.forward);
    }
  }
}

TEST_CASE("roundings inside bodies that a bound forgets are noticed") {
  const ScopedTheorems in_force(with_fault([](Theorems& faulty) {
    faulty.unrecorded_rounding = [](Magnitude, const bounds::Machine&) { return Magnitude(); };
  }));
  for (const Family& family : elementwise()) {
    const bool rounds = family.name != "least" && family.name != "largest" && family.name != "sum";
    if (!rounds) continue;
    CAPTURE(family.name);
    Generator generator(93);
    Reports reports;
    for (int i = 0; i < 40; ++i) {
      const Problem problem = draw_problem(family, {1.0}, ElementType::f32, generator);
      check_trace(problem, run_once(problem, cpu_arithmetic("fp32", some_orders()[0])), reports);
    }
    CHECK(reports.local.violations > 0);
  }
}

TEST_CASE("a masked softmax moves as one of the elements that are kept, however large the others are (T-45)") {
  const Tensor<double> x({1, 3}, {200.0, 0.0, 0.5}), mask({1, 3}, {0.0, 1.0, 1.0});
  const auto softmax = [](double a, double b) { return std::exp(a) / (std::exp(a) + std::exp(b)); };
  const Tensor<double> p({1, 3}, {0.0, softmax(0.0, 0.5), softmax(0.5, 0.0)});
  const double moved = softmax(0.1, 0.4) - softmax(0.0, 0.5);
  const std::vector<double> radii(3, 0.1);
  const auto bound_of = [&](const Op& op, const Tensor<double>& kept) {
    Graph graph;
    std::vector<ValueId> operands = {add_fixed_input(graph, "x", ElementType::f64, {1, 3})};
    bounds::NodeView view{nullptr, {&x}, &p};
    std::vector<bounds::Radii> of_operands = {radii};
    if (!kept.values.empty()) {
      operands.push_back(add_fixed_input(graph, "kept", ElementType::boolean, {1, 3}));
      view.inputs.push_back(&kept);
      of_operands.emplace_back();
    }
    graph.outputs = {graph.add_node("p", op, operands)};
    view.node = &graph.nodes.front();
    const std::vector<double> error(3, 1e-15);
    return bounds::propagate(view, of_operands, error, bounds::Setting());
  };
  for (const std::vector<double>& bound :
       {bound_of(op::MaskedSoftmax{-1, {1, 3}, {false, true, true}}, {}), bound_of(op::MaskedSoftmax{}, mask)}) {
    CHECK(bound[0] == 0.0);
    CHECK(bound[1] >= moved);
    CHECK(bound[1] <= 1.5 * moved);
    CHECK(bound[2] >= moved);
  }
  for (const double e : bound_of(op::MaskedSoftmax{-1, {1, 3}, {false, false, false}}, {})) CHECK(std::isinf(e));
}
