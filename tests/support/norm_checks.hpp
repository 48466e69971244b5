#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bounds/theorems/norms.hpp"
#include "driftbound/num/directed.hpp"
#include "support/bound_checks.hpp"
#include "support/gelu.hpp"
#include "support/rule_checks.hpp"

/// The rules of T-62 for norms against vectors that move: at random, and such that the rule is attained.
namespace checks {

using RealVector = std::vector<Real>;

inline Real norm_of(const RealVector& v) {
  Real squares;
  for (const Real& x : v) squares += x * x;
  return squares.apply(mpfr_sqrt);
}

/// An upper bound in double, at most one unit too large.
inline Magnitude norm_above(const RealVector& v) {
  return Magnitude(next_up(norm_of(v).to_double()));
}

inline RealVector times(const Real& factor, RealVector v) {
  for (Real& x : v) x = factor * x;
  return v;
}

inline RealVector magnitudes_of(RealVector v) {
  for (Real& x : v) x = abs(x);
  return v;
}

inline RealVector joined(RealVector a, const RealVector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline RealVector repeated(const RealVector& v, std::size_t copies) {
  RealVector result;
  for (std::size_t i = 0; i < copies; ++i) result = joined(std::move(result), v);
  return result;
}

template <class F>
RealVector elementwise(const RealVector& a, const RealVector& b, const F& f) {
  RealVector result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(f(a[i], b[i]));
  return result;
}

inline RealVector sum_of(const RealVector& a, const RealVector& b) {
  return elementwise(a, b, [](const Real& x, const Real& y) { return x + y; });
}
inline RealVector difference_of(const RealVector& a, const RealVector& b) {
  return elementwise(a, b, [](const Real& x, const Real& y) { return x - y; });
}
inline RealVector elementwise_product(const RealVector& a, const RealVector& b) {
  return elementwise(a, b, [](const Real& x, const Real& y) { return x * y; });
}

/// [n, n] times [n, n].
inline RealVector square_product(const RealVector& a, const RealVector& b, std::size_t n) {
  RealVector result(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) result[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
  return result;
}

inline RealVector softmax_of(const RealVector& x) {
  RealVector result;
  Real sum;
  for (const Real& logit : x) result.push_back(logit.apply(mpfr_exp));
  for (const Real& term : result) sum += term;
  for (Real& term : result) term = term / sum;
  return result;
}

inline Real sum_of_all(const RealVector& v) {
  Real sum;
  for (const Real& x : v) sum += x;
  return sum;
}

/// v over the root of the mean of its squares.
inline RealVector normalised(const RealVector& v) {
  return times(Real(static_cast<double>(v.size())).apply(mpfr_sqrt) / norm_of(v), v);
}

/// Draws vectors; on even turns all elements are equal, which attains most of the rules.
class NormDraw {
public:
  explicit NormDraw(std::uint64_t seed) : generator_(seed) {}

  void next_turn() { is_even_ = !is_even_; }
  RealVector vector(std::size_t n, double scale) {
    RealVector v;
    const double same = uniform(generator_, 0.5 * scale, scale);
    for (std::size_t i = 0; i < n; ++i) v.emplace_back(is_even_ ? same : uniform(generator_, -scale, scale));
    return v;
  }
  bool is_even() const { return is_even_; }
  double positive(double low, double high) { return uniform(generator_, low, high); }
  std::size_t count() { return 2 + generator_() % 5; }

private:
  Generator generator_;
  bool is_even_ = false;
};

inline Magnitude largest_of(const RealVector& v) {
  Magnitude largest;
  for (const Real& x : v) largest = std::max(largest, Magnitude(x.to_double()));
  return largest;
}

/// One rule: how far something moves, and what the rule allows.
struct NormMove {
  RealVector moved;
  Magnitude bound;
};

struct NormCase {
  std::string name;
  std::function<NormMove(NormDraw&)> move;
};

inline std::vector<NormCase> norm_cases() {
  using Draw = NormDraw;
  return {
      {"copies",
       [](Draw& draw) -> NormMove {
         const RealVector v = draw.vector(3, 1.0);
         const std::size_t copies = draw.count();
         return {repeated(v, copies), bounds::norm_of_copies(norm_above(v), copies)};
       }},
      {"function",
       [](Draw& draw) -> NormMove {
         const RealVector v = draw.vector(4, 1.0);
         const double slope = draw.positive(0.1, 2.0);
         return {times(Real(slope), v), bounds::norm_of_function(Magnitude(slope), norm_above(v))};
       }},
      {"sum",
       [](Draw& draw) -> NormMove {
         const RealVector a = draw.vector(4, 1.0), b = draw.vector(4, 1.0);
         return {sum_of(a, b), bounds::norm_of_sum(norm_above(a), norm_above(b))};
       }},
      {"reduce_sum",
       [](Draw& draw) -> NormMove {
         const RealVector v = draw.vector(draw.count(), 1.0);
         Real sum;
         for (const Real& x : v) sum += x;
         return {{sum}, bounds::norm_of_reduce_sum(norm_above(v), v.size())};
       }},
      {"extremum",
       [](Draw& draw) -> NormMove {
         const RealVector moved = draw.vector(1, 1.0);
         return {moved, bounds::norm_of_extremum(norm_above(moved))};
       }},
      {"softmax",
       [](Draw& draw) -> NormMove {
         const Real t(draw.positive(1e-6, 1e-3)), centre(draw.positive(-1.0, 1.0));
         const RealVector at = {centre, centre}, to = {centre + t, centre - t};
         return {difference_of(softmax_of(to), softmax_of(at)),
                 bounds::norm_of_softmax(norm_above(difference_of(to, at)))};
       }},
      {"quotient",
       [](Draw& draw) -> NormMove {
         const RealVector v = draw.vector(4, 1.0);
         const double divisor = draw.positive(0.1, 2.0);
         return {times(Real(1.0) / Real(divisor), v), bounds::norm_of_quotient(norm_above(v), divisor)};
       }},
      {"moving_quotient",
       [](Draw& draw) -> NormMove {
         // b = 1/2 under all of a; on even turns everything moves the quotients in the same direction.
         const RealVector a = draw.vector(4, 1.0), da = draw.vector(4, 0x1p-20);
         const Real b(0.5), db(-draw.positive(0x1p-22, 0x1p-20));
         const RealVector before = times(Real(1.0) / b, a), after = times(Real(1.0) / (b + db), sum_of(a, da));
         const double least = next_down((b + db).to_double());
         return {difference_of(after, before),
                 bounds::norm_of_moving_quotient(norm_above(da), norm_above(before), norm_above({db}), least)};
       }},
      {"elementwise_product",
       [](Draw& draw) -> NormMove {
         const RealVector a = draw.vector(4, 1.0), b = draw.vector(4, 1.0);
         const RealVector da = draw.vector(4, 1.0), db = draw.vector(4, 1.0);
         const RealVector before = elementwise_product(a, b), after = elementwise_product(sum_of(a, da), sum_of(b, db));
         return {difference_of(after, before),
                 bounds::norm_of_elementwise_product({largest_of(a), largest_of(da), norm_above(da)},
                                                     {largest_of(b), largest_of(db), norm_above(db)})};
       }},
      {"selection",
       [](Draw& draw) -> NormMove {
         const RealVector a = draw.vector(3, 1.0), b = draw.vector(2, 1.0);
         const std::size_t uses_a = draw.count(), uses_b = draw.count();
         const std::vector<bounds::SelectedPart> parts = {{uses_a, norm_above(a)}, {uses_b, norm_above(b)}};
         return {joined(repeated(a, uses_a), repeated(b, uses_b)), bounds::norm_of_selection(parts)};
       }},
      {"constant_product",
       [](Draw& draw) -> NormMove {
         constexpr std::size_t n = 3;
         const RealVector u = draw.vector(n * n, 1.0), w = draw.vector(n * n, 1.0);
         const RealVector du = draw.vector(n * n, 1.0), dw = draw.vector(n * n, 1.0);
         const std::size_t uses = draw.count();
         const RealVector moved =
             difference_of(square_product(sum_of(u, du), sum_of(w, dw), n), square_product(u, w, n));
         // The Frobenius norm is the spectral norm of what is of rank one, as on even turns.
         return {repeated(moved, uses), bounds::norm_of_constant_product({norm_above(u), norm_above(du)}, norm_above(w),
                                                                         norm_above(dw), uses)};
       }},
      {"matrix_product",
       [](Draw& draw) -> NormMove {
         constexpr std::size_t n = 3;
         const RealVector a = draw.vector(n * n, 1.0), b = draw.vector(n * n, 1.0);
         const RealVector da = draw.vector(n * n, 1.0), db = draw.vector(n * n, 1.0);
         const RealVector moved =
             difference_of(square_product(sum_of(a, da), sum_of(b, db), n), square_product(a, b, n));
         return {moved,
                 bounds::norm_of_matrix_product({norm_above(a), norm_above(da)}, {norm_above(b), norm_above(db)})};
       }},
      {"spectral_product",
       [](Draw& draw) -> NormMove {
         constexpr std::size_t n = 3;
         const RealVector a = draw.vector(n * n, 1.0), b = draw.vector(n * n, 1.0);
         const RealVector da = draw.vector(n * n, 1.0), db = draw.vector(n * n, 1.0);
         const std::size_t uses = draw.count();
         const RealVector moved =
             difference_of(square_product(sum_of(a, da), sum_of(b, db), n), square_product(a, b, n));
         // The same two matrices so often: each is used as often.
         return {repeated(moved, uses), bounds::norm_of_spectral_product({norm_above(a), norm_above(da)}, uses,
                                                                         {norm_above(b), norm_above(db)}, uses)};
       }},
      {"with_addend",
       [](Draw& draw) -> NormMove {
         const RealVector product = draw.vector(4, 1.0), addend = draw.vector(4, 1.0);
         const double alpha = draw.positive(0.1, 2.0), beta = draw.positive(0.1, 2.0);
         return {sum_of(times(Real(alpha), product), times(Real(beta), addend)),
                 bounds::norm_with_addend(-alpha, norm_above(product), beta, norm_above(addend))};
       }},
      {"product_rounding",
       [](Draw& draw) -> NormMove {
         constexpr std::size_t n = 3;
         const auto roundings = static_cast<std::int64_t>(draw.count());
         const RealVector u = magnitudes_of(draw.vector(n * n, 1.0)), w = magnitudes_of(draw.vector(n * n, 1.0)),
                          addend = magnitudes_of(draw.vector(n * n, 1.0));
         Real grown(1.0);  // every rounding off by as much as it can be, all in one direction
         for (std::int64_t i = 0; i < roundings; ++i) grown = grown * (Real(1.0) + Real(0x1p-53));
         return {times(grown - Real(1.0), sum_of(square_product(u, w, n), addend)),
                 bounds::norm_of_product_rounding(roundings, norm_above(u) * norm_above(w), norm_above(addend))};
       }},
      {"rounding",
       [](Draw& draw) -> NormMove {
         const RealVector v = draw.vector(4, 1.0);
         const double units = draw.positive(1.0, 10.0);
         return {times(Real(units) * Real(0x1p-53), v), bounds::norm_of_rounding(units, norm_above(v))};
       }},
      {"centred",
       [](Draw& draw) -> NormMove {
         // On even turns sums and means are off by the same for all; what x moves by has no mean and is in their way.
         const std::size_t n = 4;
         const bool is_even = draw.is_even();
         RealVector x = is_even ? RealVector(n) : draw.vector(n, 1.0);
         const Real sum(draw.positive(0.1, 1.0)), mean(draw.positive(0.1, 1.0));
         Real total = sum;
         for (const Real& element : x) total += element;
         const Real taken = total / Real(static_cast<double>(n)) + mean;
         RealVector left;
         for (const Real& element : x) left.push_back(element - taken);
         return {left, bounds::norm_of_centred(norm_above(x), n, norm_above({sum}), norm_above({mean}))};
       }},
      {"centred_alone",
       [](Draw& draw) -> NormMove {
         const Real t(draw.positive(0.1, 1.0));
         const RealVector x = {t, -t, t, -t};  // its mean is 0
         return {x, bounds::norm_of_centred(norm_above(x), x.size(), Magnitude(), Magnitude())};
       }},
      {"normalised",
       [](Draw& draw) -> NormMove {
         // N turns c by as much as it can: it ends where it is at right angles to what it moved by.
         const std::size_t n = 2;
         const Real size(draw.positive(0.5, 2.0)), share(draw.positive(0.01, 0.99));
         const Real cosine = (Real(1.0) - share * share).apply(mpfr_sqrt);
         const RealVector c = {size, Real()}, to = {size * cosine * cosine, size * cosine * share};
         const Real root = size / Real(static_cast<double>(n)).apply(mpfr_sqrt);
         return {difference_of(normalised(to), normalised(c)),
                 bounds::norm_of_normalised(static_cast<double>(n), next_down(root.to_double()),
                                            norm_above(difference_of(to, c)))};
       }},
      {"normalised_far",
       [](Draw& draw) -> NormMove {
         const Real size(draw.positive(0.5, 2.0));
         const RealVector c = {size, Real()}, to = {-size * Real(0x1p-30), Real()};
         const Real root = size / Real(2.0).apply(mpfr_sqrt);
         return {difference_of(normalised(to), normalised(c)),
                 bounds::norm_of_normalised(2.0, next_down(root.to_double()), norm_above(difference_of(to, c)))};
       }},
      {"root_error",
       [](Draw& draw) -> NormMove {
         const Real root(draw.positive(0.5, 2.0)), share(draw.positive(1e-6, 0.9)), own(draw.positive(1e-3, 1.0));
         const Real argument = share * root * root;
         const Real wrong = (root * root - argument).apply(mpfr_sqrt) - own;
         return {{root - wrong}, bounds::error_of_root(norm_above({argument}), root.to_double(), norm_above({own}))};
       }},
      {"wrong_root",
       [](Draw& draw) -> NormMove {
         const RealVector c = draw.vector(4, 1.0);
         const Real root = norm_of(c) / Real(2.0), error = root * Real(draw.positive(1e-6, 0.9));
         return {difference_of(times(Real(1.0) / (root - error), c), times(Real(1.0) / root, c)),
                 bounds::norm_of_wrong_root(4.0, next_down(root.to_double()), norm_above({error}))};
       }},
      {"softmax_near",
       [](Draw& draw) -> NormMove {
         // Shares that are alike (even turns), and two of which one has nearly all and gives some of it away.
         const Real t(draw.positive(0.0, 1.0) < 0.5 ? 1e-9 : 0.1), gap(draw.positive(2.0, 6.0));
         RealVector at = {gap, Real()};
         if (draw.is_even()) at = {Real(), Real(), Real(), Real()};
         RealVector to = at;
         to[0] = to[0] - t;
         to[1] = to[1] + t;
         const RealVector p = softmax_of(at);
         const Real spread = p[0] * (Real(1.0) - p[0]);
         return {difference_of(softmax_of(to), p),
                 bounds::norm_of_softmax_near(norm_above(difference_of(to, at)), norm_above({p[0]}),
                                              norm_above({spread}), norm_above({t}))};
       }},
      {"share_errors",
       [](Draw& draw) -> NormMove {
         // One power has nearly everything and only the sum is wrong (even turns), or everything is.
         const bool is_even = draw.is_even();
         const RealVector exponents = {Real(), Real(is_even ? -80.0 : -1.0)};
         const Real own(is_even ? 0.0 : draw.positive(1e-3, 0.1)), before(is_even ? 0.0 : draw.positive(1e-3, 0.1));
         const Real of_sum(draw.positive(1e-3, 0.3));
         RealVector powers;
         Real sum, exact;
         for (const Real& exponent : exponents) {
           exact += exponent.apply(mpfr_exp);
           powers.push_back((exponent + before).apply(mpfr_exp) + own);
           sum += powers.back();
         }
         sum = sum - of_sum;
         const bounds::ShareErrors errors{norm_above({before}), norm_above({own, own}),
                                          norm_above({own + own + of_sum})};
         return {difference_of(times(Real(1.0) / sum, powers), softmax_of(exponents)),
                 bounds::norm_of_share_errors(errors, next_down(exact.to_double()))};
       }},
      {"least_sum_of_powers",
       [](Draw& draw) -> NormMove {
         const Real own(draw.positive(1e-9, 0.1)), before(draw.is_even() ? 1e-9 : 0.1), exact(draw.positive(1.0, 3.0));
         const Real computed = exact * before.apply(mpfr_exp) + own;
         const bounds::ShareErrors errors{norm_above({before}), Magnitude(), norm_above({own})};
         const double least = bounds::least_sum_of_powers(next_down(computed.to_double()), errors);
         return {{Real(1.0) / exact}, divide_up(Magnitude(1.0), least)};
       }},
      {"attended",
       [](Draw& draw) -> NormMove {
         // Scores that move along p_j (v_j - o), as little as on even turns.
         const double size = draw.is_even() ? 1e-9 : 0.3;
         const RealVector scores = draw.vector(3, 1.0),
                          values = {Real(1.0), Real(-0.5), Real(draw.positive(-1.0, 1.0))};
         const RealVector p = softmax_of(scores);
         const Real o = sum_of_all(elementwise_product(p, values));
         RealVector spread;
         for (std::size_t j = 0; j < p.size(); ++j) spread.push_back(p[j] * (values[j] - o));
         const RealVector moved = times(Real(size), spread);
         const Real to = sum_of_all(elementwise_product(softmax_of(sum_of(scores, moved)), values));
         return {{to - o},
                 bounds::norm_of_attended(norm_above(spread), norm_above(moved), largest_of(magnitudes_of(moved)))};
       }},
      {"vector",
       [](Draw& draw) -> NormMove {
         const RealVector v = draw.vector(5, std::ldexp(1.0, static_cast<int>(draw.positive(-1000.0, 1000.0))));
         std::vector<double> stored;
         for (const Real& x : v) stored.push_back(x.to_double());
         return {v, bounds::norm_of_vector(stored)};
       }},
  };
}

inline Tally check_norm_case(const NormCase& subject, int repetitions, std::uint64_t seed) {
  NormDraw draw(seed);
  Tally tally;
  for (int i = 0; i < repetitions; ++i) {
    draw.next_turn();
    const NormMove move = subject.move(draw);
    tally.add(0.0, norm_of(move.moved), move.bound.value());
  }
  return tally;
}

/// The steepest slope of a function of one element against difference quotients: one violation for each that is
/// steeper.
inline Tally check_steepest_slope(const Op& op, const RealFunction& f, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  const double steepest = bounds::steepest_slope(op).value();
  for (int i = 0; i < 400; ++i) {
    const Real x(uniform(generator, -3.0, 3.0) * (i % 4 == 0 ? 1e-3 : 1.0)), t(uniform(generator, 1e-6, 1e-3));
    tally.add(0.0, abs(f(x + t) - f(x)) / t, steepest);
  }
  return tally;
}

struct SlopeCase {
  std::string name;
  Op op;
  RealFunction f;
};

inline std::vector<SlopeCase> slope_cases() {
  const auto of = [](auto function) -> RealFunction { return [function](const Real& x) { return x.apply(function); }; };
  const auto zero_below = [](const Real& x, const Real& below) { return x < Real() ? below : x; };
  return {
      {"neg", op::Neg{}, [](const Real& x) { return -x; }},
      {"abs", op::Abs{}, [](const Real& x) { return abs(x); }},
      {"relu", op::Relu{}, [=](const Real& x) { return zero_below(x, Real()); }},
      {"leaky relu", op::LeakyRelu{0.1}, [=](const Real& x) { return zero_below(x, Real(0.1) * x); }},
      {"steep leaky relu", op::LeakyRelu{-3.0}, [=](const Real& x) { return zero_below(x, Real(-3.0) * x); }},
      {"elu", op::Elu{2.5}, [=](const Real& x) { return zero_below(x, Real(2.5) * x.apply(mpfr_expm1)); }},
      {"tanh", op::Tanh{}, of(mpfr_tanh)},
      {"sigmoid", op::Sigmoid{}, [](const Real& x) { return Real(1.0) / (Real(1.0) + (-x).apply(mpfr_exp)); }},
      {"sin", op::Sin{}, of(mpfr_sin)},
      {"cos", op::Cos{}, of(mpfr_cos)},
      {"atan", op::Atan{}, of(mpfr_atan)},
      {"erf", op::Erf{}, of(mpfr_erf)},
      {"gelu", op::Gelu{}, [](const Real& x) { return gelu(x, false); }},
      {"gelu by tanh", op::Gelu{true}, [](const Real& x) { return gelu(x, true); }},
      {"clip", op::Clip{-1.0, 1.0},
       [](const Real& x) { return x < Real(-1.0)  ? Real(-1.0)
                                  : Real(1.0) < x ? Real(1.0)
                                                  : x; }},
  };
}

inline Tally check_norm_rule(const std::string& name) {
  for (const NormCase& subject : norm_cases()) {
    if (subject.name == name) return check_norm_case(subject, 40, 95);
  }
  throw std::invalid_argument("no rule " + name);
}

}  // namespace checks
