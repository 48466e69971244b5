// The kernels of `SumKernels`.

#include "bounds/kernels/sums.hpp"

#include "bounds/kernels/doubles.hpp"
#include "bounds/kernels/partial_sums.hpp"

namespace driftbound::bounds {
namespace {

/// Bound of the last rounding of a sum recorded with magnitude `size`: max(u ufp(size), eta), 0 if it has no product.
inline Doubles recorded_rounding(const Doubles& size, const Doubles& products, const RowFormat& format) {
  return where(products == 0.0, 0.0, rounding_at(size, format));
}

template <class Count>
inline void store_bound(double* result, std::size_t i, const Doubles& bound, const Bits& is_known, Count count) {
  if (result != nullptr) store(result + i, where(is_known, bound, infinity), count);
}

void local_row(const RecordedSums& row, const RowFormat& format, const LocalErrors& result, std::size_t n) {
  const std::size_t binades = binades_of(row.nonzero + 1.0);
  each(n, [&](std::size_t i, auto count) {
    const Doubles size = magnitude(load(row.y + i, count)), c = load_or_zero(row.addend, i, count);
    const Doubles of_products = load(row.total + i, count);
    const Doubles total = up(of_products + c);
    const Bits is_known = (size <= largest_double) & (total <= largest_double);
    const Doubles products = smaller(load(row.columns + i, count), row.nonzero);
    const Doubles leaves = products + where(c == 0.0, Doubles(0.0), 1.0);
    const Doubles before_last = larger(leaves - 1.0, 0.0);
    const Doubles h = products * format.underflow;
    const Doubles last = recorded_rounding(size, products, format);
    const Doubles classical = up_through_many((before_last * format.u) * total + h);

    const Doubles exact = smaller((size + classical + last) * many_up, total);
    const Doubles of_squares = sums_at(row.squares, i, count), squares = of_squares + c * c;
    const Doubles one_sided =
        squares_of_one_sign(of_squares, sums_at(row.signed_squares, i, count), row.signed_squares_error) + c * c;
    const PartialSums sums = partial_sums_of(exact, total, one_sided, 1.0 + (2.0 * format.u) * leaves, h);
    const FirstPlaces places = ufps_of(sums, leaves, one_at_most(leaves), binades);
    const Doubles by_sizes = up_through_many(format.u * (of_products + places.sum) + h);
    const Doubles before = smaller(by_sizes, classical);
    const Doubles any_order = up(classical + last), partial_sums = up(before + last);
    store_bound(result.any_order, i, any_order, is_known, count);
    store_bound(result.partial_sums, i, partial_sums, is_known, count);
    store_bound(result.slack, i, (before + row.slack_units * of_products) * many_up + lost, is_known, count);
    if (row.paths != nullptr) {
      const Doubles known = (load(row.paths + i, count) + h + last) * many_up;
      store_bound(result.order_aware, i, smaller(known, any_order), is_known, count);
    }
    if (row.tail_factor > 0.0) {
      const Doubles unrecorded = where(products == 0.0, 0.0, rounding_at((exact + before) * many_up, format));
      const Doubles inner = where(leaves >= 2.0, squares, 0.0) + places.squares;
      const Doubles root = root_up(((format.u * format.u) * inner + unrecorded * unrecorded) * many_up + lost);
      const Doubles by_chance = (row.tail_factor * root + h) * many_up;
      store_bound(result.probabilistic, i, smaller(by_chance, partial_sums), is_known, count);
    }
    const Bits is_empty = (of_products + c == 0.0) & (size == 0.0);
    store_bound(result.kappa, i, where(is_empty, 1.0, (of_products + c) / size), size <= largest_double, count);
  });
}

void running_row(const RecordedSums& row, const RowFormat& format, double* places, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles size = magnitude(load(row.y + i, count)), total = load(row.total + i, count);
    const Doubles products = smaller(load(row.columns + i, count), row.nonzero);
    const Doubles apart = smaller(load_or_zero(row.products, i, count), total);
    const Doubles roundings = format.u * (apart + load(places + i, count)) + products * format.underflow;
    const Doubles bound = (roundings + recorded_rounding(size, products, format)) * many_up;
    store_bound(places, i, bound, (size <= largest_double) & (total <= largest_double), count);
  });
}

/// Upper bound over all runs of the sum of the products' magnitudes.
template <class Count>
inline Doubles largest_total(const SumRow& row, std::size_t i, Count count) {
  const Doubles total = sums_at(row.total, i, count);
  return row.moves_by_norm ? up(total + norm_up(row.reach, load(row.norms + i, count))) : total;
}

void slack_row(const OrderedSums& row, const double* added, double* slack, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles off = load(added + i, count) + load(row.by_operands + i, count);
    store(slack + i, (off + row.slack_units * largest_total(row.sums, i, count)) * many_up + lost, count);
  });
}

void in_order_row(const OrderedSums& row, const RowFormat& format, const double* places, const RowErrors& result,
                  std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles own = load_or_zero(row.sums.own, i, count), c = load_or_zero(row.sums.addend, i, count);
    const Doubles of_products = largest_total(row.sums, i, count), total = up(of_products + c);
    const Doubles products = smaller(load(row.sums.columns + i, count), row.sums.nonzero);
    const Doubles moved = up(load(row.by_operands + i, count) + own);
    const Doubles exact = smaller(up(magnitude(load(row.sums.y + i, count)) + moved), total);
    const Doubles apart = smaller(load_or_zero(row.products, i, count), of_products);
    const Doubles roundings = format.u * (apart + load(places + i, count)) + products * format.underflow;
    const Doubles before = up_through_many(roundings), rounded = up(exact + before);
    const Doubles last = where(products == 0.0, 0.0, rounding_at(rounded, format));
    const Doubles error = up(before + last);
    const Bits is_finite = (rounded <= format.largest) & (up(total + error) < format.largest);
    const Doubles smallest = where(is_finite, error, infinity);
    store(result.added + i, smaller(up(own + smallest), load(result.added + i, count)), count);
    store(result.moved + i, smaller(up(moved + smallest), load(result.moved + i, count)), count);
  });
}

template <class Number, std::size_t panels>
void first_places_of_panels(const StepsOfRow<Number>& row, const Number* b, std::size_t k, Number* result) {
  using Vector = simd::Native<Number>;
  constexpr auto exponent_bits = static_cast<typename Vector::Mask::Number>(
      sizeof(Number) == sizeof(double) ? std::int64_t{0x7ff0000000000000} : std::int64_t{0x7f800000});
  constexpr std::size_t width = columns_of_panel<Number>, in_panel = width / Vector::lanes;
  constexpr std::size_t vectors = panels * in_panel;
  struct Sums {
    Vector v[vectors];
  };
  const auto at_column = [&](const Number* column, std::size_t i) {
    return Vector::load(column + i / in_panel * k * width + i % in_panel * Vector::lanes);
  };
  Sums below[64], top = {}, places = {}, slack;
  std::size_t depth = 0;
  for (std::size_t i = 0; i < vectors; ++i) slack.v[i] = Vector::load(row.slack + i * Vector::lanes);
  const auto round = [&](const Vector& x, std::size_t i) {
    const Vector size = magnitude(x) + slack.v[i];
    places.v[i] += simd::bits_as<Number>(bits_of(size) & exponent_bits);
  };
  for (std::size_t step = 0; step < row.count; ++step) {
    const SumStep& next = row.steps[step];
    if (next.kind == SumStep::Kind::join) {
      --depth;
      for (std::size_t i = 0; i < vectors; ++i) top.v[i] += below[depth].v[i];
    } else {
      const auto term = static_cast<std::size_t>(next.k);
      const Number* column = b + term * width;
      const Number factor = row.a[term];
      if (next.kind == SumStep::Kind::round) {
        for (std::size_t i = 0; i < vectors; ++i) round(factor * at_column(column, i), i);
        continue;
      }
      if (next.kind == SumStep::Kind::start) {
        below[depth++] = top;
        for (std::size_t i = 0; i < vectors; ++i) top.v[i] = factor * at_column(column, i);
        if (!row.rounds_starts) continue;
      } else {
        for (std::size_t i = 0; i < vectors; ++i) top.v[i] += factor * at_column(column, i);
      }
    }
    for (std::size_t i = 0; i < vectors; ++i) round(top.v[i], i);
  }
  for (std::size_t i = 0; i < vectors; ++i) places.v[i].store(result + i * Vector::lanes);
}

template <class Number>
void first_places_row(const StepsOfRow<Number>& row, const Number* b, std::size_t k, std::size_t panels,
                      Number* places) {
  if constexpr (simd::register_bytes == 64) {  // such processors have 32 registers
    if (panels == panels_at_once) return first_places_of_panels<Number, panels_at_once>(row, b, k, places);
  }
  constexpr std::size_t width = columns_of_panel<Number>;
  StepsOfRow<Number> some = row;
  std::size_t p = 0;
  for (; p + 2 <= panels; p += 2) {
    some.slack = row.slack + p * width;
    first_places_of_panels<Number, 2>(some, b + p * k * width, k, places + p * width);
  }
  if (p == panels) return;
  some.slack = row.slack + p * width;
  first_places_of_panels<Number, 1>(some, b + p * k * width, k, places + p * width);
}

}  // namespace

const SumKernels DRIFTBOUND_SIMD_NAME(sums) = {
    local_row, running_row, slack_row, in_order_row, first_places_row<double>, first_places_row<float>};

}  // namespace driftbound::bounds
