#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "support/joint_function_checks.hpp"
#include "support/remainder_checks.hpp"
#include "support/row_checks.hpp"
#include "support/run_checks.hpp"
#include "support/share_checks.hpp"
#include "support/sum_checks.hpp"
#include "support/trajectory_checks.hpp"

// Faults in the bounds by two trajectories: radii, norms, sweeps and refinements (T-60 to T-64, T-70 to T-72, T-96).

namespace checks {
namespace {

auto norm_rule(const std::string& name) {
  return [name]() { return check_norm_rule(name).violations; };
}

auto held(const std::vector<std::string>& blocks) {
  return [blocks]() { return check_held({.blocks = blocks}).violations(); };
}

std::int64_t left_over() {
  return check_remainder_by_norm(200, 92).tally.violations;
}

auto refined(const std::vector<std::string>& blocks) {
  return [blocks]() { return check_held({.blocks = blocks, .refined = true}).violations(); };
}

std::int64_t single_shares() {
  return check_rounded_shares().violations + check_underflowing_shares().violations + check_rounded_slope().violations;
}

/// What float runs do at weights that are computed from constants with errors of many units.
std::int64_t check_computed_weights() {
  return check_blocks({"mul-computed"}, 20, 96).violations();
}

/// x times many constants, added up: d of x is a sum that loses nearly everything but its first term.
std::int64_t check_long_sum_of_shares() {
  constexpr int terms = 64;
  Graph graph;
  const ValueId x = add_fixed_input(graph, "x", ElementType::f64, {1});
  std::vector<ValueId> products;
  Real slope;
  for (int i = 0; i < terms; ++i) {
    const double factor = i + 1 == terms ? 1.0 : 0x1p-53;
    slope += Real(factor);
    const ValueId c = graph.add_constant("c" + std::to_string(i), StoredTensor::from(Tensor<double>({1}, {factor})));
    products.push_back(graph.add_node("p" + std::to_string(i), op::Mul{}, {x, c}));
  }
  ValueId sum = products.front();
  for (int i = 1; i < terms; ++i)
    sum = graph.add_node("s" + std::to_string(i), op::Add{}, {sum, products[static_cast<std::size_t>(i)]});
  graph.outputs = {sum};

  const ArithmeticModel arithmetic = double_arithmetic();
  const bounds::Setting setting = setting_of(arithmetic);
  const Program program(graph, {{1}}, std::nullopt);
  const bounds::Shadow shadow = bounds::shadow_of(program, {Tensor<double>({1}, {0.0})}, setting);
  bounds::OperandCache operands;
  const std::vector<bounds::Deviation> deviations = {
      bounds::deviation_of(bounds::Trajectory::exact, program, shadow, {{1.0}}, setting, operands)};
  const bounds::Direction c = bounds::direction_of(program, shadow, {{program.flat().graph.outputs[0], 0, 1.0}});
  Tally tally;
  tally.add(0.0, slope, bounds::sweep(program, shadow, deviations, c, setting).front().total[0]);
  return tally.violations;
}

/// tanh over [0, 1], whose remainder is that of slope 1, behind an adjoint made with slope 0.
std::int64_t check_other_slopes() {
  Graph graph;
  graph.outputs = {graph.add_node("y", op::Tanh{}, {add_fixed_input(graph, "x", ElementType::f64, {1})})};
  const ArithmeticModel arithmetic = double_arithmetic();
  const bounds::Setting setting = setting_of(arithmetic);
  const Program program(graph, {{1}}, std::nullopt);
  const bounds::Shadow shadow = bounds::shadow_of(program, {Tensor<double>({1}, {0.0})}, setting);
  bounds::OperandCache operands;
  const bounds::Deviation own =
      bounds::deviation_of(bounds::Trajectory::exact, program, shadow, {{1.0}}, setting, operands);
  bounds::Deviation other = own;
  other.slopes[0] = {{0.0}};
  const std::vector<bounds::Deviation> deviations = {other, own};
  const bounds::Direction c = bounds::direction_of(program, shadow, {{program.flat().graph.outputs[0], 0, 1.0}});
  Tally tally;
  tally.add(0.0, Real(1.0).apply(mpfr_tanh), bounds::sweep(program, shadow, deviations, c, setting)[1].total[0]);
  return tally.violations;
}

/// A subnormal operand, read as 0 by a run that flushes.
std::int64_t check_flushed_operand() {
  constexpr double x = 0x1p-130;
  Graph graph;
  const ValueId input = add_fixed_input(graph, "x", ElementType::f32, {1});
  graph.outputs = {graph.add_node("y", op::Relu{}, {input})};
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.flushes_subnormals = true;
  const bounds::Setting setting = setting_of(arithmetic);
  const Program program(graph, {{1}}, std::nullopt);
  const bounds::Shadow shadow = bounds::shadow_of(program, {Tensor<double>({1}, {x})}, setting);
  bounds::OperandCache operands;
  const bounds::Deviation deviation =
      bounds::deviation_of(bounds::Trajectory::any_order, program, shadow, {{}}, setting, operands);
  const std::vector<double>& radius = deviation.radii[program.flat().graph.outputs[0]].element;
  Tally tally;
  tally.add(0.0, Real(x), radius.empty() ? 0.0 : radius[0]);
  return tally.violations;
}

/// A run in double that is the shadow: all of its error is the shadow's own.
std::int64_t check_run_in_double() {
  Generator generator(97);
  std::int64_t violations = 0;
  for (int i = 0; i < 10; ++i) {
    const double a = uniform(generator, 0.5, 1.0), b = uniform(generator, 0.5, 1.0) * 0x1p-20;
    const OneNode one = one_node(op::Add{}, {{{1}, {a}}, {{1}, {b}}}, {{1}, {a + b}},
                                 cpu_arithmetic("fp64", parse_summation_order("pairwise")));
    Tallies tallies;
    tallies.add(bounds_of(one), 0, a + b, Real(a) + Real(b));
    violations += tallies.violations();
  }
  return violations;
}

/// Numbers at the ends of enclosures, single ones and differences of two.
std::int64_t check_distance_from_exact() {
  Generator generator(98);
  std::int64_t violations = 0;
  for (int i = 0; i < 100; ++i) {
    const double mid = uniform(generator, -1.0, 1.0), low = mid * uniform(generator, -0x1p-54, 0x1p-54);
    const double radius = std::ldexp(uniform(generator, 0.5, 1.0), -60 - i / 4);
    const double x = mid * (1.0 + uniform(generator, -0x1p-50, 0x1p-50));
    for (const double y : {0.0, uniform(generator, -1.0, 1.0) * 0x1p-60}) {
      const Ball exact{mid, low, Magnitude(radius)}, computed = exact_ball(x) - exact_ball(y);
      const Real bound(bounds::distance_from_exact(computed, exact).value());
      for (const double end : {-radius, radius}) {
        const Real distance = abs(Real(x) - Real(y) - (Real(mid) + Real(low) + Real(end)));
        violations += distance <= bound ? 0 : 1;
      }
    }
  }
  return violations;
}

/// The largest element of Jacobian times signs, of a softmax with an element as small as p.
std::int64_t check_softmax_slopes() {
  std::int64_t violations = 0;
  for (const double p : {1e-6, 1e-3, 0.1, 0.25}) {
    const Real moved = Real(2.0) * Real(p) * (Real(1.0) - Real(p)) * Real(3.0);
    violations += moved <= Real(bounds::moved_by_softmax_slopes(p, 3.0).value()) ? 0 : 1;
  }
  return violations;
}

std::int64_t check_overflow() {
  Generator generator(98);
  std::int64_t violations = 0;
  for (int i = 0; i < 100; ++i) {
    const double centre = uniform(generator, -65504.0, 65504.0), radius = uniform(generator, 0.0, 65504.0);
    const bool may = Real(65504.0) <= abs(Real(centre)) + Real(radius);
    double limited = radius;
    bounds::row_kernels().limit(&centre, INFINITY, 0.5 * 65504.0, &limited, 1);
    violations += may && std::isfinite(limited) ? 1 : 0;
  }
  return violations;
}

void add_norm_faults(std::vector<BoundFault>& faults) {
  faults.insert(
      faults.end(),
      {{"copies are forgotten in a norm",
        [](Theorems& r) { r.norm_of_copies = [](Magnitude n, std::size_t) { return n; }; }, norm_rule("copies")},
       {"the norm of a function forgets its slope",
        [](Theorems& r) { r.norm_of_function = [](Magnitude, Magnitude n) { return n; }; }, norm_rule("function")},
       {"the norm of a sum is the larger one",
        [](Theorems& r) { r.norm_of_sum = [](Magnitude a, Magnitude b) { return std::max(a, b); }; }, norm_rule("sum")},
       {"the norm of a sum of many is that of its terms",
        [](Theorems& r) { r.norm_of_reduce_sum = [](Magnitude n, std::size_t) { return n; }; },
        norm_rule("reduce_sum")},
       {"the norm of an extremum halves", [](Theorems& r) { r.norm_of_extremum = halved; }, norm_rule("extremum")},
       {"the norm of a softmax halves",
        [](Theorems& r) { r.norm_of_softmax = [](Magnitude n) { return halved(proven::norm_of_softmax(n)); }; },
        norm_rule("softmax")},
       {"the norm of a quotient forgets the divisor",
        [](Theorems& r) { r.norm_of_quotient = [](Magnitude n, double) { return n; }; }, norm_rule("quotient")},
       {"an elementwise product forgets that both factors move",
        [](Theorems& r) {
          r.norm_of_elementwise_product = [](const bounds::ElementwiseFactor& a, const bounds::ElementwiseFactor& b) {
            return proven::norm_of_elementwise_product({a.largest, Magnitude(), a.norm}, b);
          };
        },
        norm_rule("elementwise_product")},
       {"an elementwise product forgets its second factor",
        [](Theorems& r) {
          r.norm_of_elementwise_product = [](const bounds::ElementwiseFactor& a, const bounds::ElementwiseFactor& b) {
            return b.largest * a.norm;
          };
        },
        norm_rule("elementwise_product")},
       {"a selection forgets repetitions",
        [](Theorems& r) {
          r.norm_of_selection = [](std::span<const bounds::SelectedPart> parts) {
            std::vector<bounds::SelectedPart> once(parts.begin(), parts.end());
            for (bounds::SelectedPart& part : once) part.most_uses = 1;
            return proven::norm_of_selection(once);
          };
        },
        norm_rule("selection")},
       {"a selection forgets its last operand",
        [](Theorems& r) {
          r.norm_of_selection = [](std::span<const bounds::SelectedPart> parts) {
            return proven::norm_of_selection(parts.first(parts.size() - 1));
          };
        },
        norm_rule("selection")}});
}

using bounds::MatrixFactor;

BoundFault constant_product_fault(const std::string& name, decltype(&bounds::norm_of_constant_product) rule) {
  return {name, [rule](Theorems& r) { r.norm_of_constant_product = rule; }, norm_rule("constant_product")};
}

void add_product_faults(std::vector<BoundFault>& faults) {
  faults.push_back(constant_product_fault("a product with constants forgets their norm",
                                          [](const MatrixFactor& u, Magnitude, Magnitude radius, std::size_t uses) {
                                            return proven::norm_of_constant_product(u, Magnitude(), radius, uses);
                                          }));
  faults.push_back(
      constant_product_fault("a product with constants forgets that they are rounded",
                             [](const MatrixFactor& u, Magnitude w, Magnitude radius, std::size_t uses) {
                               return proven::norm_of_constant_product({Magnitude(), u.norm}, w, radius, uses);
                             }));
  faults.push_back(constant_product_fault("a product with constants forgets that both factors move",
                                          [](const MatrixFactor& u, Magnitude w, Magnitude radius, std::size_t uses) {
                                            return sqrt_up(Magnitude(static_cast<double>(uses))) *
                                                   (w * u.norm + u.centre * radius);
                                          }));
  faults.push_back(constant_product_fault("a product with constants forgets how often a matrix is used",
                                          [](const MatrixFactor& u, Magnitude w, Magnitude radius, std::size_t) {
                                            return proven::norm_of_constant_product(u, w, radius, 1);
                                          }));
  faults.insert(faults.end(), {{"a product of two values forgets that both move",
                                [](Theorems& r) {
                                  r.norm_of_matrix_product = [](const MatrixFactor& a, const MatrixFactor& b) {
                                    return b.centre * a.norm + a.centre * b.norm;
                                  };
                                },
                                norm_rule("matrix_product")},
                               {"a product of two values forgets its right factor's norm",
                                [](Theorems& r) {
                                  r.norm_of_matrix_product = [](const MatrixFactor& a, const MatrixFactor& b) {
                                    return proven::norm_of_matrix_product(a, {b.centre, Magnitude()});
                                  };
                                },
                                norm_rule("matrix_product")},
                               {"a product forgets its addend",
                                [](Theorems& r) {
                                  r.norm_with_addend = [](double alpha, Magnitude product, double, Magnitude) {
                                    return Magnitude(alpha) * product;
                                  };
                                },
                                norm_rule("with_addend")},
                               {"a product forgets alpha",
                                [](Theorems& r) {
                                  r.norm_with_addend = [](double, Magnitude product, double beta, Magnitude addend) {
                                    return proven::norm_with_addend(1.0, product, beta, addend);
                                  };
                                },
                                norm_rule("with_addend")},
                               {"the norm of a vector forgets its first element",
                                [](Theorems& r) {
                                  r.norm_of_vector = [](std::span<const double> v) {
                                    return proven::norm_of_vector(v.empty() ? v : v.subspan(1));
                                  };
                                },
                                norm_rule("vector")}});
}

void add_composite_norm_faults(std::vector<BoundFault>& faults) {
  using bounds::ShareErrors;
  faults.insert(
      faults.end(),
      {{"a quotient forgets that its divisor moves",
        [](Theorems& r) {
          r.norm_of_moving_quotient = [](Magnitude n, Magnitude, Magnitude, double least) {
            return divide_up(n, least);
          };
        },
        norm_rule("moving_quotient")},
       {"a product of matrices in spectral norms forgets that both move",
        [](Theorems& r) {
          r.norm_of_spectral_product = [](const MatrixFactor& a, std::size_t of_a, const MatrixFactor& b,
                                          std::size_t of_b) {
            return proven::norm_of_copies(b.centre * a.norm, of_a) + proven::norm_of_copies(a.centre * b.norm, of_b);
          };
        },
        norm_rule("spectral_product")},
       {"a product of matrices in spectral norms forgets how often they are used",
        [](Theorems& r) {
          r.norm_of_spectral_product = [](const MatrixFactor& a, std::size_t, const MatrixFactor& b, std::size_t) {
            return proven::norm_of_spectral_product(a, 1, b, 1);
          };
        },
        norm_rule("spectral_product")},
       {"what is left of the mean forgets local errors",
        [](Theorems& r) { r.norm_of_centred = [](Magnitude n, std::size_t, Magnitude, Magnitude) { return n; }; },
        norm_rule("centred")},
       {"what is left of the mean moves by half",
        [](Theorems& r) {
          r.norm_of_centred = [](Magnitude n, std::size_t, Magnitude, Magnitude) { return halved(n); };
        },
        norm_rule("centred_alone")},
       {"a normalisation takes its slope at the centre everywhere",
        [](Theorems& r) { r.norm_of_normalised = [](double, double root, Magnitude n) { return divide_up(n, root); }; },
        norm_rule("normalised")},
       {"a normalisation never turns around",
        [](Theorems& r) {
          r.norm_of_normalised = [](double terms, double root, Magnitude n) {
            return std::min(proven::norm_of_normalised(terms, root, n), sqrt_up(Magnitude(terms)));
          };
        },
        norm_rule("normalised_far")},
       {"the error of a root takes the slope at the root itself",
        [](Theorems& r) {
          r.error_of_root = [](Magnitude h, double root, Magnitude own) { return divide_up(h, 2.0 * root) + own; };
        },
        norm_rule("root_error")},
       {"the error of a root forgets its own rounding",
        [](Theorems& r) {
          r.error_of_root = [](Magnitude h, double root, Magnitude) {
            return proven::error_of_root(h, root, Magnitude());
          };
        },
        norm_rule("root_error")},
       {"a wrong root divides as the right one",
        [](Theorems& r) {
          r.norm_of_wrong_root = [](double terms, double root, Magnitude error) {
            return sqrt_up(Magnitude(terms)) * divide_up(error, root);
          };
        },
        norm_rule("wrong_root")},
       {"a softmax near its centre has the slope of the centre",
        [](Theorems& r) {
          r.norm_of_softmax_near = [](Magnitude n, Magnitude p, Magnitude v, Magnitude) {
            return proven::norm_of_softmax_near(n, p, v, Magnitude());
          };
        },
        norm_rule("softmax_near")},
       {"local errors of shares forget the sum",
        [](Theorems& r) {
          r.norm_of_share_errors = [](const ShareErrors& errors, double least) {
            return proven::norm_of_share_errors({errors.exponents, errors.powers_norm, errors.powers_norm}, least);
          };
        },
        norm_rule("share_errors")},
       {"a sum of powers forgets local errors",
        [](Theorems& r) { r.least_sum_of_powers = [](double least, const ShareErrors&) { return least; }; },
        norm_rule("least_sum_of_powers")},
       {"attention has the slope of the centre",
        [](Theorems& r) { r.norm_of_attended = [](Magnitude spread, Magnitude n, Magnitude) { return spread * n; }; },
        norm_rule("attended")},
       {"attention forgets how values differ",
        [](Theorems& r) {
          r.norm_of_attended = [](Magnitude spread, Magnitude n, Magnitude radius) {
            return halved(proven::norm_of_attended(spread, n, radius));
          };
        },
        norm_rule("attended")}});
}

std::int64_t check_steepest_slopes() {
  std::int64_t violations = 0;
  for (const SlopeCase& subject : slope_cases())
    violations += check_steepest_slope(subject.op, subject.f, 99).violations;
  return violations;
}

/// Numbers just below 0, some of them within reach of it.
std::int64_t check_stays_below_zero() {
  std::int64_t violations = 0;
  for (const double radius : {0.0, 1e-3, 1.0}) {
    for (const double x : {-2.0, -1.0, -0.9999, -5e-4, 0.0, 1e-3}) {
      const std::vector<double> values = {-3.0, x, -3.0};
      const bool reaches = Real() < Real(x) + Real(radius);
      violations += reaches && bounds::stays_below_zero(values, radius) ? 1 : 0;
    }
  }
  return violations;
}

/// What computing in double adds to a row (T-82).
void add_row_norm_faults(std::vector<BoundFault>& faults) {
  faults.insert(
      faults.end(),
      {{"a product in double forgets its addend",
        [](Theorems& r) {
          r.norm_of_product_rounding = [](std::int64_t roundings, Magnitude product, Magnitude) {
            return proven::norm_of_product_rounding(roundings, product, Magnitude());
          };
        },
        norm_rule("product_rounding")},
       {"a product in double rounds once less",
        [](Theorems& r) {
          r.norm_of_product_rounding = [](std::int64_t roundings, Magnitude product, Magnitude addend) {
            return proven::norm_of_product_rounding(roundings - 1, product, addend);
          };
        },
        norm_rule("product_rounding")},
       {"a rounding in double halves",
        [](Theorems& r) {
          r.norm_of_rounding = [](double units, Magnitude norm) {
            return halved(proven::norm_of_rounding(units, norm));
          };
        },
        norm_rule("rounding")},
       {"the steepest slope of a function halves",
        [](Theorems& r) { r.steepest_slope = [](const Op& op) { return halved(proven::steepest_slope(op)); }; },
        check_steepest_slopes},
       {"a neuron counts as off where its shadow is",
        [](Theorems& r) {
          r.stays_below_zero = [](std::span<const double> values, double) {
            return proven::stays_below_zero(values, 0.0);
          };
        },
        check_stays_below_zero}});
}

void add_radius_faults(std::vector<BoundFault>& faults) {
  faults.insert(
      faults.end(),
      {{"an element moves by half the norm",
        [](Theorems& r) {
          r.rows.limit = [](const double* x, double norm, double largest, double* e, std::size_t n) {
            bounds::fastest_row_kernels().limit(x, 0.5 * norm, largest, e, n);
          };
        },
        held({"gemm", "gemm"})},
       {"the norm that is handed on halves",
        [](Theorems& r) { r.norm_of_row = [](double e, double n) { return proven::norm_of_row(e, 0.5 * n); }; },
        held({"gemm", "gemm"})},
       {"sums at a recorded row are taken for those at the centre",
        [](Theorems& r) { r.reach_of_sums = [](double radius, double) { return radius; }; },
        []() { return check_sums_of_recorded_rows().violations; }},
       {"what is read as 0 is not off",
        [](Theorems& r) { r.radius_as_read = [](double radius, Magnitude) { return Magnitude(radius); }; },
        check_flushed_operand},
       {"no run overflows",
        [](Theorems& r) {
          r.rows.limit = [](const double* x, double norm, double, double* e, std::size_t n) {
            bounds::fastest_row_kernels().limit(x, norm, INFINITY, e, n);
          };
        },
        check_overflow},
       {"the radius by an adjoint halves",
        [](Theorems& r) {
          r.refined_radius = [](double e, double adjoint) { return proven::refined_radius(e, 0.5 * adjoint); };
        },
        refined({"gemm", "relu", "gemm", "relu"})},
       {"values that an adjoint stops at add half of what they may",
        [](Theorems& r) {
          r.ahead = [](Magnitude by_norm, Magnitude by_elements, Magnitude defect) {
            return halved(proven::ahead(by_norm, by_elements, defect));
          };
        },
        []() { return check_stopped_radius(stopped_kink()).violations; }},
       {"values that an adjoint of a smooth function stops at add half of what they may",
        [](Theorems& r) {
          r.ahead = [](Magnitude by_norm, Magnitude by_elements, Magnitude defect) {
            return halved(proven::ahead(by_norm, by_elements, defect));
          };
        },
        []() { return check_stopped_radius(stopped_bend()).violations; }},
       {"defects of shares in single precision halve",
        [](Theorems& r) {
          r.single_defect = [](double norm, double largest, std::int64_t n) {
            return 0.5 * proven::single_defect(norm, largest, n);
          };
        },
        single_shares},
       {"the first product of a share in single precision loses nothing",
        [](Theorems& r) {
          r.single_defect = [](double norm, double largest, std::int64_t n) {
            return proven::single_defect(norm, largest, n - 1);
          };
        },
        single_shares},
       {"what underflows in shares in single precision is forgotten",
        [](Theorems& r) {
          r.single_defect = [](double norm, double largest, std::int64_t n) {
            return proven::defect(norm, n << 29, 0) * largest * (1.0 + 0x1p-40);
          };
        },
        single_shares},
       {"slopes are numbers of single precision",
        [](Theorems& r) { r.single_rounding = [](double size) { return 0.5 * proven::single_rounding(size); }; },
        single_shares},
       {"slopes that are left out hand nothing on",
        [](Theorems& r) {
          r.rows.single_charges = [](const bounds::RowCharges& row, float* charged, std::size_t n) {
            bounds::fastest_row_kernels().single_charges({row.added, row.remainder}, charged, n);
          };
        },
        []() { return check_flat_slope().violations; }},
       {"a remainder by the norm of a row halves",
        [](Theorems& all) {
          all.remainder_by_norm = [](std::span<const double> d, const double* r, const double* e, double norm) {
            return halved(proven::remainder_by_norm(d, r, e, norm));
          };
        },
        left_over},
       {"a remainder by the norm of a row leaves out what is beyond the norm",
        [](Theorems& all) {
          all.remainder_by_norm = [](std::span<const double> d, const double* r, const double* e, double norm) {
            double least = HUGE_VAL;
            for (std::size_t i = 0; i < d.size(); ++i)
              if (d[i] != 0.0) least = std::min(least, std::abs(d[i]) * r[i] / (e[i] * e[i]));
            return Magnitude(least) * Magnitude(norm) * Magnitude(norm);
          };
        },
        left_over},
       {"fixed operands of a softmax move it by half",
        [](Theorems& r) {
          r.moved_by_softmax_slopes = [](double p, double e) { return halved(proven::moved_by_softmax_slopes(p, e)); };
        },
        check_softmax_slopes}});
}

void add_sweep_faults(std::vector<BoundFault>& faults) {
  faults.insert(
      faults.end(),
      {{"a weighted sum leaves out its first term",
        [](Theorems& r) {
          r.rows.weighted_sum = [](const double* d, const double* x, std::size_t n) {
            return bounds::fastest_row_kernels().weighted_sum(d + 1, x + 1, n - 1);
          };
        },
        held({"gemm"})},
       {"a weighted sum lets terms cancel",
        [](Theorems& r) {
          r.rows.weighted_sum = [](const double* d, const double* x, std::size_t n) {
            double sum = 0.0;
            for (std::size_t i = 0; i < n; ++i) sum += d[i] * x[i];
            return std::abs(sum);
          };
        },
        held({"gemm"})},
       {"local errors are not charged",
        [](Theorems& r) {
          r.charge = [](Magnitude, Magnitude remainder, Magnitude defect) { return remainder + defect; };
        },
        held({"gemm"})},
       {"remainders are not charged",
        [](Theorems& r) { r.charge = [](Magnitude local, Magnitude, Magnitude defect) { return local + defect; }; },
        held({"gemm", "relu"})},
       {"defects are not charged",
        [](Theorems& r) {
          r.charge = [](Magnitude local, Magnitude remainder, Magnitude) { return local + remainder; };
        },
        check_long_sum_of_shares},
       {"shares of an adjoint are taken to add up exactly",
        [](Theorems& r) {
          r.rows.add_shares = [](double* d, double*, const double* share, const double*, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) d[i] += share[i];
          };
        },
        check_long_sum_of_shares},
       {"remainders of other slopes are charged",
        [](Theorems& r) { r.same_slopes = [](const auto&, const auto&) { return true; }; }, check_other_slopes},
       {"computed weights are taken for exact",
        [](Theorems& r) { r.remainder_with_cut_edges = [](double remainder, double) { return Magnitude(remainder); }; },
        check_computed_weights},
       {"what computed weights move forgets the slope",
        [](Theorems& r) { r.moved_by_slope = [](double, double) { return Magnitude(); }; }, check_computed_weights},
       {"functions of one value forget what their slopes leave over",
        [](Theorems& r) {
          r.joint_rest = [](Magnitude, Magnitude rounding, Magnitude radius) { return rounding * radius; };
        },
        violations_of_joint_functions},
       {"functions of one value forget that their slopes are rounded",
        [](Theorems& r) { r.joint_rest = [](Magnitude residuals, Magnitude, Magnitude) { return residuals; }; },
        []() { return check_rounded_slopes().violations; }},
       {"the shadow is taken for the exact network",
        [](Theorems& r) { r.through_shadow = [](Magnitude from_shadow, double) { return from_shadow; }; },
        check_run_in_double},
       {"an enclosure of the exact network is taken for its midpoint",
        [](Theorems& r) {
          r.distance_from_exact = [](const Ball& computed, const Ball& exact) {
            return proven::distance_from_exact(computed, {exact.hi, exact.lo, Magnitude()});
          };
        },
        check_distance_from_exact}});
}

auto row_rule(const std::string& name) {
  return [name]() { return violations_of_row(bounds::row_kernels(), name); };
}

void halve(double* values, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) values[i] *= 0.5;
}

auto sum_rule(const std::string& name) {
  return [name]() { return violations_of_sums(bounds::sum_kernels(), name); };
}

const bounds::SumKernels& sound_sums() {
  return bounds::fastest_sum_kernels();
}

/// Local bounds of a row that is told wrong.
template <class Change>
auto local_told(Change) {
  return [](Theorems& r) {
    r.sums.local = [](const bounds::RecordedSums& row, const bounds::RowFormat& format,
                      const bounds::LocalErrors& errors, std::size_t n) {
      bounds::RecordedSums other = row;
      Change()(other);
      sound_sums().local(other, format, errors, n);
    };
  };
}

void add_sum_faults(std::vector<BoundFault>& faults) {
  using bounds::OrderedSums;
  using bounds::RecordedSums;
  using bounds::RowErrors;
  using bounds::RowFormat;
  faults.insert(faults.end(),
                {{"local bounds of a row forget its norm",
                  local_told([](RecordedSums& row) { row.squares.scale = 0.0; }), sum_rule("local")},
                 {"local bounds of a row take terms for half of each sign",
                  local_told([](RecordedSums& row) { row.signed_squares.scale = 0.0; }), sum_rule("local")},
                 {"local bounds of a row forget a term", local_told([](RecordedSums& row) { row.nonzero -= 1.0; }),
                  sum_rule("local")},
                 {"local bounds of a row forget the addend",
                  local_told([](RecordedSums& row) { row.addend = nullptr; }), sum_rule("local")},
                 {"local bounds of a row leave less to chance",
                  local_told([](RecordedSums& row) { row.tail_factor *= 0.9; }), sum_rule("local")},
                 {"the running bound of a row forgets what is rounded apart",
                  [](Theorems& r) {
                    r.sums.running = [](const RecordedSums& row, const RowFormat& format, double* places,
                                        std::size_t n) {
                      RecordedSums other = row;
                      other.products = nullptr;
                      sound_sums().running(other, format, places, n);
                    };
                  },
                  sum_rule("running")},
                 {"partial sums of a run are taken for those in double",
                  [](Theorems& r) {
                    r.sums.slack = [](const OrderedSums&, const double*, double* slack, std::size_t n) {
                      std::fill_n(slack, n, 0x1p-1000);
                    };
                  },
                  sum_rule("slack")},
                 {"a row in order forgets what is rounded apart",
                  [](Theorems& r) {
                    r.sums.in_order = [](const OrderedSums& row, const RowFormat& format, const double* places,
                                         const RowErrors& errors, std::size_t n) {
                      OrderedSums other = row;
                      other.products = nullptr;
                      sound_sums().in_order(other, format, places, errors, n);
                    };
                  },
                  sum_rule("in order")},
                 {"the last operation of a row is not counted",
                  [](Theorems& r) {
                    r.sums.ufps = [](const bounds::StepsOfRow<double>& row, const double* b, std::size_t k,
                                     std::size_t panels, double* places) {
                      bounds::StepsOfRow<double> other = row;
                      --other.count;
                      sound_sums().ufps(other, b, k, panels, places);
                    };
                  },
                  sum_rule("first places")},
                 {"the last operation of a row in single precision is not counted",
                  [](Theorems& r) {
                    r.sums.first_places_single = [](const bounds::StepsOfRow<float>& row, const float* b, std::size_t k,
                                                    std::size_t panels, float* places) {
                      bounds::StepsOfRow<float> other = row;
                      --other.count;
                      sound_sums().first_places_single(other, b, k, panels, places);
                    };
                  },
                  sum_rule("first places in single precision")}});
}

void add_row_faults(std::vector<BoundFault>& faults) {
  using bounds::RowErrors;
  using bounds::RowFormat;
  using bounds::SumRow;
  faults.insert(
      faults.end(),
      {{"the largest of a row is its first",
        [](Theorems& r) { r.rows.largest = [](const double* x, std::size_t) { return std::abs(x[0]); }; },
        row_rule("largest")},
       {"the last of a row is not counted",
        [](Theorems& r) {
          r.rows.count_nonzero = [](const double* x, std::size_t n) { return sound().count_nonzero(x, n - 1); };
        },
        row_rule("nonzero")},
       {"a weighted sum in single precision lets terms cancel",
        [](Theorems& r) {
          r.rows.single_weighted_sum = [](const float* d, const float* x, std::size_t n) {
            float sum = 0.0F;
            for (std::size_t i = 0; i < n; ++i) sum += d[i] * x[i];
            return static_cast<double>(std::abs(sum));
          };
        },
        row_rule("weighted sum in single precision")},
       {"squares of single precision leave out the last",
        [](Theorems& r) {
          r.rows.single_squares = [](const float* d, std::size_t n) { return sound().single_squares(d, n - 1); };
        },
        row_rule("squares of single precision")},
       {"products in single precision are smaller than they are",
        [](Theorems& r) {
          r.rows.single_product = [](const float* d, const float* factors, float* result, std::size_t n) {
            return 0.25 * sound().single_product(d, factors, result, n);
          };
        },
        row_rule("products in single precision")},
       {"sums in single precision are smaller than they are",
        [](Theorems& r) {
          r.rows.single_sum = [](const float* more, float* sum, std::size_t n) {
            return 0.25 * sound().single_sum(more, sum, n);
          };
        },
        row_rule("sums in single precision")},
       {"slopes are cut to half of their digits",
        [](Theorems& r) {
          r.rows.leave_flat = [](const double* slopes, const double*, double, float* left, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i)
              left[i] = static_cast<float>(round_to(slopes[i], format(FormatId::bf16), Rounding::toward_zero));
          };
        },
        row_rule("products in single precision")},
       {"charges in single precision round to nearest",
        [](Theorems& r) {
          r.rows.single_charges = [](const bounds::RowCharges& row, float* charged, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) charged[i] = static_cast<float>(row.added[i] + row.remainder[i]);
          };
        },
        row_rule("charges in single precision")},
       {"an operand does not move",
        [](Theorems& r) {
          r.rows.larger_operand = [](const double* x, const double*, double* result, std::size_t n) {
            sound().larger_operand(x, nullptr, result, n);
          };
        },
        row_rule("larger operand")},
       {"single precision rounds to nearest",
        [](Theorems& r) {
          r.rows.coarse = [](const double* x, double scale, float* result, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) result[i] = static_cast<float>(std::abs(x[i]) * scale);
          };
        },
        row_rule("single precision")},
       {"sums in single precision lose nothing", [](Theorems& r) { r.coarse_error = [](std::size_t) { return 0.0; }; },
        []() { return check_coarse_sums().violations; }},
       {"squares in single precision round to nearest",
        [](Theorems& r) {
          r.rows.coarse_squares = [](const double* x, double scale, float* result, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) result[i] = static_cast<float>(x[i] * scale * x[i] * scale);
          };
        },
        row_rule("squares in single precision")},
       {"signed squares in single precision lose their signs",
        [](Theorems& r) {
          r.rows.coarse_signed_squares = [](const double* x, double scale, float* result, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) result[i] = static_cast<float>(x[i] * scale * x[i] * scale);
          };
        },
        row_rule("signed squares in single precision")},
       {"a row moves by what its operands do, and the shadow's error is forgotten",
        [](Theorems& r) {
          r.rows.move = [](const SumRow& row, double* moved, std::size_t n) {
            SumRow exact = row;
            exact.own = nullptr;
            sound().move(exact, moved, n);
          };
        },
        row_rule("move")},
       {"a row in any order forgets its norm",
        [](Theorems& r) {
          r.rows.any_order = [](const SumRow& row, const RowFormat& f, const RowErrors& result, std::size_t n) {
            SumRow other = row;
            other.squares.scale = 0.0;
            sound().any_order(other, f, result, n);
          };
        },
        row_rule("any order")},
       {"a row in any order takes its terms for half of each sign",
        [](Theorems& r) {
          r.rows.any_order = [](const SumRow& row, const RowFormat& f, const RowErrors& result, std::size_t n) {
            SumRow other = row;
            other.signed_squares.scale = 0.0;
            sound().any_order(other, f, result, n);
          };
        },
        row_rule("any order")},
       {"a row in any order has half its terms",
        [](Theorems& r) {
          r.rows.any_order = [](const SumRow& row, const RowFormat& f, const RowErrors& result, std::size_t n) {
            SumRow other = row;
            other.nonzero = std::floor(0.5 * row.nonzero);
            sound().any_order(other, f, result, n);
          };
        },
        row_rule("any order")},
       {"a row in any order forgets what is set apart as small",
        [](Theorems& r) {
          r.rows.any_order = [](const SumRow& row, const RowFormat& f, const RowErrors& result, std::size_t n) {
            SumRow other = row;
            other.small_norm = 0.0;
            sound().any_order(other, f, result, n);
          };
        },
        row_rule("any order")},
       {"a row in any order forgets by how much its operands move together",
        [](Theorems& r) {
          r.rows.any_order = [](const SumRow& row, const RowFormat& f, const RowErrors& result, std::size_t n) {
            SumRow other = row;
            other.radius *= 0.5;
            sound().any_order(other, f, result, n);
          };
        },
        row_rule("any order")},
       {"what is set apart as small halves",
        [](Theorems& r) {
          r.rows.up_to = [](const double* x, double limit, double* result, std::size_t n) {
            sound().up_to(x, limit, result, n);
            halve(result, n);
          };
        },
        row_rule("up to")},
       {"the radii of a Relu halve",
        [](Theorems& r) {
          r.rows.relu = [](const double* x, const double* e, double* s, double* q, double* m, std::size_t n) {
            const bounds::ReluFlags flags = sound().relu(x, e, s, q, m, n);
            halve(m, n);
            return flags;
          };
        },
        row_rule("relu")},
       {"the remainders of a Relu halve",
        [](Theorems& r) {
          r.rows.relu = [](const double* x, const double* e, double* s, double* q, double* m, std::size_t n) {
            const bounds::ReluFlags flags = sound().relu(x, e, s, q, m, n);
            halve(q, n);
            return flags;
          };
        },
        row_rule("relu")},
       {"the remainders of chords are those of kinks at the centre",
        [](Theorems& r) {
          r.rows.relu_chords = [](const double* x, const double* e, double* s, double* q, std::size_t n) {
            const bool any = sound().relu_chords(x, e, s, q, n);
            for (std::size_t i = 0; i < n; ++i) q[i] = std::min(q[i], 0.25 * e[i]);
            return any;
          };
        },
        row_rule("relu chords")},
       {"chords are steeper than their remainders say",
        [](Theorems& r) {
          r.rows.relu_chords = [](const double* x, const double* e, double* s, double* q, std::size_t n) {
            const bool any = sound().relu_chords(x, e, s, q, n);
            for (std::size_t i = 0; i < n; ++i) s[i] = std::min(1.0, 1.01 * s[i]);
            return any;
          };
        },
        row_rule("relu chords")},
       {"the adjoint goes by slopes at the centre where remainders are those of chords",
        [](Theorems& r) {
          r.rows.relu_chords = [](const double* x, const double* e, double* s, double* q, std::size_t n) {
            std::vector<double> slopes(s, s + n);
            return sound().relu_chords(x, e, slopes.data(), q, n);
          };
        },
        refined({"gemm", "relu", "gemm", "relu"})},
       {"a sum of two does not round",
        [](Theorems& r) {
          r.rows.sum = [](const double* y, const double* own, const RowFormat*, const RowErrors& e, std::size_t n) {
            sound().sum(y, own, nullptr, e, n);
          };
        },
        row_rule("sum")},
       {"radii add up to nearest",
        [](Theorems& r) {
          r.rows.add = [](double* sum, const double* more, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) sum[i] += more[i];
          };
        },
        row_rule("add")},
       {"constants are added exactly",
        [](Theorems& r) {
          r.rows.add_constants = [](double* y, double*, const double* c, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) y[i] += c[i];
          };
        },
        row_rule("add constants")},
       {"defects of a product forget what underflows",
        [](Theorems& r) {
          r.rows.outer = [](double scale, double, const double* columns, double* result, std::size_t n) {
            sound().outer(scale, 0.0, columns, result, n);
          };
        },
        row_rule("outer")},
       {"radii are scaled to nearest",
        [](Theorems& r) {
          r.rows.scale = [](const double* e, const double* c, double* result, std::size_t n) {
            for (std::size_t i = 0; i < n; ++i) result[i] = e[i] * std::abs(c[i]);
          };
        },
        row_rule("scale")},
       {"a smooth function does not bend",
        [](Theorems& r) {
          r.rows.smooth = [](const bounds::SmoothRow& row, const RowFormat& f, const RowErrors& e, double* remainder,
                             std::size_t n) {
            bounds::SmoothRow straight = row;
            straight.most_curvature = 0.0;
            sound().smooth(straight, f, e, remainder, n);
          };
        },
        row_rule("smooth")},
       {"a tail bends half as much",
        [](Theorems& r) {
          r.rows.smooth = [](const bounds::SmoothRow& row, const RowFormat& f, const RowErrors& e, double* remainder,
                             std::size_t n) {
            bounds::SmoothRow straighter = row;
            straighter.tail_factor *= 0.5;
            sound().smooth(straighter, f, e, remainder, n);
          };
        },
        row_rule("smooth")},
       {"Gelu in a run takes its last steps alone",
        [](Theorems& r) {
          r.rows.smooth = [](const bounds::SmoothRow& row, const RowFormat& f, const RowErrors& e, double* remainder,
                             std::size_t n) {
            bounds::SmoothRow last = row;
            last.x = nullptr;
            sound().smooth(last, f, e, remainder, n);
          };
        },
        row_rule("smooth")},
       {"a smooth function is as exact in a run as a sum",
        [](Theorems& r) {
          r.rows.smooth = [](const bounds::SmoothRow& row, const RowFormat& f, const RowErrors& e, double* remainder,
                             std::size_t n) {
            bounds::SmoothRow exact = row;
            exact.units = 0.5;
            sound().smooth(exact, f, e, remainder, n);
          };
        },
        row_rule("smooth")}});
}

}  // namespace

std::vector<BoundFault> trajectory_faults() {
  std::vector<BoundFault> faults;
  add_norm_faults(faults);
  add_product_faults(faults);
  add_composite_norm_faults(faults);
  add_row_norm_faults(faults);
  add_radius_faults(faults);
  add_sweep_faults(faults);
  add_row_faults(faults);
  add_sum_faults(faults);
  return faults;
}

}  // namespace checks
