#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "bounds/kernels/sum_kernels.hpp"
#include "support/row_checks.hpp"

/// Loops over sums of products against the same in 700 bits, one element after the other.
namespace checks {

/// The terms of one element, as T-68 and T-74 see them.
struct TermsOfSum {
  int products = 0;
  bool has_addend = false;
  Real of_products, addend, squares, difference, exact;  ///< difference: squares with signs

  Real total() const { return of_products + addend; }
  int leaves() const { return products + (has_addend ? 1 : 0); }
  Real underflow(const bounds::RowFormat& format) const { return Real(products) * Real(format.underflow); }
  Real in_any_order(const bounds::RowFormat& format) const {
    return Real(leaves() > 1 ? leaves() - 1 : 0) * Real(format.u) * total() + underflow(format);
  }
  /// sum_{k=2..N-2} g(k)^power and that of the largest
  Real ufps(const bounds::RowFormat& format, int power) const {
    const Real growth = Real(1.0) + Real(2.0 * leaves()) * Real(format.u), h = underflow(format);
    const Real result = exact < total() ? exact : total(), middle = Real(0.5) * (total() + result);
    const Real most = growth * middle, offset = result + (growth - Real(1.0)) * middle;
    const Real norm = (Real(0.5) * (squares + abs(difference)) + addend * addend).apply(mpfr_sqrt);
    const auto reach = [&](int k) { return growth * Real(static_cast<double>(k)).apply(mpfr_sqrt) * norm; };
    const auto power_of = [&](const Real& place) { return power == 1 ? place : place * place; };
    Real sum = leaves() < 3 ? Real() : power_of(place_below(most + h));
    for (int k = 2; k <= leaves() - 2; ++k)
      sum += power_of(place_below(std::min({most, reach(k), offset + reach(leaves() - k)}) + h));
    return sum;
  }
  Real by_sizes(const bounds::RowFormat& format) const {
    const Real here = Real(format.u) * (of_products + ufps(format, 1)) + underflow(format);
    return here < in_any_order(format) ? here : in_any_order(format);
  }
  Real rounding_of(const Real& t, const bounds::RowFormat& format) const {
    const Real rounding = Real(format.u) * place_below(t);
    return products == 0 ? Real() : rounding < Real(format.eta) ? Real(format.eta) : rounding;
  }

private:
  /// ufp, or half of it for what lies within a unit of a power of two.
  static Real place_below(const Real& x) {
    if (x <= Real()) return Real();
    return Real(std::ldexp(1.0, std::ilogb(x.to_double() * (1.0 - 0x1p-50))));
  }
};

/// Rows of random terms, and what the kernels are told of them.
struct SumData {
  std::size_t n = 0;
  std::vector<TermsOfSum> terms;
  Row y, addend, columns, total, paths, products, ones;
  std::vector<float> squares, signed_squares;
  double nonzero = 0.0;

  explicit SumData(Generator& g) : n(row_size(g)) {
    const std::size_t k = 1 + g() % 40;
    nonzero = static_cast<double>(k);
    for (std::size_t i = 0; i < n; ++i) {
      TermsOfSum of;
      double signed_sum = 0.0;
      for (std::size_t j = 0; j < k; ++j) {
        const double term = static_cast<double>(static_cast<float>(spread_number(g, 0)));
        of.products += term != 0.0 ? 1 : 0;
        of.of_products += abs(Real(term));
        of.squares += Real(term) * Real(term);
        of.difference += Real(term) * abs(Real(term));
        signed_sum += term;
      }
      of.has_addend = g() % 2 == 0;
      of.addend = Real(of.has_addend ? 0.75 : 0.0);
      const auto up = [](const Real& x) { return std::nextafter(x.to_double(), INFINITY); };
      const auto up_float = [](double x) { return std::nextafter(static_cast<float>(x), HUGE_VALF); };
      y.push_back(static_cast<double>(static_cast<float>(signed_sum)) + of.addend.to_double());
      addend.push_back(of.addend.to_double());
      columns.push_back(of.products);
      total.push_back(of.products == 0 ? 0.0 : up(of.of_products));
      squares.push_back(of.products == 0 ? 0.0f : up_float(up(of.squares)));
      signed_squares.push_back(static_cast<float>(of.difference.to_double()));
      paths.push_back(std::abs(spread_number(g, -20)));
      products.push_back(total.back() * uniform(g, 0.5, 1.5));
      ones.push_back(1.0);
      terms.push_back(of);
    }
  }

  bounds::RecordedSums recorded() const {
    bounds::RecordedSums row;
    row.y = y.data();
    row.addend = addend.data();
    row.columns = columns.data();
    row.nonzero = nonzero;
    row.total = total.data();
    row.paths = paths.data();
    row.squares = {squares.data(), 1.0, ones.data()};
    row.signed_squares = {signed_squares.data(), 1.0, ones.data()};
    row.signed_squares_error = 0x1p-23;
    row.slack_units = 0x1p-46;
    row.tail_factor = 6.0;
    return row;
  }
};

inline Real smaller_of(double x, const Real& y) {
  return y < Real(x) ? y : Real(x);
}

inline void check_local_sums(const bounds::SumKernels& sums, Generator& g, RowTally& tally) {
  SumData data(g);
  const bounds::RowFormat format = float_rows();
  const std::size_t n = data.n;
  Row any_order(n), partial_sums(n), order_aware(n), probabilistic(n), slack(n), kappa(n);
  sums.local(
      data.recorded(), format,
      {any_order.data(), partial_sums.data(), order_aware.data(), probabilistic.data(), slack.data(), kappa.data()}, n);
  for (std::size_t i = 0; i < n; ++i) {
    TermsOfSum of = data.terms[i];
    const Real size = abs(Real(data.y[i])), last = of.rounding_of(size, format);
    of.exact = size + of.in_any_order(format) + last;
    const Real before = of.by_sizes(format), classical = of.in_any_order(format) + last, h = of.underflow(format);
    const Real known = Real(data.paths[i]) + h + last, u = Real(format.u);
    const Real unrecorded = of.rounding_of((of.exact < of.total() ? of.exact : of.total()) + before, format);
    const Real inner = of.leaves() < 2 ? Real() : of.squares + of.addend * of.addend + of.ufps(format, 2);
    const Real chance = Real(6.0) * (u * u * inner + unrecorded * unrecorded).apply(mpfr_sqrt) + h;
    tally.add(any_order[i], classical);
    tally.add(partial_sums[i], before + last);
    tally.add(order_aware[i], known < classical ? known : classical);
    tally.add(probabilistic[i], chance < before + last ? chance : before + last);
    tally.add(slack[i], before + Real(0x1p-46) * of.of_products);
    const double ratio = of.total().to_double() / std::abs(data.y[i]);
    const bool is_kappa = std::isfinite(ratio) ? std::abs(kappa[i] - ratio) <= 1e-9 * ratio : !(kappa[i] < 1.0);
    if (!is_kappa) ++tally.violations;
  }
}

inline void check_running_row(const bounds::SumKernels& sums, Generator& g, RowTally& tally) {
  SumData data(g);
  const bounds::RowFormat format = float_rows();
  bounds::RecordedSums row = data.recorded();
  row.products = g() % 2 == 0 ? data.products.data() : nullptr;
  Row running = data.paths;
  sums.running(row, format, running.data(), data.n);
  for (std::size_t i = 0; i < data.n; ++i) {
    const TermsOfSum& of = data.terms[i];
    const Real apart = row.products != nullptr ? smaller_of(data.products[i], of.of_products) : Real();
    tally.add(running[i], Real(format.u) * (apart + Real(data.paths[i])) + of.underflow(format) +
                              of.rounding_of(abs(Real(data.y[i])), format));
  }
}

/// A row of any run in a declared order; sums of magnitudes are exact here.
struct OrderedData {
  SumData data;
  Row own, by_operands, added, moved;
  std::vector<float> totals;

  explicit OrderedData(Generator& g) : data(g) {
    for (std::size_t i = 0; i < data.n; ++i) {
      own.push_back(std::abs(spread_number(g, -30)));
      by_operands.push_back(std::abs(spread_number(g, -20)));
      added.push_back(std::abs(spread_number(g, 0)) + own[i]);
      moved.push_back(added[i] + by_operands[i]);
      totals.push_back(static_cast<float>(data.total[i]) * 1.0001f);
    }
  }
  bounds::OrderedSums row(bool products_apart) const {
    bounds::OrderedSums row;
    row.sums.y = data.y.data();
    row.sums.own = own.data();
    row.sums.addend = data.addend.data();
    row.sums.columns = data.columns.data();
    row.sums.nonzero = data.nonzero;
    row.sums.total = {totals.data(), 1.0, data.ones.data()};
    row.by_operands = by_operands.data();
    row.slack_units = 0x1p-46;
    row.products = products_apart ? data.products.data() : nullptr;
    return row;
  }
  Real total(std::size_t i) const { return Real(static_cast<double>(totals[i])); }
};

inline void check_slack_row(const bounds::SumKernels& sums, Generator& g, RowTally& tally) {
  const OrderedData ordered(g);
  Row slack(ordered.data.n);
  sums.slack(ordered.row(true), ordered.added.data(), slack.data(), slack.size());
  for (std::size_t i = 0; i < slack.size(); ++i)
    tally.add(slack[i], Real(ordered.added[i]) + Real(ordered.by_operands[i]) + Real(0x1p-46) * ordered.total(i));
}

inline void check_in_order_row(const bounds::SumKernels& sums, Generator& g, RowTally& tally) {
  const OrderedData ordered(g);
  const SumData& data = ordered.data;
  const bounds::RowFormat format = float_rows();
  const bool products_apart = g() % 2 == 0;
  Row added = ordered.added, moved = ordered.moved;
  sums.in_order(ordered.row(products_apart), format, data.paths.data(), {moved.data(), added.data()}, data.n);
  for (std::size_t i = 0; i < data.n; ++i) {
    const TermsOfSum& of = data.terms[i];
    const Real own(ordered.own[i]), by_operands(ordered.by_operands[i]), total = ordered.total(i) + of.addend;
    const Real result = abs(Real(data.y[i])) + by_operands + own, exact = result < total ? result : total;
    const Real apart = products_apart ? smaller_of(data.products[i], ordered.total(i)) : Real();
    const Real before = Real(format.u) * (apart + Real(data.paths[i])) + of.underflow(format);
    const Real error = before + of.rounding_of(exact + before, format);
    tally.add(added[i], smaller_of(ordered.added[i], own + error));
    tally.add(moved[i], smaller_of(ordered.moved[i], by_operands + own + error));
  }
}

/// Numbers of a magnitude that neither overflows nor underflows in single precision.
inline std::vector<float> single_row(std::size_t n, Generator& g, bool is_positive) {
  std::vector<float> row;
  for (std::size_t i = 0; i < n; ++i) {
    const double size = std::ldexp(uniform(g, 0.5, 1.0), -static_cast<int>(g() % 20));
    row.push_back(static_cast<float>(is_positive || g() % 2 == 0 ? size : -size));
  }
  return row;
}

/// Chains of three products and their sums, in these numbers as T-69 evaluates them.
template <class Number>
void check_first_places_in(void (*ufps)(const bounds::StepsOfRow<Number>&, const Number*, std::size_t, std::size_t,
                                        Number*),
                           Generator& g, RowTally& tally) {
  using bounds::SumStep;
  const std::size_t k = 1 + g() % 20, panels = 1 + g() % bounds::panels_at_once,
                    width = bounds::columns_of_panel<Number>;
  const auto row = [&](std::size_t n, bool is_positive) {
    if constexpr (std::is_same_v<Number, float>) return single_row(n, g, is_positive);
    if constexpr (std::is_same_v<Number, double>) return spread_row(n, g, is_positive);
  };
  const std::vector<Number> a = row(k, false), b = row(panels * k * width, false), slack = row(panels * width, true);
  std::vector<SumStep> steps;
  for (std::size_t i = 0; i < k; ++i) {
    const bool starts = i % 3 == 0;
    if (starts && i >= 6) steps.push_back({SumStep::Kind::join, 0});
    steps.push_back({starts ? SumStep::Kind::start : SumStep::Kind::add, static_cast<std::int32_t>(i)});
  }
  const bool rounds_starts = g() % 2 == 0;
  std::vector<Number> places(panels * width);
  ufps({steps.data(), steps.size(), a.data(), slack.data(), rounds_starts}, b.data(), k, panels, places.data());
  for (std::size_t j = 0; j < places.size(); ++j) {
    std::vector<Number> stack;
    Real expected;
    for (const SumStep& step : steps) {
      const auto at = static_cast<std::size_t>(step.k);
      const Number product = a[at] * b[(j / width * k + at) * width + j % width];
      if (step.kind == SumStep::Kind::join) {
        const Number top = stack.back();
        stack.pop_back();
        stack.back() += top;
      } else if (step.kind == SumStep::Kind::add) {
        stack.back() += product;
      } else {
        stack.push_back(product);
        if (!rounds_starts) continue;
      }
      const Number size = std::abs(stack.back()) + slack[j];
      if (size >= 0x1p-1022) expected += Real(std::ldexp(1.0, std::ilogb(size)));
    }
    tally.add(static_cast<double>(places[j]) * (1.0 + 64.0 * std::numeric_limits<Number>::epsilon()), expected);
  }
}

inline void check_first_places(const bounds::SumKernels& sums, Generator& g, RowTally& tally) {
  check_first_places_in<double>(sums.ufps, g, tally);
}
inline void check_first_places_single(const bounds::SumKernels& sums, Generator& g, RowTally& tally) {
  check_first_places_in<float>(sums.first_places_single, g, tally);
}

struct SumCase {
  std::string name;
  std::function<void(const bounds::SumKernels&, Generator&, RowTally&)> check;
};

inline std::vector<SumCase> sum_cases() {
  return {{"local", check_local_sums},          {"running", check_running_row},
          {"slack", check_slack_row},           {"in order", check_in_order_row},
          {"first places", check_first_places}, {"first places in single precision", check_first_places_single}};
}

inline RowTally check_sum_case(const bounds::SumKernels& sums, const SumCase& subject, int repetitions,
                               std::uint64_t seed) {
  Generator generator(seed);
  RowTally tally;
  for (int i = 0; i < repetitions; ++i) subject.check(sums, generator, tally);
  return tally;
}

inline std::int64_t violations_of_sums(const bounds::SumKernels& sums, const std::string& name) {
  std::int64_t violations = 0;
  for (const SumCase& subject : sum_cases())
    if (subject.name == name) violations += check_sum_case(sums, subject, 100, 27).violations;
  return violations;
}

}  // namespace checks
