#pragma once

#include <functional>
#include <vector>

#include "bounds/matrices/matrix.hpp"
#include "bounds/theorems/propagation.hpp"
#include "driftbound/model/layout.hpp"
#include "support/bound_checks.hpp"
#include "support/theorems.hpp"

/// Single theorems against samples of the truth.
namespace checks {

using RealFunction = std::function<Real(const Real&)>;

/// Radii from far below an ulp up to the size of the numbers themselves.
inline double draw_radius(Generator& generator) {
  return std::ldexp(uniform(generator, 0.5, 1.0), 2 - static_cast<int>(generator() % 40));
}

/// |f(t) - f(x)| for t at both ends of [x - e, x + e] and inside, against a rule for one variable.
inline Tally check_unary_rule(bounds::UnaryPropagation rule, const RealFunction& f, double low, double high,
                              double alpha, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double x = uniform(generator, low, high);
    double e = draw_radius(generator);
    if (x - e < low || x + e > high) e = std::min(x - low, high - x) * uniform(generator, 0.0, 1.0);
    const Real centre = f(Real(x));
    const auto y = static_cast<double>(static_cast<float>(centre.to_double()));
    const double y_error = abs(Real(y) - centre).to_double() * (1.0 + 0x1p-40);
    const double bound = rule(bounds::Point{x, Magnitude(e), y, Magnitude(y_error), alpha}).value();
    for (const double share : {-1.0, 1.0, uniform(generator, -1.0, 1.0)}) {
      const Real moved = f(Real(x) + Real(share) * Real(e));
      tally.add(0.0, moved - centre, bound);
    }
  }
  return tally;
}

inline Tally check_binary_rule(bounds::BinaryPropagation rule, const std::function<Real(const Real&, const Real&)>& f,
                               int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double a = uniform(generator, -2.0, 2.0), b = uniform(generator, -2.0, 2.0);
    const double ea = draw_radius(generator), eb = draw_radius(generator);
    const Magnitude bound = rule(a, Magnitude(ea), b, Magnitude(eb));
    if (!bound.is_finite()) continue;
    for (const double s : {-1.0, 1.0}) {
      for (const double t : {-1.0, 1.0}) {
        const Real moved = f(Real(a) + Real(s * ea), Real(b) + Real(t * eb));
        tally.add(0.0, moved - f(Real(a), Real(b)), bound.value());
      }
    }
  }
  return tally;
}

/// Every corner of a box of radii, on groups of up to five terms.
inline Tally check_group_rule(bounds::GroupPropagation rule, const std::function<Real(const Real&, const Real&)>& join,
                              int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 1 + generator() % 5;
    std::vector<double> x(n), e(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = uniform(generator, -2.0, 2.0);
      e[i] = generator() % 4 == 0 ? 0.0 : draw_radius(generator);
    }
    const double bound = rule(x, e).value();
    const auto joined = [&](const auto& sign) {
      Real result = Real(x[0]) + Real(sign(0)) * Real(e[0]);
      for (std::size_t i = 1; i < n; ++i) result = join(result, Real(x[i]) + Real(sign(i)) * Real(e[i]));
      return result;
    };
    const Real centre = joined([](std::size_t) { return 0.0; });
    for (std::size_t corner = 0; corner < (std::size_t{1} << n); ++corner) {
      const Real moved = joined([&](std::size_t i) { return (corner >> i & 1) != 0 ? 1.0 : -1.0; });
      tally.add(0.0, moved - centre, bound);
    }
  }
  return tally;
}

inline std::vector<Real> exact_softmax(const std::vector<Real>& x) {
  Real sum;
  std::vector<Real> p;
  for (const Real& value : x) sum += value.apply(mpfr_exp);
  for (const Real& value : x) p.push_back(value.apply(mpfr_exp) / sum);
  return p;
}

/// Every corner of a box of radii, on rows of up to five logits.
inline Tally check_softmax_rule(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 2 + generator() % 4;
    std::vector<double> e(n), stored(n), stored_error(n), bound(n);
    std::vector<Real> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = Real(uniform(generator, -5.0, 5.0));
      e[i] = generator() % 4 == 0 ? 0.0 : draw_radius(generator);
    }
    const std::vector<Real> p = exact_softmax(x);
    for (std::size_t i = 0; i < n; ++i) {
      stored[i] = static_cast<double>(static_cast<float>(p[i].to_double()));
      stored_error[i] = abs(Real(stored[i]) - p[i]).to_double() * (1.0 + 0x1p-40);
    }
    bounds::propagate_softmax(stored, stored_error, e, bound);
    for (std::size_t corner = 0; corner < (std::size_t{1} << n); ++corner) {
      std::vector<Real> moved = x;
      for (std::size_t i = 0; i < n; ++i) moved[i] += Real((corner >> i & 1) != 0 ? e[i] : -e[i]);
      const std::vector<Real> q = exact_softmax(moved);
      for (std::size_t i = 0; i < n; ++i) tally.add(0.0, q[i] - p[i], bound[i]);
    }
  }
  return tally;
}

/// Elements far below the others, with radii up to half the distance, at every corner of the box: their weights, and those
/// of the others without them.
inline Tally check_hidden_shares(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 2 + generator() % 4, hidden = 1 + generator() % (n - 1);
    std::vector<double> x(n), e(n);
    for (std::size_t i = 0; i < n; ++i) {
      const bool is_far = i < hidden;
      const double distance = uniform(generator, 70.0, 300.0);
      x[i] = uniform(generator, -3.0, 3.0) - (is_far ? distance : 0.0);
      e[i] = is_far ? uniform(generator, 0.0, (distance - 66.0) / 2.0) : uniform(generator, 0.0, 0.5);
    }
    const bounds::HiddenShares shares = bounds::hidden_shares(x, e);
    for (std::size_t corner = 0; corner < (std::size_t{1} << n); ++corner) {
      std::vector<Real> moved(n);
      for (std::size_t i = 0; i < n; ++i) moved[i] = Real(x[i]) + Real((corner >> i & 1) != 0 ? e[i] : -e[i]);
      const std::vector<Real> p = exact_softmax(moved);
      const std::vector<Real> of_seen =
          exact_softmax(std::vector<Real>(moved.begin() + static_cast<std::ptrdiff_t>(hidden), moved.end()));
      for (std::size_t i = 0; i < n; ++i) {
        if (shares.is_hidden[i] != 0) tally.add(0.0, p[i], shares.largest[i].value());
        if (i >= hidden) tally.add(0.0, p[i] - of_seen[i - hidden], shares.total.value());
      }
    }
  }
  return tally;
}

/// Rows of which some elements are hidden and only these move: what the slopes of the stored weights leave over.
inline Tally check_hidden_remainders(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 2 + generator() % 4, hidden = 1 + generator() % (n - 1);
    std::vector<double> x(n), e(n), p(n);
    std::vector<Real> exact_x(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = uniform(generator, -3.0, 3.0) - (i < hidden ? uniform(generator, 80.0, 200.0) : 0.0);
      e[i] = i < hidden ? uniform(generator, 0.0, 4.0) : 0.0;
      exact_x[i] = Real(x[i]);
    }
    const bounds::HiddenShares shares = bounds::hidden_shares(x, e);
    const std::vector<Real> before = exact_softmax(exact_x);
    Magnitude by_slopes;
    for (std::size_t i = 0; i < n; ++i) {
      p[i] = before[i].to_double();
      by_slopes += Magnitude(p[i]) * Magnitude(e[i]);
    }
    for (std::size_t corner = 0; corner < (std::size_t{1} << hidden); ++corner) {
      std::vector<Real> moved = exact_x;
      Real mean(0.0);
      const auto move = [&](std::size_t j) { return j >= hidden ? 0.0 : (corner >> j & 1) != 0 ? e[j] : -e[j]; };
      for (std::size_t j = 0; j < n; ++j) {
        moved[j] = moved[j] + Real(move(j));
        mean = mean + Real(p[j]) * Real(move(j));
      }
      const std::vector<Real> after = exact_softmax(moved);
      for (std::size_t i = 0; i < n; ++i) {
        const Real left = after[i] - before[i] - Real(p[i]) * (Real(move(i)) - mean);
        const Magnitude bound = shares.is_hidden[i] != 0
                                    ? bounds::remainder_of_hidden(shares.largest[i], p[i], e[i], by_slopes)
                                    : bounds::remainder_beside_hidden(0.0, p[i], by_slopes, shares.total);
        tally.add(0.0, left, bound.value());
      }
    }
  }
  return tally;
}

/// Rows of float32 at the ends of radii, their softmax evaluated naively, against what its roundings may add.
inline Tally check_unrecorded_softmax(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  const bounds::Machine machine = bounds::machine_of(cpu_arithmetic("fp32", {}));
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 1 + generator() % 30;
    const double scale = std::ldexp(1.0, static_cast<int>(generator() % 10) - 2);
    bounds::UnrecordedRow row{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
    std::vector<float> x(n), e(n);
    std::vector<Real> exact_x(n);
    float sum = 0.0f;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<float>(uniform(generator, -scale, scale));
      exact_x[i] = Real(x[i]);
      row.radii[i] = generator() % 2 == 0 ? 0.0 : draw_radius(generator);
      row.centres[i] = static_cast<double>(x[i]) + row.radii[i] * (generator() % 2 == 0 ? 0.999 : -0.999);
    }
    const float largest = *std::max_element(x.begin(), x.end());
    for (std::size_t i = 0; i < n; ++i) e[i] = static_cast<float>(std::exp(static_cast<double>(x[i] - largest)));
    for (std::size_t i = 0; i < n; ++i) sum += e[i];
    const std::vector<Real> p = exact_softmax(exact_x);
    for (std::size_t i = 0; i < n; ++i) row.results[i] = p[i].to_double() * (1.0 + 0x1p-50);
    std::vector<double> bound(n);
    const Magnitude factor = bounds::any_order_factor(static_cast<std::int64_t>(n) - 1, machine);
    bounds::unrecorded_softmax_error(row, 1.001, factor, machine, bound);
    for (std::size_t i = 0; i < n; ++i) tally.add(static_cast<double>(e[i] / sum), p[i], bound[i]);
  }
  return tally;
}

/// One rounding to nearest, in bfloat16 or in float32 and then in bfloat16, against rules that know how large the
/// number can be.
inline Tally check_unrecorded_roundings(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  const Format& bf16 = format(FormatId::bf16);
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  const bounds::Machine plain = bounds::machine_of(arithmetic);
  arithmetic.output = FormatId::bf16;
  const bounds::Machine narrow = bounds::machine_of(arithmetic);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double t = std::ldexp(uniform(generator, 1.0, 2.0), static_cast<int>(generator() % 270) - 140);
    const Magnitude largest(t * (1.0 + (generator() % 2 == 0 ? 0.0 : draw_radius(generator))));
    const auto single = static_cast<double>(static_cast<float>(t));
    const auto stored = static_cast<double>(naive::as_bf16(static_cast<float>(single)));
    const double bound = bounds::unrecorded_cast(largest, bf16, plain).value();
    if (std::isfinite(bound)) tally.add(round_to(t, bf16, Rounding::nearest_even), Real(t), bound);
    const double rounding = bounds::unrecorded_rounding(largest, plain).value();
    if (std::isfinite(rounding)) tally.add(single, Real(t), rounding);
    const double storing = bounds::unrecorded_storing(largest, narrow).value();
    if (std::isfinite(storing) && single <= largest.value()) tally.add(stored, Real(single), storing);
    const double both = bounds::unrecorded_rounding(largest, narrow).value();
    if (std::isfinite(both)) tally.add(stored, Real(t), both);
  }
  return tally;
}

/// Sums of products in double against the exact ones: violated where the true sum exceeds the bound.
inline Tally check_product_up(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto k = static_cast<std::int64_t>(1 + generator() % 40);
    const int exponent = repetition % 3 == 0 ? -535 : 0;
    std::vector<double> a, b;
    for (std::int64_t i = 0; i < k; ++i) {
      a.push_back(std::ldexp(uniform(generator, 0.0, 1.0), exponent));
      b.push_back(std::ldexp(uniform(generator, 0.0, 1.0), exponent));
    }
    const ProductPlan plan = plan_product(op::MatMul{}, {1, k}, {k, 1});
    const double bound = bounds::product_up(plan, a, b, 1).front();
    Real sum;
    for (std::size_t i = 0; i < a.size(); ++i) sum += Real(a[i]) * Real(b[i]);
    tally.add(0.0, sum, bound);
  }
  return tally;
}

/// Matrices u vᵀ of 26-bit numbers: their norm is |u| |v|, and rounding errors are all that a bound of it can differ
/// by.
inline Tally check_spectral_norm(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t rows = 1 + generator() % 40, columns = 1 + generator() % 40;
    std::vector<double> u(rows), v(columns), w;
    Real u_squared, v_squared;
    for (double& x : u) x = static_cast<double>(generator() % (1u << 26)) - 0x1p25;
    for (double& x : v) x = static_cast<double>(generator() % (1u << 26)) - 0x1p25;
    for (const double x : u) u_squared += Real(x) * Real(x);
    for (const double y : v) v_squared += Real(y) * Real(y);
    for (const double x : u) {
      for (const double y : v) w.push_back(x * y);
    }
    const auto n = static_cast<std::int64_t>(columns);
    const bounds::MatrixView view{w.data(), static_cast<std::int64_t>(rows), n, n, 1};
    tally.add(0.0, (u_squared * v_squared).apply(mpfr_sqrt), bounds::spectral_norm(view, 1).value());
  }
  return tally;
}

}  // namespace checks
