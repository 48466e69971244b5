#pragma once

#include <cstdint>
#include <span>

#include "bounds/adjoint/box_rules.hpp"
#include "bounds/adjoint/defect.hpp"
#include "bounds/adjoint/linear_rules.hpp"
#include "bounds/adjoint/narrow_rules.hpp"
#include "bounds/adjoint/norm_rules.hpp"
#include "bounds/adjoint/sketch_rules.hpp"
#include "bounds/adjoint/trajectory_rules.hpp"
#include "bounds/chance.hpp"
#include "bounds/coarse_product.hpp"
#include "bounds/element_kernels.hpp"
#include "bounds/elementary.hpp"
#include "bounds/functions.hpp"
#include "bounds/machine.hpp"
#include "bounds/matrix.hpp"
#include "bounds/one_sided.hpp"
#include "bounds/propagate.hpp"
#include "bounds/replayed.hpp"
#include "bounds/rounding.hpp"
#include "bounds/row_kernels.hpp"
#include "bounds/running_sums.hpp"
#include "bounds/softmax.hpp"
#include "bounds/spectral_norm.hpp"
#include "bounds/sum_kernels.hpp"
#include "bounds/sums.hpp"
#include "bounds/tensor_core.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/model/composite.hpp"

namespace driftbound::bounds {

/// |w| by which an error is multiplied in a matrix product.
/// Source:    docs/theory.md T-40
inline double product_weight(double w) {
  return Magnitude(w).value();
}

/// Errors of a node's elements: to what its inputs hand on is added what it adds itself.
/// Source:    docs/theory.md T-40
inline void add_local_errors(std::span<const double> local, std::span<double> propagated) {
  add_magnitudes(propagated, local);
}

/// Every theorem that a bound rests on, as a value: tests replace one at a time and must notice
/// (tests/sabotage). The defaults are the theorems.
struct Rules {
  // matrices of bounds in double
  decltype(&bounds::outward) outward = bounds::outward;                    // T-08
  decltype(&bounds::spectral_norm) spectral_norm = bounds::spectral_norm;  // T-63

  // sums
  decltype(&bounds::leaf_count) leaf_count = bounds::leaf_count;                                // T-10
  decltype(&bounds::any_order_factor) any_order_factor = bounds::any_order_factor;              // T-10
  decltype(&bounds::path_lengths) path_lengths = bounds::path_lengths;                          // T-11
  decltype(&bounds::path_factor) path_factor = bounds::path_factor;                             // T-11
  decltype(&bounds::partial_sums_error) partial_sums_error = bounds::partial_sums_error;        // T-68
  decltype(&bounds::one_sided_squares) one_sided_squares = bounds::one_sided_squares;           // T-68
  decltype(&bounds::running_first_places) running_first_places = bounds::running_first_places;  // T-69
  decltype(&bounds::product_first_places) product_first_places = bounds::product_first_places;  // T-69
  decltype(&bounds::running_slack) running_slack = bounds::running_slack;                       // T-69
  decltype(&bounds::underflow_term) underflow_term = bounds::underflow_term;                    // T-12
  decltype(&bounds::with_rounded_parts) with_rounded_parts = bounds::with_rounded_parts;        // T-23
  decltype(&bounds::part_underflow) part_underflow = bounds::part_underflow;                    // T-23
  decltype(&bounds::cannot_overflow) cannot_overflow = bounds::cannot_overflow;                 // T-12
  decltype(&bounds::stays_finite) stays_finite = bounds::stays_finite;                          // T-22

  // rounding errors left to chance
  decltype(&bounds::partial_sums_squares) partial_sums_squares = bounds::partial_sums_squares;  // T-74
  decltype(&bounds::tail_factor) tail_factor = bounds::tail_factor;                             // T-74
  decltype(&bounds::with_chance) with_chance = bounds::with_chance;                             // T-74
  decltype(&bounds::weighted_squares) weighted_squares = bounds::weighted_squares;              // T-74
  decltype(&bounds::elements_alike) elements_alike = bounds::elements_alike;                    // T-74

  // sums of a matrix unit
  decltype(&bounds::block_steps) block_steps = bounds::block_steps;                 // T-21
  decltype(&bounds::alignment_factor) alignment_factor = bounds::alignment_factor;  // T-21
  decltype(&bounds::cutting_factor) cutting_factor = bounds::cutting_factor;        // T-21
  decltype(&bounds::longest_part) longest_part = bounds::longest_part;              // T-21
  decltype(&bounds::alignment_reach) alignment_reach = bounds::alignment_reach;     // T-21
  decltype(&bounds::alignment_term) alignment_term = bounds::alignment_term;        // T-21
  decltype(&bounds::last_cut_error) last_cut_error = bounds::last_cut_error;        // T-21

  // single roundings
  decltype(&bounds::operand_error) operand_error = bounds::operand_error;     // T-13
  decltype(&bounds::may_read_zero) may_read_zero = bounds::may_read_zero;     // T-13
  decltype(&bounds::constant_error) constant_error = bounds::constant_error;  // T-13
  decltype(&bounds::fits) fits = bounds::fits;                                // T-14
  decltype(&bounds::cast_error) cast_error = bounds::cast_error;              // T-14
  decltype(&bounds::storing_error) storing_error = bounds::storing_error;     // T-14
  decltype(&bounds::rounding_error) rounding_error = bounds::rounding_error;  // T-15
  decltype(&bounds::addition_error) addition_error = bounds::addition_error;  // T-15
  decltype(&bounds::inner_rounding) inner_rounding = bounds::inner_rounding;  // T-01

  // what is not recorded
  decltype(&driftbound::composite_bodies) foreign_bodies = driftbound::composite_bodies;                    // T-22
  decltype(&bounds::unrecorded_cast) unrecorded_cast = bounds::unrecorded_cast;                             // T-22
  decltype(&bounds::unrecorded_rounding) unrecorded_rounding = bounds::unrecorded_rounding;                 // T-22
  decltype(&bounds::unrecorded_storing) unrecorded_storing = bounds::unrecorded_storing;                    // T-22
  decltype(&bounds::unrecorded_softmax_error) unrecorded_softmax_error = bounds::unrecorded_softmax_error;  // T-22

  // functions
  decltype(&bounds::allowed_error) allowed_error = bounds::allowed_error;                          // T-16
  decltype(&bounds::function_error) function_error = bounds::function_error;                       // T-16
  decltype(&bounds::foreign_sigmoid_error) foreign_sigmoid_error = bounds::foreign_sigmoid_error;  // T-16
  decltype(&bounds::power_is_covered) power_is_covered = bounds::power_is_covered;                 // T-16
  decltype(&bounds::exp_is_covered) exp_is_covered = bounds::exp_is_covered;                       // T-16
  decltype(&bounds::softmax_error) softmax_error = bounds::softmax_error;                          // T-17
  decltype(&bounds::sum_height) sum_height = bounds::sum_height;                                   // T-17
  decltype(&bounds::leaky_relu_error) leaky_relu_error = bounds::leaky_relu_error;                 // T-18
  decltype(&bounds::elu_error) elu_error = bounds::elu_error;                                      // T-18
  decltype(&bounds::exp_less_one_error) exp_less_one_error = bounds::exp_less_one_error;           // T-18
  decltype(&bounds::foreign_elu_error) foreign_elu_error = bounds::foreign_elu_error;              // T-18

  // propagation
  double (*product_weight)(double) = bounds::product_weight;                        // T-40
  decltype(&bounds::add_local_errors) add_local_errors = bounds::add_local_errors;  // T-40
  using Unary = Magnitude (*)(const Point&);
  Unary identity = propagate_identity;      // T-41
  Unary relu = propagate_relu;              // T-41
  Unary leaky_relu = propagate_leaky_relu;  // T-41
  Unary elu = propagate_elu;                // T-43
  Unary tanh = propagate_tanh;              // T-42
  Unary sigmoid = propagate_sigmoid;        // T-42
  Unary softplus = propagate_softplus;      // T-42
  Unary sin_or_cos = propagate_sin_or_cos;  // T-42
  Unary erf = propagate_erf;                // T-42
  Unary exp = propagate_exp;                // T-43
  Unary sqrt = propagate_sqrt;              // T-43
  using Binary = Magnitude (*)(double, Magnitude, double, Magnitude);
  Binary sum = propagate_sum;                                                 // T-44
  Binary product = propagate_product;                                         // T-44
  Binary quotient = propagate_quotient;                                       // T-44
  decltype(&bounds::propagate_softmax) softmax = propagate_softmax;           // T-45
  Unary log = propagate_log;                                                  // T-46
  Unary tan = propagate_tan;                                                  // T-47
  Unary atan = propagate_atan;                                                // T-47
  Unary sinh = propagate_sinh;                                                // T-48
  Unary cosh = propagate_cosh;                                                // T-48
  Unary power = propagate_power;                                              // T-49
  Unary reciprocal = propagate_reciprocal;                                    // T-44
  Unary absolute = propagate_abs;                                             // T-50
  Unary floor = propagate_floor;                                              // T-50
  Unary ceil = propagate_ceil;                                                // T-50
  Unary sign = propagate_sign;                                                // T-50
  Binary maximum = propagate_max;                                             // T-50
  Binary minimum = propagate_min;                                             // T-50
  Binary greater = propagate_greater;                                         // T-50
  Binary greater_or_equal = propagate_greater_or_equal;                       // T-50
  Binary equal = propagate_equal;                                             // T-50
  decltype(&bounds::decides_choice) decides_choice = bounds::decides_choice;  // T-54
  decltype(&bounds::propagate_choice) choice = propagate_choice;              // T-54
  Unary thresholded_relu = propagate_thresholded_relu;                        // T-52
  Binary prelu = propagate_prelu;                                             // T-52
  using Group = Magnitude (*)(std::span<const double>, std::span<const double>);
  Group reduce_sum = propagate_reduce_sum;  // T-53
  Group reduce_max = propagate_reduce_max;  // T-53
  Group reduce_min = propagate_reduce_min;  // T-53

  // adjoints
  decltype(&bounds::defect) defect = bounds::defect;        // T-64
  LinearRules linear;                                       // T-65, T-66
  NormRules norms;                                          // T-62
  BoxRules box;                                             // T-77
  TrajectoryRules trajectory;                               // T-60 to T-64, T-70 to T-72
  NarrowRules narrow;                                       // T-76
  RowKernels rows = fastest_row_kernels();                  // T-81: the same for rows of numbers
  SumKernels sums = fastest_sum_kernels();                  // T-81: the same for sums of products
  SketchRules sketch;                                       // T-78
  decltype(&bounds::replayed) replayed = bounds::replayed;  // T-97

  // sums in single precision
  decltype(&bounds::single_defect) single_defect = bounds::single_defect;        // T-72
  decltype(&bounds::single_rounding) single_rounding = bounds::single_rounding;  // T-72
  decltype(&bounds::coarse_error) coarse_error = bounds::coarse_error;           // T-81
};

}  // namespace driftbound::bounds
