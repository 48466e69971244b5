#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/gamma.hpp"
#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "sabotage/op_samples.hpp"
#include "support/few_bits.hpp"
#include "support/height_checks.hpp"
#include "support/matrix_unit.hpp"
#include "support/merge_checks.hpp"
#include "support/one_sided_checks.hpp"
#include "support/reduced_reduction.hpp"
#include "support/rule_checks.hpp"
#include "support/small_networks.hpp"
#include "support/transpose_checks.hpp"
#include "support/variance_checks.hpp"

// Deliberate faults, one at a time, in the rules that soundness rests on. A check counts violations: none with
// the theorems, some with the fault.

using namespace checks;
using bounds::FunctionError;
using bounds::Machine;
using bounds::Point;
using proven::propagate_quotient;

namespace {

struct NumberFault {
  std::string name;
  std::function<void(Theorems&)> inject;
  std::function<std::int64_t()> check;
};

constexpr int repetitions = 60;

std::int64_t violations_of_blocks(const std::vector<std::string>& blocks) {
  return check_blocks(blocks, repetitions, 41).violations();
}

/// A cast to float16 makes errors that dwarf what the next op adds: what is left is its propagation.
auto after_cast(const std::string& block) {
  return [block]() { return violations_of_blocks({"cast", block}); };
}

auto block(const std::string& name) {
  return [name]() { return violations_of_blocks({name}); };
}

std::int64_t check_setup(ProductSetup setup) {
  return check_products(setup, 30, 42).violations();
}

std::int64_t check_sequential() {
  ProductSetup setup;
  setup.order = {SummationOrder::Kind::sequential, 0, false};
  return check_setup(setup);
}

std::int64_t check_moments() {
  return check_variances(3000, 1861).violations;
}

std::int64_t check_bias() {
  ProductSetup setup;
  setup.order = {SummationOrder::Kind::sequential, 0, false};
  setup.has_bias = true;
  return check_setup(setup);
}

std::int64_t check_bf16() {
  ProductSetup setup;
  setup.order = {SummationOrder::Kind::sequential, 0, false};
  setup.arithmetic = "bf16";
  return check_setup(setup);
}

std::int64_t violations_of_one(const OneNode& one, double computed, const Real& exact) {
  Tallies tallies;
  tallies.add(bounds_of(one), 0, computed, exact);
  return tallies.violations();
}

/// Toward zero a sum that overflows stays at the largest number, and comes back.
std::int64_t check_saturating_sum() {
  const double largest = format(FormatId::fp32).largest;
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false});
  arithmetic.rounding = Rounding::toward_zero;
  const Tensor<double> a{{1, 3}, {largest, largest, -largest}}, ones{{3, 1}, {1.0, 1.0, 1.0}};
  return violations_of_one(one_node(op::MatMul{}, {a, ones}, {{1, 1}, {0.0}}, arithmetic), 0.0, Real(largest));
}

/// A function that saturates where it would overflow is outside its documented accuracy.
std::int64_t check_saturating_exp() {
  const double largest = format(FormatId::fp32).largest;
  const OneNode one = one_node(op::Exp{}, {{{1}, {89.0}}}, {{1}, {largest}}, float_arithmetic({}));
  return violations_of_one(one, largest, Real(89.0).apply(mpfr_exp));
}

std::int64_t check_saturating_power() {
  const double largest = format(FormatId::fp32).largest;
  const OneNode one = one_node(op::Pow{2.0}, {{{1}, {0x1p65}}}, {{1}, {largest}}, float_arithmetic({}));
  return violations_of_one(one, largest, Real(0x1p130));
}

std::int64_t check_narrow_output() {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.output = FormatId::bf16;
  Generator generator(43);
  std::int64_t violations = 0;
  for (int i = 0; i < repetitions; ++i) {
    const auto x = static_cast<float>(uniform(generator, -1.0, 1.0));
    const auto y = static_cast<double>(naive::as_bf16(-x));
    const OneNode one = one_node(op::Neg{}, {{{1}, {static_cast<double>(x)}}}, {{1}, {y}}, arithmetic);
    violations += violations_of_one(one, y, Real(-static_cast<double>(x)));
  }
  return violations;
}

/// What is subnormal in the target of a cast is 0 where results are flushed.
std::int64_t check_flushing_cast() {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.flushes_subnormals = true;
  const OneNode one = one_node(op::Cast{ElementType::f16}, {{{1}, {0x1p-20}}}, {{1}, {0.0}}, arithmetic);
  return violations_of_one(one, 0.0, Real(0x1p-20));
}

/// A constant of an op that is subnormal may be read as 0 where results are flushed.
std::int64_t check_flushing_constant() {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.flushes_subnormals = true;
  const OneNode one = one_node(op::Clip{1e-37 / 128.0, 1.0}, {{{1}, {-1.0}}}, {{1}, {0.0}}, arithmetic);
  return violations_of_one(one, 0.0, Real(1e-37 / 128.0));
}

/// A scaled product and a scaled bias that cancel: what is left is how both were rounded.
std::int64_t check_cancelling_scales() {
  const float alpha = 0.7f, beta = 0.3f;
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false});
  const op::Gemm gemm{static_cast<double>(alpha), static_cast<double>(beta), false, false};
  Generator generator(60);
  std::int64_t violations = 0;
  for (int i = 0; i < repetitions; ++i) {
    const auto x = static_cast<float>(uniform(generator, 0.5, 1.0));
    const float c = -alpha * x / beta;
    const float scaled = alpha * x, addend = beta * c;
    const double y = static_cast<double>(scaled + addend);
    const Tensor<double> a{{1, 1}, {static_cast<double>(x)}}, one{{1, 1}, {1.0}}, bias{{1}, {static_cast<double>(c)}};
    const Real exact = Real(gemm.alpha) * Real(a.values[0]) + Real(gemm.beta) * Real(bias.values[0]);
    violations += violations_of_one(one_node(gemm, {a, one, bias}, {{1, 1}, {y}}, arithmetic), y, exact);
  }
  return violations;
}

/// Our own runs of an op on numbers from `low` to `high`.
auto composite(const Op& op, double low, double high) {
  return [=]() {
    Generator generator(61);
    Tensor<double> x({500});
    for (double& value : x.values) value = static_cast<double>(static_cast<float>(uniform(generator, low, high)));
    const OpSample sample = sample_of(op, {x});
    return violations_of(bounds_of(sample).layers.back().local, sample, sample.local);
  };
}

/// Scores of an attention whose terms cancel, and whose first partial sum overflows: the weights are 0 and 1, not
/// halves.
std::int64_t check_hidden_overflow() {
  op::Attention attention;
  attention.scale = 1e-36;
  const Tensor<double> q{{1, 1, 1, 4}, {1, 1, 1, 1}}, v{{1, 1, 2, 1}, {1, 0}};
  const Tensor<double> k{{1, 1, 2, 4}, {-0x1p127, -0x1p127, 0x1p127, 0x1p127, 0, 0, 0, 0}};
  const ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, false});
  return violations_of_one(one_node(attention, {q, k, v}, {{1, 1, 1, 1}, {0.0}}, arithmetic), 0.0, Real(0.5));
}

/// 1 / (1 + exp(89)) is 0 in float32.
std::int64_t check_overflow_in_sigmoid() {
  OneNode one = one_node(op::Sigmoid{}, {{{1}, {-89.0}}}, {{1}, {0.0}}, float_arithmetic({}));
  one.trace.provenance = foreign_provenance;
  return violations_of_one(one, 0.0, Real(1.0) / (Real(1.0) + Real(89.0).apply(mpfr_exp)));
}

/// A run of another program: the violations of its own bounds; those of any run suppose an op's first body.
std::int64_t violations_of_others(const Op& op, const std::vector<Tensor<double>>& operands, float y,
                                  const Real& exact) {
  const auto computed = static_cast<double>(y);
  OneNode one = one_node(op, operands, {operands.front().shape, {computed}}, float_arithmetic({}));
  one.trace.provenance = foreign_provenance;
  Tallies tallies;
  tallies.add(bounds_of(one), 0, computed, exact);
  return tallies.componentwise.violations + tallies.order_aware.violations + tallies.forward.violations;
}

/// x a + b of a batch normalisation, x next to the mean.
std::int64_t check_folded_normalisation() {
  Generator generator(62);
  std::int64_t violations = 0;
  for (int i = 0; i < repetitions; ++i) {
    const auto mean = static_cast<float>(uniform(generator, 10.0, 20.0));
    const float x = mean * (1.0F + 0x1p-20F);
    const float a = 0.7F / std::sqrt(3.0F);
    const float y = x * a + (0.0F - mean * a);
    const Tensor<double> scale{{1}, {static_cast<double>(0.7F)}}, zero{{1}, {0.0}};
    const Tensor<double> centre{{1}, {static_cast<double>(mean)}}, variance{{1}, {3.0}};
    const Real exact =
        (Real(static_cast<double>(x)) - Real(centre.values[0])) * Real(scale.values[0]) / Real(3.0).apply(mpfr_sqrt);
    const Tensor<double> operand{{1, 1}, {static_cast<double>(x)}};
    violations += violations_of_others(op::BatchNormalization{0.0}, {operand, scale, zero, centre, variance}, y, exact);
  }
  return violations;
}

/// An Elu, or a Selu where a gamma is given, by exp(x) - 1.
std::int64_t check_exp_less_one(bool is_selu) {
  Generator generator(63);
  std::int64_t violations = 0;
  for (int i = 0; i < repetitions; ++i) {
    const auto x = static_cast<float>(-0x1p-9 * uniform(generator, 0.5, 1.0));
    const float y = std::exp(x) - 1.0F;
    const Op op = is_selu ? Op(op::Selu{1.0, 1.0}) : Op(op::Elu{1.0});
    const Real exact = Real(static_cast<double>(x)).apply(mpfr_expm1);
    violations += violations_of_others(op, {{{1}, {static_cast<double>(x)}}}, y, exact);
  }
  return violations;
}

/// One large term and many that vanish next to it: the whole error is the sum's.
std::int64_t check_stagnating_softmax() {
  constexpr std::size_t n = 64;
  std::vector<double> x(n, static_cast<double>(std::log(0x1.ep-25f)));
  x[0] = 0.0;
  const SummationOrder order{SummationOrder::Kind::sequential, 0, false};
  const Shape shape{1, static_cast<std::int64_t>(n)};
  const Tensor<float> input = convert<float>(Tensor<double>{shape, x});
  const Tensor<float> p = apply<float>(op::Softmax{}, {&input}, shape, order);
  const Tensor<Real> exact_input = convert<Real>(input);
  const Tensor<Real> exact = apply<Real>(op::Softmax{}, {&exact_input}, shape, order);
  const OneNode one = one_node(op::Softmax{}, {convert<double>(input)}, convert<double>(p), float_arithmetic(order));
  const LayerBounds layer = bounds_of(one);
  Tallies tallies;
  for (std::size_t i = 0; i < n; ++i) tallies.add(layer, i, static_cast<double>(p.values[i]), exact.values[i]);
  return tallies.violations();
}

/// Sums of a matrix unit, with its own fraction bits and block declared.
std::int64_t check_matrix_unit(UnitData data, TensorCore unit, bool may_flush = false,
                               FormatId input = FormatId::tf32) {
  MatrixUnit setup;
  setup.input = input;
  setup.built = setup.declared = unit;
  setup.may_flush = may_flush;
  setup.splits_and_pads = setup.may_be_bypassed = false;
  Generator generator(50);
  Tallies tallies;
  for (int i = 0; i < 10; ++i) tallies += check_unit_lengths(setup, data, generator);
  return tallies.violations();
}

auto matrix_unit(UnitData data, bool may_flush = false) {
  return [=]() { return check_matrix_unit(data, TensorCore{24, 4}, may_flush); };
}

/// As measured on Hopper, promoted after every second step.
std::int64_t check_fp8_unit() {
  return check_matrix_unit(UnitData::quanta, {13, 8, 13, 16}, false, FormatId::fp8_e4m3);
}

/// Of sums that keep 13 bits.
std::int64_t check_short_sums() {
  return check_matrix_unit(UnitData::quanta, {25, 4, 13, 0});
}

/// Stagnation in float32 where a matrix unit is declared that would lose less.
std::int64_t check_bypassed_unit() {
  constexpr std::size_t n = 512;
  std::vector<double> a(n, 0x1p-24);
  a[0] = 1.0;
  MatrixUnit unit;
  unit.declared = {25, 16};
  const Tensor<double> ones{{n, 1}, std::vector<double>(n, 1.0)};
  const OneNode one = one_node(op::MatMul{}, {{{1, n}, a}, ones}, {{1, 1}, {1.0}}, unit.arithmetic());
  return violations_of_one(one, 1.0, Real(1.0) + Real(0x1p-24) * Real(n - 1));
}

/// A sum of 2^129 cut to the largest float32, from which a second step takes 3 2^127.
std::int64_t check_overflow_cut_off() {
  MatrixUnit unit;
  unit.saturates = true;
  unit.splits_and_pads = false;
  unit.built = unit.declared = {23, 4};
  const std::vector<double> a = {0x1p127, 0x1p127, 0x1p127, 0x1p127, -0x1p127, -0x1p127, -0x1p127};
  const std::vector<double> ones(a.size(), 1.0);
  Generator generator(50);
  const auto y = static_cast<double>(UnitRun(unit, generator).dot(a, ones));
  const OneNode one = one_node(op::MatMul{}, {{{1, 7}, a}, {{7, 1}, ones}}, {{1, 1}, {y}}, unit.arithmetic());
  return violations_of_one(one, y, Real(0x1p127));
}

/// |WᵀW v|^(1/2) for the unit vector v that three steps from (1, …, 1) lead to: near the norm, and mostly below it.
Magnitude norm_by_power_iteration(const bounds::MatrixView& w, int) {
  std::vector<double> v(static_cast<std::size_t>(w.columns), 1.0);
  double norm = 0.0;
  for (int step = 0; step < 3; ++step) {
    std::vector<double> next(v.size(), 0.0);
    double length = 0.0, next_length = 0.0;
    for (const double x : v) length += x * x;
    for (std::int64_t i = 0; i < w.rows; ++i) {
      const double* row = w.data + i * w.row_stride;
      double product = 0.0;
      for (std::size_t j = 0; j < v.size(); ++j) product += row[j] * v[j];
      for (std::size_t j = 0; j < v.size(); ++j) next[j] += row[j] * product;
    }
    for (const double x : next) next_length += x * x;
    norm = std::sqrt(std::sqrt(next_length / length));
    for (std::size_t j = 0; j < v.size(); ++j) v[j] = next[j] / std::sqrt(next_length);
  }
  return Magnitude(norm);
}

RealFunction of(int (*function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)) {
  return [function](const Real& x) { return x.apply(function); };
}

Real cube(const Real& x) {
  return x * x * x;
}

/// Half of what a rule for one variable says.
template <bounds::UnaryPropagation Theorems::*Member, bounds::UnaryPropagation Rule>
BoundFault halved_unary(const std::string& name, RealFunction f, double low, double high, double alpha = 0.0) {
  return {name + " halves", [](Theorems& r) { r.*Member = [](const Point& p) { return halved(Rule(p)); }; },
          [=]() { return check_unary_rule(theorems_in_force().*Member, f, low, high, alpha, 500, 49).violations; }};
}

Real larger(const Real& a, const Real& b) {
  return a < b ? b : a;
}
Real smaller(const Real& a, const Real& b) {
  return a < b ? a : b;
}

/// Half of what a rule for the groups of a reduction says.
template <bounds::GroupPropagation Theorems::*Member, bounds::GroupPropagation Rule>
BoundFault halved_group(const std::string& name, Real (*join)(const Real&, const Real&)) {
  return {name + " halves",
          [](Theorems& r) {
            r.*Member = [](std::span<const double> x, std::span<const double> e) { return halved(Rule(x, e)); };
          },
          [=]() { return check_group_rule(theorems_in_force().*Member, join, 200, 55).violations; }};
}

std::int64_t check_running() {
  return check_running_sums({SummationOrder::Kind::sequential, 0, true}, 2000, 64).violations;
}

std::int64_t check_running_apart() {
  return check_running_sums({SummationOrder::Kind::sequential, 0, false}, 2000, 64).violations;
}

std::int64_t unrecorded_roundings() {
  return check_unrecorded_roundings(500, 63).violations;
}

std::int64_t check_prelu() {
  return check_binary_rule(
             bounds::propagate_prelu, [](const Real& x, const Real& slope) { return x < Real() ? slope * x : x; }, 200,
             58)
      .violations;
}

/// Pairs of numbers next to which a comparison comes out otherwise, against its rule.
std::int64_t check_comparison(bounds::BinaryPropagation rule, const std::function<bool(double, double)>& holds) {
  Generator generator(59);
  std::int64_t violations = 0;
  for (int i = 0; i < 500; ++i) {
    const double a = uniform(generator, -1.0, 1.0), e = draw_radius(generator);
    const double b = generator() % 4 == 0 ? a : a + uniform(generator, -2.0, 2.0) * e;
    const bool is_undecided = !rule(a, Magnitude(e), b, Magnitude(e)).is_finite();
    const auto check = [&](double s, double t) { violations += holds(s, t) == holds(a, b) || is_undecided ? 0 : 1; };
    for (const double s : {a - e, a, a + e}) {
      for (const double t : {b - e, b, b + e}) check(s, t);
    }
    if (std::abs(a - b) < e) check(b, b);
  }
  return violations;
}

double chosen(double c, double a, double b) {
  return c > 0.5 ? a : b;
}

/// Corners of a box of a condition and two numbers.
std::int64_t check_choice() {
  Generator generator(60);
  std::int64_t violations = 0;
  for (int i = 0; i < 500; ++i) {
    const double c = generator() % 2 == 0 ? 1.0 : 0.0, ec = generator() % 2 == 0 ? 0.25 : 1.0;
    const double a = uniform(generator, -2.0, 2.0), b = uniform(generator, -2.0, 2.0);
    const double ea = draw_radius(generator), eb = draw_radius(generator);
    const bool takes_a = c > 0.5, decides = bounds::decides_choice(c, Magnitude(ec));
    const Magnitude bound = takes_a ? bounds::propagate_choice(decides, a, Magnitude(ea), b, Magnitude(eb))
                                    : bounds::propagate_choice(decides, b, Magnitude(eb), a, Magnitude(ea));
    for (const double of_c : {-1.0, 1.0}) {
      for (const double of_both : {-1.0, 1.0}) {
        const Real moved = chosen(c + of_c * ec, 1.0, 0.0) > 0.5 ? Real(a) + Real(of_both) * Real(ea)
                                                                 : Real(b) + Real(of_both) * Real(eb);
        violations += abs(moved - Real(chosen(c, a, b))) <= Real(bound.value()) ? 0 : 1;
      }
    }
  }
  return violations;
}

/// Points next to which a function with jumps takes another value, against its rule.
std::int64_t check_jumps(bounds::UnaryPropagation rule, const std::function<double(double)>& f) {
  Generator generator(54);
  std::int64_t violations = 0;
  for (int i = 0; i < 500; ++i) {
    const double x = uniform(generator, -3.0, 3.0), e = draw_radius(generator), t = x + uniform(generator, -e, e);
    const double bound = rule(Point{x, Magnitude(e), f(x), Magnitude(), 0.0}).value();
    violations += std::abs(f(t) - f(x)) <= bound ? 0 : 1;
  }
  return violations;
}

}  // namespace

std::vector<BoundFault> checks::bound_faults() {
  return {
      {"sums in double taken for exact",
       [](auto& r) { r.outward = [](double s, std::int64_t, std::int64_t) { return s; }; },
       []() { return check_product_up(500, 44).violations; }},
      {"sums in double rounded inward",
       [](auto& r) {
         r.outward = [](double s, std::int64_t n, std::int64_t) {
           return s * (1.0 - static_cast<double>(n) * 0x1p-53);
         };
       },
       []() { return check_product_up(500, 44).violations; }},
      {"a spectral norm by power iteration", [](auto& r) { r.spectral_norm = norm_by_power_iteration; },
       []() { return check_spectral_norm(100, 62).violations; }},
      {"the bias left out of the leaves",
       [](auto& r) { r.leaf_count = [](std::int64_t products, std::int64_t) { return products; }; }, check_bias},
      {"n - 2 for n",
       [](auto& r) {
         r.any_order_factor = [](std::int64_t n, const Machine& m) { return proven::any_order_factor(n - 2, m); };
       },
       check_sequential},
      {"no roundings of merges",
       [](auto& r) { r.error_of_merges = [](std::int64_t, Magnitude, const Machine&) { return Magnitude(); }; },
       []() { return check_merged_means(40000, 1361).violations; }},
      {"a sum of squares that loses nothing",
       [](auto& r) { r.least_sum = [](double total, std::int64_t, const Machine&) { return total; }; }, check_moments},
      {"squares about a wrong mean, added without a rounding",
       [](auto& r) {
         r.least_squares = [](double spread, std::int64_t, bool, const Machine&) { return spread * spread; };
       },
       check_moments},
      {"merged variances that lose nothing",
       [](auto& r) {
         r.least_merged_squares = [](double spread, Magnitude, std::int64_t, const Machine&) {
           return spread * spread;
         };
       },
       check_moments},
      {"merged variances below the squared range",
       [](auto& r) {
         r.most_merged_squares = [](Magnitude range, std::int64_t, const Machine&) { return range * range; };
       },
       check_moments},
      {"merged means half way among their numbers",
       [](auto& r) {
         r.reach_of_merged_mean = [](double least, double most, double sum, Magnitude radius, std::int64_t count,
                                     const Machine& m) {
           return Magnitude(0.5) * proven::reach_of_merged_mean(least, most, sum, radius, count, m);
         };
       },
       check_moments},
      {"a root that moves upwards only",
       [](auto& r) {
         r.propagate_sqrt_above = [](double x, Magnitude e, double) { return proven::propagate_sqrt_above(x, e, x); };
       },
       []() { return check_known_least(20000, 1862); }},
      {"a common factor that does not move",
       [](auto& r) {
         r.propagate_common_factor = [](double a, Magnitude ea, double b, Magnitude eb, double q, Magnitude) {
           return proven::propagate_common_factor(a, ea, b, eb, q, Magnitude());
         };
       },
       []() { return check_known_least(20000, 1862); }},
      {"a divisor that moves upwards only",
       [](auto& r) {
         r.propagate_quotient_above = [](double a, Magnitude ea, double b, Magnitude eb, double) {
           return proven::propagate_quotient_above(a, ea, b, eb, b);
         };
       },
       []() { return check_known_least(20000, 1862); }},
      {"the folklore's pairwise height for a sequential sum",
       [](auto& r) {
         r.path_lengths = [](const SummationOrder& order, std::span<const char> nonzero, std::span<std::int64_t> d) {
           proven::path_lengths({SummationOrder::Kind::pairwise, 0, order.fma}, nonzero, d);
         };
       },
       check_sequential},
      {"products of a tree of known height taken for exact",
       [](auto& r) {
         r.path_lengths = [](const SummationOrder& order, std::span<const char> nonzero, std::span<std::int64_t> d) {
           proven::path_lengths(order, nonzero, d);
           for (std::int64_t& roundings : d) roundings = std::min(roundings, order.parameter);
         };
       },
       []() { return check_full_tree(6).violations(); }},
      {"half the growth along a path",
       [](auto& r) { r.path_factor = [](std::int64_t d, const Machine& m) { return proven::path_factor(d / 2, m); }; },
       check_sequential},
      {"partial sums a binade too small",
       [](auto& r) {
         r.partial_sums_error = [](const bounds::TermSizes& terms, const Machine& m) {
           return halved(proven::partial_sums_error(terms, m));
         };
       },
       check_sequential},
      {"terms taken for half of each sign",
       [](auto& r) {
         r.one_sided_squares = [](const ProductPlan&, const bounds::SignedSquares&, const bounds::SignedSquares&,
                                  std::span<const double> squares, int) {
           std::vector<double> half(squares.begin(), squares.end());
           for (double& square : half) square *= 0.5;
           return half;
         };
       },
       []() { return check_one_sided(100, 45).violations; }},
      {"half the running sums of a declared order",
       [](auto& r) {
         r.running_ufps = [](const ProductPlan& plan, const bounds::RunningTerms& terms, const SummationOrder& order,
                             bool leave_out_last, int threads) {
           std::vector<double> places = proven::running_ufps(plan, terms, order, leave_out_last, threads);
           for (double& place : places) place /= 2.0;
           return places;
         };
       },
       check_running},
      {"half of what products are rounded to",
       [](auto& r) {
         r.product_ufps = [](const ProductPlan& plan, const bounds::RunningTerms& terms, int threads) {
           std::vector<double> places = proven::product_ufps(plan, terms, threads);
           for (double& place : places) place /= 2.0;
           return places;
         };
       },
       check_running_apart},
      {"running sums taken for those at the centres",
       [](auto& r) { r.running_slack = [](std::int64_t, double, double, double) { return 0x1p-1000; }; },
       check_running},
      {"underflow forgotten",
       [](auto& r) { r.underflow_term = [](std::int64_t, std::int64_t, const Machine&) { return Magnitude(); }; },
       check_sequential},
      {"overflow forgotten",
       [](auto& r) { r.cannot_overflow = [](Magnitude, Magnitude, const Machine&) { return true; }; },
       check_saturating_sum},
      {"overflow inside a composite forgotten",
       [](auto& r) { r.stays_finite = [](Magnitude, Magnitude, const Machine&) { return true; }; },
       check_hidden_overflow},
      {"the overflow of a matrix unit forgotten",
       [](auto& r) { r.cannot_overflow = [](Magnitude, Magnitude, const Machine&) { return true; }; },
       check_overflow_cut_off},
      {"steps of a matrix unit taken for four times as wide",
       [](auto& r) {
         r.block_steps = [](std::int64_t length, std::int64_t products, const TensorCore& unit) {
           return proven::block_steps(length, products, {unit.fraction_bits, 4 * unit.block});
         };
       },
       matrix_unit(UnitData::quanta)},
      {"half of what alignment cuts off",
       [](auto& r) {
         r.alignment_factor = [](std::int64_t n, std::int64_t steps, const Machine& m) {
           return halved(proven::alignment_factor(n, steps, m));
         };
       },
       matrix_unit(UnitData::quanta)},
      {"the cuts of a matrix unit's sums forgotten",
       [](auto& r) { r.cutting_factor = [](std::int64_t, const Machine&) { return Magnitude(); }; },
       matrix_unit(UnitData::quanta)},
      {"sums that keep 13 bits taken for float32",
       [](auto& r) {
         r.cutting_factor = [](std::int64_t steps, const Machine&) {
           return Magnitude(static_cast<double>(std::max<std::int64_t>(steps, 0))) * Magnitude(0x1p-23);
         };
       },
       check_short_sums},
      {"half of what an fp8 unit's alignment cuts off",
       [](auto& r) {
         r.alignment_factor = [](std::int64_t n, std::int64_t steps, const Machine& m) {
           return halved(proven::alignment_factor(n, steps, m));
         };
       },
       check_fp8_unit},
      {"promotion taken for twice as frequent",
       [](auto& r) {
         r.longest_part = [](const bounds::BlockSum& sum, std::int64_t steps, const TensorCore& unit) {
           return proven::longest_part(
               sum, steps, {unit.fraction_bits, unit.block, unit.sum_bits, std::max(unit.promotion / 2, 1)});
         };
       },
       check_fp8_unit},
      {"half of what alignment cuts off a sum that returns to 0",
       [](auto& r) {
         r.alignment_factor = [](std::int64_t n, std::int64_t steps, const Machine& m) {
           return halved(proven::alignment_factor(n, steps, m));
         };
       },
       matrix_unit(UnitData::returning)},
      {"the cuts of a sum that returns to 0 forgotten",
       [](auto& r) { r.cutting_factor = [](std::int64_t, const Machine&) { return Magnitude(); }; },
       matrix_unit(UnitData::returning)},
      {"alignment to zeros forgotten",
       [](auto& r) {
         r.alignment_reach = [](const bounds::LineRange&, const bounds::LineRange&, double) {
           return Magnitude(0x1p-126);
         };
       },
       matrix_unit(UnitData::zero_huge)},
      {"what alignment to zeros cuts off forgotten",
       [](auto& r) {
         r.alignment_term = [](const bounds::BlockSum&, std::int64_t, const Machine&) { return Magnitude(); };
       },
       matrix_unit(UnitData::zero_huge)},
      {"flushing inside a matrix unit forgotten",
       [](auto& r) { r.underflow_term = [](std::int64_t, std::int64_t, const Machine&) { return Magnitude(); }; },
       matrix_unit(UnitData::tiny, true)},
      {"the last cut of a matrix unit forgotten",
       [](auto& r) { r.last_cut_error = [](double, const Machine&) { return Magnitude(); }; },
       matrix_unit(UnitData::quanta)},
      {"a matrix unit that was not used forgotten",
       [](auto& r) { r.any_order_factor = [](std::int64_t, const Machine&) { return Magnitude(); }; },
       check_bypassed_unit},
      {"operands that may be read as 0 taken for kept",
       [](auto& r) { r.may_read_zero = [](double, const Format&, const Machine&) { return false; }; },
       matrix_unit(UnitData::subnormal, true)},
      {"operands taken for exact", [](auto& r) { r.operand_error = [](double, double) { return 0.0; }; }, check_bf16},
      {"a quarter of an ulp for a cast",
       [](auto& r) {
         r.cast_error = [](double y, const Format& f, const Machine& m) { return halved(proven::cast_error(y, f, m)); };
       },
       block("cast")},
      {"flushing in a cast's target forgotten",
       [](auto& r) { r.fits = [](double x, const Format& f, const Machine&) { return representable(x, f); }; },
       check_flushing_cast},
      {"a constant of an op taken for exact",
       [](auto& r) { r.constant_error = [](double, const Machine&) { return Magnitude(); }; }, check_flushing_constant},
      {"flushing of a constant forgotten",
       [](auto& r) {
         r.constant_error = [](double c, const Machine& m) {
           const double used = round_to(c, *m.accumulator, m.rounding);
           return std::isinf(c) ? Magnitude() : Magnitude(proven::operand_error(c, used));
         };
       },
       check_flushing_constant},
      {"roundings between a product and its bias forgotten",
       [](auto& r) { r.inner_rounding = [](Magnitude, const Machine&) { return Magnitude(); }; },
       check_cancelling_scales},
      {"storing in a narrower format forgotten",
       [](auto& r) { r.storing_error = [](double, const Machine&) { return Magnitude(); }; }, check_narrow_output},
      {"a quarter of an ulp for an operation",
       [](auto& r) {
         r.rounding_error = [](double y, const Machine& m) { return halved(proven::rounding_error(y, m)); };
       },
       block("mul")},
      {"operations taken for exact",
       [](auto& r) { r.rounding_error = [](double, const Machine&) { return Magnitude(); }; }, block("mul")},
      {"additions taken for exact",
       [](auto& r) { r.addition_error = [](double, const Machine&) { return Magnitude(); }; }, block("add")},
      {"rounding of parts of a sum forgotten",
       [](auto& r) { r.with_rounded_parts = [](Magnitude factor, const Machine&) { return factor; }; },
       check_reduced_reduction},
      {"underflow of parts of a sum forgotten",
       [](auto& r) { r.part_underflow = [](Magnitude, const Machine&) { return Magnitude(); }; },
       check_underflow_of_parts},
      {"terms of one magnitude taken for independent",
       [](auto& r) { r.with_repeats = [](Magnitude bound, std::int64_t) { return bound; }; },
       []() { return bounds::theorems::with_repeats(Magnitude(1.0), 4).value() < 2.0 ? 1 : 0; }},
      {"as many heads as coins taken for impossible",
       [](auto& r) { r.coin_tail = [](std::int64_t, std::int64_t) { return 0.0; }; },
       []() { return bounds::theorems::coin_tail(10, 10) < 0x1p-10 ? 1 : 0; }},
      {"functions inside a composite taken for exact",
       [](auto& r) { r.allowed_error = [](Magnitude, FunctionError, const Machine&) { return Magnitude(); }; },
       composite(op::Gelu{}, -4.0, -2.0)},
      {"other steps of a composite forgotten",
       [](auto& r) {
         r.foreign_bodies = [](const Op& op, std::span<const Shape> inputs) {
           return std::vector<Graph>{composite_body(op, inputs)};
         };
       },
       check_folded_normalisation},
      {"exp(x) - 1 forgotten",
       [](auto& r) {
         r.foreign_elu_error = [](double x, double y, double alpha, FunctionError expm1, FunctionError,
                                  const Machine& machine) { return proven::elu_error(x, y, alpha, expm1, machine); };
       },
       []() { return check_exp_less_one(false); }},
      {"exp(x) - 1 inside a composite forgotten",
       [](auto& r) { r.exp_less_one_error = [](Magnitude, FunctionError, const Machine&) { return Magnitude(); }; },
       []() { return check_exp_less_one(true); }},
      {"half the units of a function",
       [](auto& r) {
         r.function_error = [](double y, FunctionError accuracy, const Machine& m) {
           return proven::function_error(y, accuracy.units / 2, m);
         };
       },
       block("tanh")},
      {"the overflow inside a sigmoid forgotten",
       [](auto& r) {
         r.foreign_sigmoid_error = [](double, double y, FunctionError accuracy, const Machine& m) {
           return proven::function_error(y, accuracy, m);
         };
       },
       check_overflow_in_sigmoid},
      {"the overflow of exp forgotten", [](auto& r) { r.exp_is_covered = [](double, const Machine&) { return true; }; },
       check_saturating_exp},
      {"the overflow of a power forgotten",
       [](auto& r) { r.power_is_covered = [](double, double, const Machine&) { return true; }; },
       check_saturating_power},
      {"the sum under a softmax taken for exact",
       [](auto& r) { r.sum_height = [](const SummationOrder&, std::int64_t) { return std::int64_t{0}; }; },
       check_stagnating_softmax},
      {"half the error of a softmax",
       [](auto& r) {
         r.softmax_error = [](std::span<const double> x, std::span<const double> p, FunctionError accuracy,
                              Magnitude sum, const Machine& m, std::span<double> result) {
           proven::softmax_error(x, p, accuracy, sum, m, result);
           for (double& value : result) value /= 2.0;
         };
       },
       block("softmax")},
      {"half the error of a cast of what is not recorded",
       [](auto& r) {
         r.unrecorded_cast = [](Magnitude t, const Format& f, const Machine& m) {
           return halved(proven::unrecorded_cast(t, f, m));
         };
       },
       unrecorded_roundings},
      {"roundings of what is not recorded forgotten",
       [](auto& r) { r.unrecorded_rounding = [](Magnitude, const Machine&) { return Magnitude(); }; },
       unrecorded_roundings},
      {"storing what is not recorded taken for exact",
       [](auto& r) { r.unrecorded_storing = [](Magnitude, const Machine&) { return Magnitude(); }; },
       unrecorded_roundings},
      {"an eighth of the error of a softmax that is not recorded",
       [](auto& r) {
         r.unrecorded_softmax_error = [](const bounds::UnrecordedRow& row, FunctionError accuracy, Magnitude sum,
                                         const Machine& m, std::span<double> result) {
           proven::unrecorded_softmax_error(row, accuracy, sum, m, result);
           for (double& value : result) value /= 8.0;
         };
       },
       []() { return check_unrecorded_softmax(300, 62).violations; }},
      {"half the error of LeakyRelu",
       [](auto& r) {
         r.leaky_relu_error = [](double x, double y, double alpha, const Machine& m) {
           return halved(proven::leaky_relu_error(x, y, alpha, m));
         };
       },
       block("leaky-relu")},
      {"half the error of Elu",
       [](auto& r) {
         r.elu_error = [](double x, double y, double alpha, FunctionError accuracy, const Machine& m) {
           return halved(proven::elu_error(x, y, alpha, accuracy, m));
         };
       },
       composite(op::Elu{0.7}, -4.0, -2.0)},
      {"half the weights in a propagation",
       [](auto& r) { r.product_weight = [](double w) { return std::abs(w) / 2.0; }; }, after_cast("matmul")},
      {"a layer's own error left out of forward",
       [](auto& r) { r.add_local_errors = [](std::span<const double>, std::span<double>) {}; }, block("gemm")},
      {"identity halves",
       [](auto& r) { r.propagate_identity = [](const Point& p) { return halved(proven::propagate_identity(p)); }; },
       after_cast("neg")},
      {"Relu halves",
       [](auto& r) {
         r.propagate_relu = [](const Point& p) { return halved(proven::propagate_relu(p)); };
         r.rows.relu = [](const double* x, const double* e, double* slope, double* q, double* moved, std::size_t n) {
           const bounds::ReluFlags flags = proven::row_kernels().relu(x, e, slope, q, moved, n);
           for (std::size_t i = 0; moved != nullptr && i < n; ++i) moved[i] *= 0.5;
           return flags;
         };
       },
       after_cast("relu")},
      {"Relu stops every error at a negative centre",
       [](auto& r) { r.propagate_relu = [](const Point& p) { return p.x < 0.0 ? Magnitude() : p.e; }; },
       []() {
         return check_unary_rule(
                    bounds::propagate_relu, [](const Real& x) { return x < Real() ? Real() : x; }, -1, 1, 0.0, 500, 45)
             .violations;
       }},
      {"LeakyRelu halves",
       [](auto& r) { r.propagate_leaky_relu = [](const Point& p) { return halved(proven::propagate_leaky_relu(p)); }; },
       after_cast("leaky-relu")},
      {"Elu halves", [](auto& r) { r.propagate_elu = [](const Point& p) { return halved(proven::propagate_elu(p)); }; },
       after_cast("elu")},
      {"tanh halves",
       [](auto& r) { r.propagate_tanh = [](const Point& p) { return halved(proven::propagate_tanh(p)); }; },
       after_cast("tanh")},
      {"sigmoid halves",
       [](auto& r) { r.propagate_sigmoid = [](const Point& p) { return halved(proven::propagate_sigmoid(p)); }; },
       after_cast("sigmoid")},
      {"softplus halves",
       [](auto& r) { r.propagate_softplus = [](const Point& p) { return halved(proven::propagate_softplus(p)); }; },
       after_cast("softplus")},
      {"sine halves",
       [](auto& r) { r.propagate_sin_or_cos = [](const Point& p) { return halved(proven::propagate_sin_or_cos(p)); }; },
       after_cast("sin")},
      {"erf halves", [](auto& r) { r.propagate_erf = [](const Point& p) { return halved(proven::propagate_erf(p)); }; },
       after_cast("erf")},
      {"exp halves", [](auto& r) { r.propagate_exp = [](const Point& p) { return halved(proven::propagate_exp(p)); }; },
       after_cast("exp")},
      {"sqrt halves",
       [](auto& r) { r.propagate_sqrt = [](const Point& p) { return halved(proven::propagate_sqrt(p)); }; },
       after_cast("sqrt")},
      {"sums drop their second operand",
       [](auto& r) { r.propagate_sum = [](double, Magnitude, double, Magnitude e) { return e; }; }, after_cast("add")},
      {"products forget one side",
       [](auto& r) { r.propagate_product = [](double a, Magnitude, double, Magnitude e) { return Magnitude(a) * e; }; },
       after_cast("square")},
      {"quotients halve",
       [](auto& r) {
         r.propagate_quotient = [](double a, Magnitude ea, double b, Magnitude eb) {
           return halved(proven::propagate_quotient(a, ea, b, eb));
         };
       },
       []() {
         return check_binary_rule(
                    bounds::propagate_quotient, [](const Real& a, const Real& b) { return a / b; }, 200, 46)
             .violations;
       }},
      {"softmax propagates to first order only, halved",
       [](auto& r) {
         r.propagate_softmax = [](std::span<const double> p, std::span<const double> p_error, std::span<const double> e,
                                  std::span<double> result) {
           proven::propagate_softmax(p, p_error, e, result);
           for (double& value : result) value /= 2.0;
         };
       },
       []() { return check_softmax_rule(50, 47).violations; }},
      halved_unary<&Theorems::propagate_log, proven::propagate_log>("log", of(mpfr_log), 0.0, 10.0),
      halved_unary<&Theorems::propagate_tan, proven::propagate_tan>("tan", of(mpfr_tan), -1.5, 1.5),
      halved_unary<&Theorems::propagate_atan, proven::propagate_atan>("atan", of(mpfr_atan), -20.0, 20.0),
      halved_unary<&Theorems::propagate_sinh, proven::propagate_sinh>("sinh", of(mpfr_sinh), -5.0, 5.0),
      halved_unary<&Theorems::propagate_cosh, proven::propagate_cosh>("cosh", of(mpfr_cosh), -5.0, 5.0),
      halved_unary<&Theorems::propagate_power, proven::propagate_power>("a power", cube, -4.0, 4.0, 3.0),
      halved_unary<&Theorems::propagate_reciprocal, proven::propagate_reciprocal>(
          "the reciprocal", [](const Real& x) { return Real(1.0) / x; }, 0.0, 4.0),
      halved_unary<&Theorems::propagate_abs, proven::propagate_abs>("the absolute value", of(mpfr_abs), -4.0, 4.0),
      {"a logarithm takes the slope at the centre for all slopes",
       [](auto& r) { r.propagate_log = [](const Point& p) { return divide_up(p.e, p.x); }; },
       []() { return check_unary_rule(bounds::propagate_log, of(mpfr_log), 0.0, 10.0, 0.0, 500, 50).violations; }},
      {"a power takes the slope at the centre for all slopes",
       [](auto& r) {
         r.propagate_power = [](const Point& p) { return Magnitude(3.0) * Magnitude(p.x) * Magnitude(p.x) * p.e; };
       },
       []() { return check_unary_rule(bounds::propagate_power, cube, -4.0, 4.0, 3.0, 500, 51).violations; }},
      {"jumps are overlooked: floor", [](auto& r) { r.propagate_floor = [](const Point&) { return Magnitude(); }; },
       []() { return check_jumps(bounds::propagate_floor, [](double x) { return std::floor(x); }); }},
      {"jumps are overlooked: ceil", [](auto& r) { r.propagate_ceil = [](const Point&) { return Magnitude(); }; },
       []() { return check_jumps(bounds::propagate_ceil, [](double x) { return std::ceil(x); }); }},
      {"jumps are overlooked: round", [](auto& r) { r.propagate_round = [](const Point&) { return Magnitude(); }; },
       []() { return check_jumps(bounds::propagate_round, [](double x) { return std::nearbyint(x); }); }},
      {"hidden weights vanish",
       [](auto& r) {
         r.hidden_shares = [](std::span<const double> x, std::span<const double> e) {
           bounds::HiddenShares hidden = proven::hidden_shares(x, e);
           for (Magnitude& share : hidden.largest) share = Magnitude();
           return hidden;
         };
       },
       []() { return check_hidden_shares(60, 49).violations; }},
      {"what hidden elements add to the remainders of others is forgotten",
       [](auto& r) {
         r.remainder_beside_hidden = [](double remainder, double, Magnitude, Magnitude) {
           return Magnitude(remainder);
         };
       },
       []() { return check_hidden_remainders(60, 50).violations; }},
      {"hidden elements have no remainder",
       [](auto& r) { r.remainder_of_hidden = [](Magnitude, double, double, Magnitude) { return Magnitude(); }; },
       []() { return check_hidden_remainders(60, 51).violations; }},
      {"jumps are overlooked: sign", [](auto& r) { r.propagate_sign = [](const Point&) { return Magnitude(); }; },
       []() {
         return check_jumps(bounds::propagate_sign,
                            [](double x) { return static_cast<double>((x > 0.0) - (x < 0.0)); });
       }},
      {"jumps are overlooked: >",
       [](auto& r) { r.propagate_greater = [](double, Magnitude, double, Magnitude) { return Magnitude(); }; },
       []() { return check_comparison(bounds::propagate_greater, [](double a, double b) { return a > b; }); }},
      {"the second operand of > is taken for exact",
       [](auto& r) {
         r.propagate_greater = [](double a, Magnitude ea, double b, Magnitude) {
           return proven::propagate_greater(a, ea, b, Magnitude());
         };
       },
       []() { return check_comparison(bounds::propagate_greater, [](double a, double b) { return a > b; }); }},
      {"jumps are overlooked: >=",
       [](auto& r) { r.propagate_greater_or_equal = [](double, Magnitude, double, Magnitude) { return Magnitude(); }; },
       []() {
         return check_comparison(bounds::propagate_greater_or_equal, [](double a, double b) { return a >= b; });
       }},
      {"= is certain where the numbers seen are equal",
       [](auto& r) {
         r.propagate_equal = [](double a, Magnitude ea, double b, Magnitude eb) {
           return a == b ? Magnitude() : proven::propagate_equal(a, ea, b, eb);
         };
       },
       []() { return check_comparison(bounds::propagate_equal, [](double a, double b) { return a == b; }); }},
      {"= is certain where the numbers seen differ",
       [](auto& r) {
         r.propagate_equal = [](double a, Magnitude ea, double b, Magnitude eb) {
           return a != b ? Magnitude() : proven::propagate_equal(a, ea, b, eb);
         };
       },
       []() { return check_comparison(bounds::propagate_equal, [](double a, double b) { return a == b; }); }},
      {"a condition is always certain", [](auto& r) { r.decides_choice = [](double, Magnitude) { return true; }; },
       check_choice},
      {"an undecided choice moves as the operand it takes",
       [](auto& r) { r.propagate_choice = [](bool, double, Magnitude e, double, Magnitude) { return e; }; },
       check_choice},
      {"an undecided choice moves as far as its operands lie apart",
       [](auto& r) {
         r.propagate_choice = [](bool decides, double taken, Magnitude e_taken, double other, Magnitude) {
           return proven::propagate_choice(decides, taken, e_taken, other, Magnitude());
         };
       },
       check_choice},
      {"a decided choice halves",
       [](auto& r) {
         r.propagate_choice = [](bool decides, double taken, Magnitude e_taken, double other, Magnitude e_other) {
           return decides ? halved(e_taken) : proven::propagate_choice(decides, taken, e_taken, other, e_other);
         };
       },
       check_choice},
      {"a maximum moves as its larger operand",
       [](auto& r) {
         r.propagate_max = [](double a, Magnitude ea, double b, Magnitude eb) { return a < b ? eb : ea; };
       },
       []() { return check_binary_rule(bounds::propagate_max, larger, 200, 52).violations; }},
      {"a maximum halves",
       [](auto& r) {
         r.propagate_max = [](double a, Magnitude ea, double b, Magnitude eb) {
           return halved(proven::propagate_max(a, ea, b, eb));
         };
       },
       []() { return check_binary_rule(bounds::propagate_max, larger, 200, 52).violations; }},
      {"a minimum halves",
       [](auto& r) {
         r.propagate_min = [](double a, Magnitude ea, double b, Magnitude eb) {
           return halved(proven::propagate_min(a, ea, b, eb));
         };
       },
       []() { return check_binary_rule(bounds::propagate_min, smaller, 200, 53).violations; }},
      {"a minimum moves as its smaller operand",
       [](auto& r) {
         r.propagate_min = [](double a, Magnitude ea, double b, Magnitude eb) { return a < b ? ea : eb; };
       },
       []() { return check_binary_rule(bounds::propagate_min, smaller, 200, 53).violations; }},
      halved_group<&Theorems::propagate_reduce_sum, proven::propagate_reduce_sum>(
          "a sum of a group", [](const Real& a, const Real& b) { return a + b; }),
      halved_group<&Theorems::propagate_reduce_max, proven::propagate_reduce_max>("a maximum of a group", larger),
      halved_group<&Theorems::propagate_reduce_min, proven::propagate_reduce_min>("a minimum of a group", smaller),
      {"a maximum of a group moves as the term that is largest at the centre",
       [](auto& r) {
         r.propagate_reduce_max = [](std::span<const double> x, std::span<const double> e) {
           return Magnitude(e[static_cast<std::size_t>(std::max_element(x.begin(), x.end()) - x.begin())]);
         };
       },
       []() { return check_group_rule(bounds::propagate_reduce_max, larger, 200, 56).violations; }},
      {"defects of transposed products halve",
       [](auto& r) {
         r.defect = [](double size, std::int64_t n, std::int64_t products) {
           return 0.5 * proven::defect(size, n, products);
         };
       },
       []() { return check_transposes(3, 62).violations; }},
      {"one rounding of every transposed product forgotten",
       [](auto& r) {
         r.defect = [](double size, std::int64_t n, std::int64_t products) {
           return proven::defect(size, n - 1, products);
         };
       },
       []() { return check_transposes(3, 63).violations; }},
      {"PRelu forgets its slope's error",
       [](auto& r) {
         r.propagate_prelu = [](double x, Magnitude ex, double slope, Magnitude) {
           return proven::propagate_prelu(x, ex, slope, Magnitude());
         };
       },
       check_prelu},
      {"PRelu halves",
       [](auto& r) {
         r.propagate_prelu = [](double x, Magnitude ex, double slope, Magnitude e) {
           return halved(proven::propagate_prelu(x, ex, slope, e));
         };
       },
       check_prelu},
      halved_unary<&Theorems::propagate_thresholded_relu, proven::propagate_thresholded_relu>(
          "ThresholdedRelu", [](const Real& x) { return x <= Real(0.5) ? Real() : x; }, -2.0, 2.0, 0.5),
      {"the jump of ThresholdedRelu is overlooked",
       [](auto& r) { r.propagate_thresholded_relu = [](const Point& p) { return p.e; }; },
       []() {
         return check_unary_rule(
                    bounds::propagate_thresholded_relu, [](const Real& x) { return x <= Real(0.5) ? Real() : x; }, -2.0,
                    2.0, 0.5, 500, 57)
             .violations;
       }},
  };
}

namespace {

/// bf16 values half way between two neighbours.
std::int64_t check_ties() {
  std::int64_t violations = 0;
  for (std::uint32_t high = 0x3f80; high < 0x3fc0; ++high) {
    const auto tie = std::bit_cast<float>((high << 16) | 0x8000u);
    const double rounded = round_to(static_cast<double>(tie), format(FormatId::bf16), Rounding::nearest_even);
    violations += rounded == static_cast<double>(naive::as_bf16(tie)) ? 0 : 1;
  }
  return violations;
}

std::int64_t check_upward() {
  Generator generator(48);
  std::int64_t violations = 0;
  for (int i = 0; i < 500; ++i) {
    const double a = uniform(generator, 0.5, 1.0), b = uniform(generator, 0.5, 1.0) * 0x1p-20;
    violations += Real(a) + Real(b) <= Real(add_up(a, b)) ? 0 : 1;
    violations += Real(a) * Real(b) <= Real(mul_up(a, b)) ? 0 : 1;
  }
  return violations;
}

std::int64_t check_downward() {
  Generator generator(49);
  std::int64_t violations = 0;
  for (int i = 0; i < 500; ++i) {
    const double a = uniform(generator, 0.5, 1.0), b = uniform(generator, 0.5, 1.0) * 0x1p-20;
    violations += Real(sub_down(a, b)) <= Real(a) - Real(b) ? 0 : 1;
    violations += Real(div_down(a, b)) <= Real(a) / Real(b) ? 0 : 1;
  }
  return violations;
}

/// gamma_n = n u / (1 - n u), and the growth of a sum whose every addition loses half a unit.
std::int64_t check_counted_roundings() {
  std::int64_t violations = check_sequential();
  for (std::int64_t n = 1; n <= 100; ++n) {
    const Real nu = Real(static_cast<double>(n)) * Real(0x1p-24);
    violations += nu / (Real(1.0) - nu) <= Real(gamma(n, 0x1p-24).value()) ? 0 : 1;
  }
  return violations;
}

std::vector<BoundFault> number_faults() {
  return {
      {"ties away from zero", [](auto& r) { r.tie_goes_away = [](bool, Rounding) { return true; }; }, check_ties},
      {"ties toward zero", [](auto& r) { r.tie_goes_away = [](bool, Rounding) { return false; }; }, check_ties},
      {"upward rounding steps inward", [](auto& r) { r.step_up = [](double x) { return next_down(x); }; },
       check_upward},
      {"upward rounding does not step", [](auto& r) { r.step_up = [](double x) { return x; }; }, check_upward},
      {"downward rounding steps inward", [](auto& r) { r.step_down = [](double x) { return next_up(x); }; },
       check_downward},
      {"gamma counts n - 2 roundings",
       [](auto& r) { r.counted_roundings = [](std::int64_t n) { return n > 2 ? n - 2 : 0; }; },
       check_counted_roundings},
  };
}

std::vector<BoundFault> all_faults() {
  std::vector<BoundFault> all = bound_faults();
  for (auto* const more :
       {linear_faults, trajectory_faults, box_faults, narrow_faults, replay_faults, chance_faults, number_faults})
    for (BoundFault& fault : more()) all.push_back(std::move(fault));
  return all;
}

}  // namespace

TEST_CASE("every fault is caught, by a check that passes without it") {
  for (const BoundFault& fault : all_faults()) {
    CAPTURE(fault.name);
    CHECK(fault.check() == 0);
    const ScopedTheorems in_force(with_fault(fault.inject));
    CHECK(fault.check() > 0);
  }
}

TEST_CASE("there is a fault in every theorem of bounds and num") {
  std::vector<Theorems> faulty;
  for (const BoundFault& fault : all_faults()) faulty.push_back(with_fault(fault.inject));
  CHECK(same_in_all_of_bounds(faulty) == std::vector<std::string>());
  CHECK(same_in_all_of_num(faulty) == std::vector<std::string>());
}
