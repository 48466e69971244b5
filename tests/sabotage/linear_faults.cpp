#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "sabotage/faults.hpp"
#include "support/linear_checks.hpp"

// Faults in the expansions of T-65 and T-66: remainders, slopes and Lipschitz numbers that are too small or wrong.

namespace checks {
namespace {

using bounds::Linear;
using bounds::LinearExtremum;
using bounds::LinearPair;
using bounds::LinearRules;
using bounds::Point;
using bounds::Rules;

Magnitude halved(Magnitude m) {
  return Magnitude(0.5) * m;
}

/// Violations by the subjects with this name.
auto violations_of(const std::string& name) {
  return [name](const Rules& rules) {
    std::int64_t violations = 0;
    for (const LinearCase& c : linear_cases(rules.linear)) {
      if (c.name == name) violations += check_linear_rule(c.subject, 60, 91).violations();
    }
    return violations;
  };
}

/// A rule for one element whose remainder, Lipschitz number or slope is spoilt.
template <LinearRules::Unary LinearRules::*Member, LinearRules::Unary Rule>
void add_faults(std::vector<BoundFault>& faults, const std::string& name) {
  const auto check = violations_of(name);
  faults.push_back({"the remainder of " + name + " halves",
                    [](Rules& r) {
                      r.linear.*Member = [](const Point& p) {
                        const Linear linear = Rule(p);
                        return Linear{linear.slope, halved(linear.remainder), linear.lipschitz};
                      };
                    },
                    check});
  faults.push_back({"the Lipschitz number of " + name + " halves",
                    [](Rules& r) {
                      r.linear.*Member = [](const Point& p) {
                        const Linear linear = Rule(p);
                        return Linear{linear.slope, linear.remainder, halved(linear.lipschitz)};
                      };
                    },
                    check});
  faults.push_back({"the slope of " + name + " is off by a thousandth",
                    [](Rules& r) {
                      r.linear.*Member = [](const Point& p) {
                        const Linear linear = Rule(p);
                        return Linear{1.001 * linear.slope, linear.remainder, linear.lipschitz};
                      };
                    },
                    check});
}

/// A rule for a function with jumps that sees none.
template <LinearRules::Unary LinearRules::*Member>
BoundFault overlooks_jumps(const std::string& name) {
  return {"the expansion of " + name + " overlooks jumps",
          [](Rules& r) { r.linear.*Member = [](const Point&) { return Linear{}; }; }, violations_of(name)};
}

template <LinearRules::Binary LinearRules::*Member, LinearRules::Binary Rule>
void add_pair_faults(std::vector<BoundFault>& faults, const std::string& name, const RealPairFunction& f) {
  const auto check = [f](const Rules& r) { return check_linear_pair(r.linear.*Member, f, 100, 92).violations; };
  faults.push_back({"the remainder of " + name + " halves",
                    [](Rules& r) {
                      r.linear.*Member = [](double a, Magnitude ea, double b, Magnitude eb) {
                        const LinearPair pair = Rule(a, ea, b, eb);
                        return LinearPair{pair.slope_a, pair.slope_b, halved(pair.remainder)};
                      };
                    },
                    check});
  faults.push_back({"the slopes of " + name + " change places",
                    [](Rules& r) {
                      r.linear.*Member = [](double a, Magnitude ea, double b, Magnitude eb) {
                        const LinearPair pair = Rule(a, ea, b, eb);
                        return LinearPair{pair.slope_b, pair.slope_a, pair.remainder};
                      };
                    },
                    check});
}

template <LinearRules::Group LinearRules::*Member, LinearRules::Group Rule>
void add_group_faults(std::vector<BoundFault>& faults, const std::string& name,
                      Real (*join)(const Real&, const Real&)) {
  const auto check = [join](const Rules& r) { return check_linear_group(r.linear.*Member, join, 100, 93).violations; };
  faults.push_back({"the remainder of " + name + " halves",
                    [](Rules& r) {
                      r.linear.*Member = [](std::span<const double> x, std::span<const double> e) {
                        const LinearExtremum extremum = Rule(x, e);
                        return LinearExtremum{extremum.chosen, halved(extremum.remainder)};
                      };
                    },
                    check});
  faults.push_back({name + " follows its first element",
                    [](Rules& r) {
                      r.linear.*Member = [](std::span<const double> x, std::span<const double> e) {
                        return LinearExtremum{0, Rule(x, e).remainder};
                      };
                    },
                    check});
}

void add_clip_faults(std::vector<BoundFault>& faults) {
  faults.push_back({"the remainder of clip halves",
                    [](Rules& r) {
                      r.linear.clip = [](const Point& p, double least, double most) {
                        const Linear linear = bounds::linear_clip(p, least, most);
                        return Linear{linear.slope, halved(linear.remainder), linear.lipschitz};
                      };
                    },
                    violations_of("clip")});
  faults.push_back({"clip forgets its upper kink",
                    [](Rules& r) {
                      r.linear.clip = [](const Point& p, double least, double) {
                        return bounds::linear_clip(p, least, INFINITY);
                      };
                    },
                    violations_of("clip")});
}

void add_softmax_faults(std::vector<BoundFault>& faults) {
  const auto check = [](const Rules& r) { return check_linear_softmax(r.linear, 60, 94).violations; };
  faults.push_back({"the remainder of softmax halves",
                    [](Rules& r) {
                      r.linear.softmax = [](std::span<const double> p, std::span<const double> p_error,
                                            std::span<const double> e, std::span<double> remainder) {
                        bounds::linear_softmax(p, p_error, e, remainder);
                        for (double& value : remainder) value /= 2.0;
                      };
                    },
                    check});
  faults.push_back({"the Jacobian of softmax is taken for exact",
                    [](Rules& r) {
                      r.linear.softmax = [](std::span<const double> p, std::span<const double>,
                                            std::span<const double> e, std::span<double> remainder) {
                        bounds::linear_softmax(p, std::vector<double>(p.size()), e, remainder);
                      };
                    },
                    check});
}

}  // namespace

std::vector<BoundFault> linear_faults() {
  std::vector<BoundFault> faults;
  add_faults<&LinearRules::relu, bounds::linear_relu>(faults, "relu");
  add_faults<&LinearRules::leaky_relu, bounds::linear_leaky_relu>(faults, "leaky relu");
  add_faults<&LinearRules::elu, bounds::linear_elu>(faults, "elu");
  add_faults<&LinearRules::tanh, bounds::linear_tanh>(faults, "tanh");
  add_faults<&LinearRules::sigmoid, bounds::linear_sigmoid>(faults, "sigmoid");
  add_faults<&LinearRules::softplus, bounds::linear_softplus>(faults, "softplus");
  add_faults<&LinearRules::sin, bounds::linear_sin>(faults, "sin");
  add_faults<&LinearRules::cos, bounds::linear_cos>(faults, "cos");
  add_faults<&LinearRules::exp, bounds::linear_exp>(faults, "exp");
  add_faults<&LinearRules::erf, bounds::linear_erf>(faults, "erf");
  add_faults<&LinearRules::sqrt, bounds::linear_sqrt>(faults, "sqrt");
  add_faults<&LinearRules::absolute, bounds::linear_abs>(faults, "abs");
  add_faults<&LinearRules::reciprocal, bounds::linear_reciprocal>(faults, "reciprocal");
  add_faults<&LinearRules::log, bounds::linear_log>(faults, "log");
  add_faults<&LinearRules::tan, bounds::linear_tan>(faults, "tan");
  add_faults<&LinearRules::atan, bounds::linear_atan>(faults, "atan");
  add_faults<&LinearRules::sinh, bounds::linear_sinh>(faults, "sinh");
  add_faults<&LinearRules::cosh, bounds::linear_cosh>(faults, "cosh");
  add_faults<&LinearRules::power, bounds::linear_power>(faults, "cube");
  add_faults<&LinearRules::thresholded_relu, bounds::linear_thresholded_relu>(faults, "thresholded relu");
  faults.push_back(overlooks_jumps<&LinearRules::floor>("floor"));
  faults.push_back(overlooks_jumps<&LinearRules::ceil>("ceil"));
  faults.push_back(overlooks_jumps<&LinearRules::sign>("sign"));
  add_clip_faults(faults);
  add_pair_faults<&LinearRules::product, bounds::linear_product>(faults, "a product",
                                                                 [](const Real& a, const Real& b) { return a * b; });
  add_pair_faults<&LinearRules::quotient, bounds::linear_quotient>(faults, "a quotient",
                                                                   [](const Real& a, const Real& b) { return a / b; });
  add_pair_faults<&LinearRules::maximum, bounds::linear_max>(faults, "a maximum", larger_of);
  add_pair_faults<&LinearRules::minimum, bounds::linear_min>(faults, "a minimum", smaller_of);
  add_pair_faults<&LinearRules::prelu, bounds::linear_prelu>(
      faults, "PRelu", [](const Real& x, const Real& slope) { return x < Real() ? slope * x : x; });
  add_group_faults<&LinearRules::reduce_max, bounds::linear_reduce_max>(faults, "the maximum of a group", larger_of);
  add_group_faults<&LinearRules::reduce_min, bounds::linear_reduce_min>(faults, "the minimum of a group", smaller_of);
  add_softmax_faults(faults);
  return faults;
}

}  // namespace checks
