#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/interval.hpp"
#include "driftbound/num/magnitude.hpp"

// What is known of every function f of one element, once: a specialisation of OpTraits per function. A function without
// one does not compile. Numbers are upper bounds unless their name says otherwise.

namespace driftbound::bounds {

/// How a program computes a function of one element.
enum class Evaluation {
  copied,   ///< the result is the operand, its negative, or a constant: nothing is rounded but the storing of it
  rounded,  ///< one operation of IEEE 754
  called,   ///< one call of a function, whose accuracy the arithmetic states
  special   ///< several of those: bounds have a rule for it alone
};

/// What holds of a function that says nothing else of itself.
struct AnyFunction {
  static constexpr std::string_view accuracy = "";  ///< the arithmetic's entry for the function that is called
  static constexpr Evaluation evaluation = Evaluation::called;
  static constexpr std::array<std::string_view, 1> local = {"T-16"};  ///< theorems of one application's rounding
  /// Whether f is a straight line on either side of each kink or jump.
  static constexpr bool is_piecewise_linear = false;
  /// sup |f'|
  template <class F>
  static Magnitude steepest(const F&) {
    return Magnitude::infinite();
  }
  /// The smallest and the largest value, where both are finite.
  template <class F>
  static std::optional<std::pair<double, double>> range(const F&) {
    return std::nullopt;
  }
};

/// As AnyFunction; and
///   propagation: the theorem of how far f moves when its operand does
///   slope(f, x): encloses (f(s) - f(t)) / (s - t) for all s, t in x; the whole line where f may jump or be undefined
template <class F>
struct OpTraits;

namespace of_functions {

inline constexpr std::array<std::string_view, 1> storing = {"T-15"};

struct PiecewiseLinear : AnyFunction {
  static constexpr bool is_piecewise_linear = true;
};

struct Copied : PiecewiseLinear {
  static constexpr Evaluation evaluation = Evaluation::copied;
  static constexpr std::array<std::string_view, 1> local = storing;
};

template <int most>
struct Steepest : AnyFunction {
  static Magnitude steepest(const auto&) { return Magnitude(most); }
};

/// `below` left of the kink, `above` right of it and at it.
inline Interval kinked(const Interval& x, double kink, double below, double above) {
  if (x.lower() >= kink) return above;
  if (x.upper() <= kink) return below;
  return hull(below, above);
}

/// A constant, or a jump.
inline Interval jumping(bool is_constant) {
  return is_constant ? Interval(0.0) : Interval::whole();
}

inline Interval square(const Interval& x) {
  const Interval magnitude = abs(x);
  return magnitude * magnitude;
}

inline Interval positive_part(const Interval& x) {
  return max(x, Interval(0.0));
}
inline Interval negative_part(const Interval& x) {
  return min(x, Interval(0.0));
}

/// The whole line where x may be 0 or less.
inline Interval where_positive(const Interval& x, const Interval& slope) {
  return x.lower() > 0.0 ? slope : Interval::whole();
}

}  // namespace of_functions

// ---- functions that are pieces of straight lines

template <>
struct OpTraits<op::Neg> : of_functions::Copied {
  static constexpr std::string_view propagation = "T-41";
  static Magnitude steepest(const op::Neg&) { return Magnitude(1.0); }
  static Interval slope(const op::Neg&, const Interval&) { return -1.0; }
};

template <>
struct OpTraits<op::Cast> : of_functions::PiecewiseLinear {
  static constexpr Evaluation evaluation = Evaluation::special;
  static constexpr std::array<std::string_view, 1> local = {"T-14"};
  static constexpr std::string_view propagation = "T-41";
  static Magnitude steepest(const op::Cast&) { return Magnitude(1.0); }
  static Interval slope(const op::Cast&, const Interval&) { return 1.0; }
};

template <>
struct OpTraits<op::Relu> : of_functions::Copied {
  static constexpr std::string_view propagation = "T-41";
  static Magnitude steepest(const op::Relu&) { return Magnitude(1.0); }
  static Interval slope(const op::Relu&, const Interval& x) { return of_functions::kinked(x, 0.0, 0.0, 1.0); }
};

template <>
struct OpTraits<op::LeakyRelu> : of_functions::PiecewiseLinear {
  static constexpr Evaluation evaluation = Evaluation::special;
  static constexpr std::array<std::string_view, 1> local = {"T-18"};
  static constexpr std::string_view propagation = "T-41";
  static Magnitude steepest(const op::LeakyRelu& f) { return std::max(Magnitude(1.0), Magnitude(f.alpha)); }
  static Interval slope(const op::LeakyRelu& f, const Interval& x) {
    return of_functions::kinked(x, 0.0, f.alpha, 1.0);
  }
};

template <>
struct OpTraits<op::Abs> : of_functions::Copied {
  static constexpr std::string_view propagation = "T-50";
  static Magnitude steepest(const op::Abs&) { return Magnitude(1.0); }
  static Interval slope(const op::Abs&, const Interval& x) { return of_functions::kinked(x, 0.0, -1.0, 1.0); }
};

template <>
struct OpTraits<op::Clip> : of_functions::PiecewiseLinear {
  static constexpr Evaluation evaluation = Evaluation::special;
  static constexpr std::array<std::string_view, 1> local = of_functions::storing;
  static constexpr std::string_view propagation = "T-41";
  static Magnitude steepest(const op::Clip&) { return Magnitude(1.0); }
  static std::optional<std::pair<double, double>> range(const op::Clip& f) {
    if (!std::isfinite(f.least) || !std::isfinite(f.most) || f.least > f.most) return std::nullopt;
    return {{f.least, f.most}};
  }
  static Interval slope(const op::Clip& f, const Interval& x) {
    if (!(f.least < f.most) || x.upper() <= f.least || x.lower() >= f.most) return 0.0;
    return x.lower() >= f.least && x.upper() <= f.most ? Interval(1.0) : Interval(0.0, 1.0);
  }
};

template <>
struct OpTraits<op::ThresholdedRelu> : of_functions::PiecewiseLinear {
  static constexpr Evaluation evaluation = Evaluation::special;
  static constexpr std::array<std::string_view, 1> local = of_functions::storing;
  static constexpr std::string_view propagation = "T-52";
  static Interval slope(const op::ThresholdedRelu& f, const Interval& x) {
    if (x.lower() > f.alpha) return 1.0;
    if (f.alpha == 0.0) return of_functions::kinked(x, 0.0, 0.0, 1.0);
    return of_functions::jumping(x.upper() <= f.alpha);
  }
};

template <>
struct OpTraits<op::Floor> : of_functions::Copied {
  static constexpr std::string_view propagation = "T-50";
  static Interval slope(const op::Floor&, const Interval& x) {
    return of_functions::jumping(floor(x).width() == Magnitude());
  }
};

template <>
struct OpTraits<op::Ceil> : of_functions::Copied {
  static constexpr std::string_view propagation = "T-50";
  static Interval slope(const op::Ceil&, const Interval& x) {
    return of_functions::jumping(ceil(x).width() == Magnitude());
  }
};

template <>
struct OpTraits<op::Round> : of_functions::Copied {
  static constexpr std::string_view propagation = "T-50";
  static Interval slope(const op::Round&, const Interval& x) {
    return of_functions::jumping(rint(x).width() == Magnitude());
  }
};

template <>
struct OpTraits<op::Sign> : of_functions::Copied {
  static constexpr std::string_view propagation = "T-50";
  static std::optional<std::pair<double, double>> range(const op::Sign&) { return {{-1.0, 1.0}}; }
  static Interval slope(const op::Sign&, const Interval& x) {
    return of_functions::jumping(sign(x).width() == Magnitude());
  }
};

// ---- smooth functions of bounded slope

template <>
struct OpTraits<op::Tanh> : of_functions::Steepest<1> {
  static constexpr std::string_view accuracy = "tanh", propagation = "T-42";
  static constexpr double curvature = 0.769801;  ///< sup |f''| = 4 / (3 sqrt 3)
  static constexpr double third_derivative = 2.0;
  static std::optional<std::pair<double, double>> range(const op::Tanh&) { return {{-1.0, 1.0}}; }
  static Interval slope(const op::Tanh&, const Interval& x) {
    return of_functions::positive_part(Interval(1.0) - of_functions::square(tanh(x)));
  }
};

template <>
struct OpTraits<op::Sigmoid> : AnyFunction {
  static constexpr std::string_view accuracy = "sigmoid", propagation = "T-42";
  static constexpr double curvature = 0.096226;  ///< sup |f''| = 1 / (6 sqrt 3)
  static Magnitude steepest(const op::Sigmoid&) { return Magnitude(0.25); }
  static std::optional<std::pair<double, double>> range(const op::Sigmoid&) { return {{0.0, 1.0}}; }
  static Interval slope(const op::Sigmoid&, const Interval& x) {
    return Interval(0.25) * of_functions::positive_part(Interval(1.0) - of_functions::square(tanh(Interval(0.5) * x)));
  }
};

/// Its slope is the sigmoid.
template <>
struct OpTraits<op::Softplus> : of_functions::Steepest<1> {
  static constexpr std::string_view accuracy = "softplus", propagation = "T-42";
  static constexpr double curvature = 0.25;
  static constexpr double third_derivative = OpTraits<op::Sigmoid>::curvature;
  static Interval slope(const op::Softplus&, const Interval& x) {
    return of_functions::positive_part(Interval(0.5) + Interval(0.5) * tanh(Interval(0.5) * x));
  }
};

template <>
struct OpTraits<op::Sin> : of_functions::Steepest<1> {
  static constexpr std::string_view accuracy = "sin", propagation = "T-42";
  static constexpr double curvature = 1.0, third_derivative = 1.0;
  static std::optional<std::pair<double, double>> range(const op::Sin&) { return {{-1.0, 1.0}}; }
  static Interval slope(const op::Sin&, const Interval& x) { return cos(x); }
};

template <>
struct OpTraits<op::Cos> : of_functions::Steepest<1> {
  static constexpr std::string_view accuracy = "cos", propagation = "T-42";
  static std::optional<std::pair<double, double>> range(const op::Cos&) { return {{-1.0, 1.0}}; }
  static Interval slope(const op::Cos&, const Interval& x) { return -sin(x); }
};

template <>
struct OpTraits<op::Erf> : AnyFunction {
  static constexpr std::string_view accuracy = "erf", propagation = "T-42";
  static constexpr double two_over_root_pi = 0x1.20dd750429b6ep+0, two_over_root_pi_down = 0x1.20dd750429b6dp+0;
  static constexpr double curvature = 0.967883;         ///< sup |f''| = sqrt(8 / (pi e))
  static constexpr double third_derivative = 2.256759;  ///< sup |f'''| = 4 / sqrt pi
  static Magnitude steepest(const op::Erf&) { return Magnitude(two_over_root_pi); }
  static std::optional<std::pair<double, double>> range(const op::Erf&) { return {{-1.0, 1.0}}; }
  static Interval slope(const op::Erf&, const Interval& x) {
    return Interval(two_over_root_pi_down, two_over_root_pi) * exp(-of_functions::square(x));
  }
};

template <>
struct OpTraits<op::Atan> : of_functions::Steepest<1> {
  static constexpr std::string_view accuracy = "atan", propagation = "T-47";
  static constexpr double curvature = 0.649520;  ///< sup |f''| = 3 sqrt 3 / 8
  static std::optional<std::pair<double, double>> range(const op::Atan&) {
    constexpr double above_half_pi = 0x1.921fb54442d19p0;
    return {{-above_half_pi, above_half_pi}};
  }
  static Interval slope(const op::Atan&, const Interval& x) {
    return Interval(1.0) / (Interval(1.0) + of_functions::square(x));
  }
};

template <>
struct OpTraits<op::Elu> : AnyFunction {
  static constexpr std::string_view accuracy = "expm1", propagation = "T-43";
  static constexpr Evaluation evaluation = Evaluation::special;
  static constexpr std::array<std::string_view, 1> local = {"T-18"};
  static Magnitude steepest(const op::Elu& f) { return std::max(Magnitude(1.0), Magnitude(f.alpha)); }
  static Interval slope(const op::Elu& f, const Interval& x) {
    const Interval left = Interval(f.alpha) * exp(of_functions::negative_part(x));
    if (x.lower() >= 0.0) return 1.0;
    return x.upper() <= 0.0 ? left : hull(left, 1.0);
  }
};

// ---- functions whose slope has no bound

template <>
struct OpTraits<op::Exp> : AnyFunction {
  static constexpr std::string_view accuracy = "exp", propagation = "T-43";
  static Interval slope(const op::Exp&, const Interval& x) { return exp(x); }
};

template <>
struct OpTraits<op::Log> : AnyFunction {
  static constexpr std::string_view accuracy = "log", propagation = "T-46";
  static Interval slope(const op::Log&, const Interval& x) {
    return of_functions::where_positive(x, Interval(1.0) / x);
  }
};

template <>
struct OpTraits<op::Sqrt> : AnyFunction {
  static constexpr std::string_view accuracy = "sqrt", propagation = "T-43";
  static constexpr std::array<std::string_view, 2> local = {"T-15", "T-16"};
  static Interval slope(const op::Sqrt&, const Interval& x) {
    return of_functions::where_positive(x, Interval(0.5) / sqrt(x));
  }
};

template <>
struct OpTraits<op::Reciprocal> : AnyFunction {
  static constexpr Evaluation evaluation = Evaluation::rounded;
  static constexpr std::array<std::string_view, 1> local = of_functions::storing;
  static constexpr std::string_view propagation = "T-44";
  static Interval slope(const op::Reciprocal&, const Interval& x) { return Interval(-1.0) / of_functions::square(x); }
};

template <>
struct OpTraits<op::Tan> : AnyFunction {
  static constexpr std::string_view accuracy = "tan", propagation = "T-47";
  static Interval slope(const op::Tan&, const Interval& x) { return Interval(1.0) + of_functions::square(tan(x)); }
};

template <>
struct OpTraits<op::Sinh> : AnyFunction {
  static constexpr std::string_view accuracy = "sinh", propagation = "T-48";
  static Interval slope(const op::Sinh&, const Interval& x) { return cosh(x); }
};

template <>
struct OpTraits<op::Cosh> : AnyFunction {
  static constexpr std::string_view accuracy = "cosh", propagation = "T-48";
  static Interval slope(const op::Cosh&, const Interval& x) { return sinh(x); }
};

template <>
struct OpTraits<op::Pow> : AnyFunction {
  static constexpr std::string_view accuracy = "pow", propagation = "T-49";
  /// p x^(p-1); x^p / x in place of x^(p-1) where p - 1 is no double, or where that is defined for fewer x.
  static Interval slope(const op::Pow& f, const Interval& x) {
    const double p = f.exponent;
    if (p == 0.0) return 0.0;
    if (p == 1.0) return 1.0;
    const bool lower_is_exact = p - 1.0 + 1.0 == p && std::abs(p) < 0x1p52;
    const Interval power = lower_is_exact ? pow(x, p - 1.0) : pow(x, p) / x;
    return Interval(p) * power;
  }
};

// ---- fused ops that are functions of one element

template <>
struct OpTraits<op::Gelu> : AnyFunction {
  static constexpr double curvature = 0.8, third_derivative = 0.78;  ///< of both forms
  static Magnitude steepest(const op::Gelu&) { return Magnitude(1.13); }
};

/// OpTraits::is_piecewise_linear; false for ops that are no function of one element.
inline bool is_piecewise_linear(const Op& op) {
  return std::visit(
      []<class F>(const F&) {
        if constexpr (ElementwiseUnary<F>) return OpTraits<F>::is_piecewise_linear;
        return false;
      },
      op);
}

}  // namespace driftbound::bounds
