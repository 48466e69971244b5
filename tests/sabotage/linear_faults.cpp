#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "support/linear_checks.hpp"

// Faults in the expansions of T-65 and T-66: remainders, slopes and Lipschitz numbers that are too small or wrong.

namespace checks {
namespace {

using bounds::Linear;
using bounds::LinearExtremum;
using bounds::LinearPair;
using bounds::Point;

/// Violations by the subjects with this name.
auto violations_of(const std::string& name) {
  return [name]() {
    std::int64_t violations = 0;
    for (const LinearCase& c : linear_cases()) {
      if (c.name == name) violations += check_linear_rule(c.subject, 60, 91).violations();
    }
    return violations;
  };
}

/// A rule for one element whose remainder, Lipschitz number or slope is spoilt.
template <bounds::UnaryExpansion Theorems::*Member, bounds::UnaryExpansion Rule>
void add_faults(std::vector<BoundFault>& faults, const std::string& name) {
  const auto check = violations_of(name);
  faults.push_back({"the remainder of " + name + " halves",
                    [](Theorems& r) {
                      r.*Member = [](const Point& p) {
                        const Linear linear = Rule(p);
                        return Linear{linear.slope, halved(linear.remainder), linear.lipschitz};
                      };
                    },
                    check});
  faults.push_back({"the Lipschitz number of " + name + " halves",
                    [](Theorems& r) {
                      r.*Member = [](const Point& p) {
                        const Linear linear = Rule(p);
                        return Linear{linear.slope, linear.remainder, halved(linear.lipschitz)};
                      };
                    },
                    check});
  faults.push_back({"the slope of " + name + " is off by a thousandth",
                    [](Theorems& r) {
                      r.*Member = [](const Point& p) {
                        const Linear linear = Rule(p);
                        return Linear{1.001 * linear.slope, linear.remainder, linear.lipschitz};
                      };
                    },
                    check});
}

/// A rule for a function with jumps that sees none.
template <bounds::UnaryExpansion Theorems::*Member>
BoundFault overlooks_jumps(const std::string& name) {
  return {"the expansion of " + name + " overlooks jumps",
          [](Theorems& r) { r.*Member = [](const Point&) { return Linear{}; }; }, violations_of(name)};
}

template <bounds::BinaryExpansion Theorems::*Member, bounds::BinaryExpansion Rule>
void add_pair_faults(std::vector<BoundFault>& faults, const std::string& name, const RealPairFunction& f) {
  const auto check = [f]() { return check_linear_pair(theorems_in_force().*Member, f, 100, 92).violations; };
  faults.push_back({"the remainder of " + name + " halves",
                    [](Theorems& r) {
                      r.*Member = [](double a, Magnitude ea, double b, Magnitude eb) {
                        const LinearPair pair = Rule(a, ea, b, eb);
                        return LinearPair{pair.slope_a, pair.slope_b, halved(pair.remainder)};
                      };
                    },
                    check});
  faults.push_back({"the slopes of " + name + " change places",
                    [](Theorems& r) {
                      r.*Member = [](double a, Magnitude ea, double b, Magnitude eb) {
                        const LinearPair pair = Rule(a, ea, b, eb);
                        return LinearPair{pair.slope_b, pair.slope_a, pair.remainder};
                      };
                    },
                    check});
}

template <bounds::GroupExpansion Theorems::*Member, bounds::GroupExpansion Rule>
void add_group_faults(std::vector<BoundFault>& faults, const std::string& name,
                      Real (*join)(const Real&, const Real&)) {
  const auto check = [join]() { return check_linear_group(theorems_in_force().*Member, join, 100, 93).violations; };
  faults.push_back({"the remainder of " + name + " halves",
                    [](Theorems& r) {
                      r.*Member = [](std::span<const double> x, std::span<const double> e) {
                        const LinearExtremum extremum = Rule(x, e);
                        return LinearExtremum{extremum.chosen, halved(extremum.remainder)};
                      };
                    },
                    check});
  faults.push_back({name + " follows its first element",
                    [](Theorems& r) {
                      r.*Member = [](std::span<const double> x, std::span<const double> e) {
                        return LinearExtremum{0, Rule(x, e).remainder};
                      };
                    },
                    check});
}

void add_clip_faults(std::vector<BoundFault>& faults) {
  faults.push_back({"the remainder of clip halves",
                    [](Theorems& r) {
                      r.linear_clip = [](const Point& p, double least, double most) {
                        const Linear linear = proven::linear_clip(p, least, most);
                        return Linear{linear.slope, halved(linear.remainder), linear.lipschitz};
                      };
                    },
                    violations_of("clip")});
  faults.push_back({"clip forgets its upper kink",
                    [](Theorems& r) {
                      r.linear_clip = [](const Point& p, double least, double) {
                        return proven::linear_clip(p, least, INFINITY);
                      };
                    },
                    violations_of("clip")});
}

void add_softmax_faults(std::vector<BoundFault>& faults) {
  const auto check = []() { return check_linear_softmax(60, 94).violations; };
  faults.push_back({"the remainder of softmax halves",
                    [](Theorems& r) {
                      r.linear_softmax = [](std::span<const double> p, std::span<const double> p_error,
                                            std::span<const double> e, std::span<double> remainder) {
                        proven::linear_softmax(p, p_error, e, remainder);
                        for (double& value : remainder) value /= 2.0;
                      };
                    },
                    check});
  faults.push_back({"the Jacobian of softmax is taken for exact",
                    [](Theorems& r) {
                      r.linear_softmax = [](std::span<const double> p, std::span<const double>,
                                            std::span<const double> e, std::span<double> remainder) {
                        proven::linear_softmax(p, std::vector<double>(p.size()), e, remainder);
                      };
                    },
                    check});
}

}  // namespace

std::vector<BoundFault> linear_faults() {
  std::vector<BoundFault> faults;
  add_faults<&Theorems::linear_relu, proven::linear_relu>(faults, "relu");
  add_faults<&Theorems::linear_leaky_relu, proven::linear_leaky_relu>(faults, "leaky relu");
  add_faults<&Theorems::linear_elu, proven::linear_elu>(faults, "elu");
  add_faults<&Theorems::linear_tanh, proven::linear_tanh>(faults, "tanh");
  add_faults<&Theorems::linear_sigmoid, proven::linear_sigmoid>(faults, "sigmoid");
  add_faults<&Theorems::linear_softplus, proven::linear_softplus>(faults, "softplus");
  add_faults<&Theorems::linear_sin, proven::linear_sin>(faults, "sin");
  add_faults<&Theorems::linear_cos, proven::linear_cos>(faults, "cos");
  add_faults<&Theorems::linear_exp, proven::linear_exp>(faults, "exp");
  add_faults<&Theorems::linear_erf, proven::linear_erf>(faults, "erf");
  add_faults<&Theorems::linear_sqrt, proven::linear_sqrt>(faults, "sqrt");
  add_faults<&Theorems::linear_abs, proven::linear_abs>(faults, "abs");
  add_faults<&Theorems::linear_reciprocal, proven::linear_reciprocal>(faults, "reciprocal");
  add_faults<&Theorems::linear_log, proven::linear_log>(faults, "log");
  add_faults<&Theorems::linear_tan, proven::linear_tan>(faults, "tan");
  add_faults<&Theorems::linear_atan, proven::linear_atan>(faults, "atan");
  add_faults<&Theorems::linear_sinh, proven::linear_sinh>(faults, "sinh");
  add_faults<&Theorems::linear_cosh, proven::linear_cosh>(faults, "cosh");
  add_faults<&Theorems::linear_power, proven::linear_power>(faults, "cube");
  add_faults<&Theorems::linear_thresholded_relu, proven::linear_thresholded_relu>(faults, "thresholded relu");
  faults.push_back(overlooks_jumps<&Theorems::linear_floor>("floor"));
  faults.push_back(overlooks_jumps<&Theorems::linear_ceil>("ceil"));
  faults.push_back(overlooks_jumps<&Theorems::linear_round>("round"));
  faults.push_back(overlooks_jumps<&Theorems::linear_sign>("sign"));
  add_clip_faults(faults);
  add_pair_faults<&Theorems::linear_product, proven::linear_product>(
      faults, "a product", [](const Real& a, const Real& b) { return a * b; });
  add_pair_faults<&Theorems::linear_quotient, proven::linear_quotient>(
      faults, "a quotient", [](const Real& a, const Real& b) { return a / b; });
  add_pair_faults<&Theorems::linear_max, proven::linear_max>(faults, "a maximum", larger_of);
  add_pair_faults<&Theorems::linear_min, proven::linear_min>(faults, "a minimum", smaller_of);
  add_pair_faults<&Theorems::linear_prelu, proven::linear_prelu>(
      faults, "PRelu", [](const Real& x, const Real& slope) { return x < Real() ? slope * x : x; });
  add_group_faults<&Theorems::linear_reduce_max, proven::linear_reduce_max>(faults, "the maximum of a group",
                                                                            larger_of);
  add_group_faults<&Theorems::linear_reduce_min, proven::linear_reduce_min>(faults, "the minimum of a group",
                                                                            smaller_of);
  add_softmax_faults(faults);
  return faults;
}

}  // namespace checks
