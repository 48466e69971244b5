// The kernels of `RowKernels`. Each vector lane holds one element of the row.

#include "bounds/kernels/rows.hpp"

#include "bounds/kernels/doubles.hpp"
#include "bounds/kernels/partial_sums.hpp"

namespace driftbound::bounds {
namespace {

/// The largest magnitude of the numbers passed to see(); infinite if one of them is not finite.
template <class Vector>
class Largest {
public:
  void see(const Vector& x) {
    constexpr bool is_double = sizeof(typename Vector::Number) == sizeof(double);
    const Vector size = magnitude(x);
    finite_ &= size <= static_cast<typename Vector::Number>(is_double ? largest_double : double{largest_float});
    largest_ = larger(size, largest_);
  }
  double value() const { return simd::every(finite_) ? double{simd::largest_of(largest_)} : infinity; }

private:
  Vector largest_ = {};
  typename Vector::Mask finite_ = largest_ == 0;
};

double largest_row(const double* x, std::size_t n) {
  Largest<Doubles> largest;
  each(n, [&](std::size_t i, auto count) { largest.see(load(x + i, count)); });
  return largest.value();
}

double weighted_sum_row(const double* d, const double* x, std::size_t n) {
  Doubles even = {}, odd = {};
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even += magnitude(load(d + i, lanes) * load(x + i, lanes));
    odd += magnitude(load(d + i + lanes, lanes) * load(x + i + lanes, lanes));
  }
  for (; i < n; i += lanes) {
    const std::size_t count = n - i < lanes ? n - i : lanes;
    even += magnitude(load(d + i, count) * load(x + i, count));
  }
  return sum_of(even + odd);
}

double weighted_squares_row(const double* d, const double* x, std::size_t n) {
  Doubles sums = {};
  each(n, [&](std::size_t i, auto count) {
    const Doubles weighted = load(d + i, count) * load(x + i, count);
    sums += weighted * weighted;
  });
  return sum_of(sums);
}

double count_nonzero_row(const double* x, std::size_t n) {
  Doubles counts = {};
  each(n, [&](std::size_t i, auto count) { counts += where(load(x + i, count) != 0.0, Doubles(1.0), 0.0); });
  return sum_of(counts);
}

void larger_operand_row(const double* x, const double* e, double* result, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    store(result + i, up(magnitude(load(x + i, count)) + load_or_zero(e, i, count)), count);
  });
}

/// result = x where x <= limit, else 0, for x >= 0.
void up_to_row(const double* x, double limit, double* result, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles values = load(x + i, count);
    store(result + i, where(values <= limit, values, 0.0), count);
  });
}

inline Floats floats_up(const Doubles& x) {
  return floats_of(x * (1.0 + 0x1p-22));
}
/// max(|x| scale, least); 0 if x is 0.
inline Doubles raised(const Doubles& x, double scale, double least) {
  return where(x == 0.0, 0.0, larger(magnitude(x) * scale, least));
}

void coarse_row(const double* x, double scale, float* result, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    store(result + i, floats_up(raised(load(x + i, count), scale, 0x1p-60)), count);
  });
}

void coarse_squares_row(const double* x, double scale, float* result, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles scaled = raised(load(x + i, count), scale, 0x1p-30);
    store(result + i, floats_up(scaled * scaled), count);
  });
}

/// result = (scale x) |scale x|, rounded to nearest; unlike in coarse_row(), small numbers are not raised.
void coarse_signed_squares_row(const double* x, double scale, float* result, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles scaled = load(x + i, count) * scale;
    store(result + i, floats_of(scaled * magnitude(scaled)), count);
  });
}

/// Upper bound of |sum_k w_k delta_k| for |delta_k| <= E_k and ||delta||_2 <= row.radius.
template <class Count>
inline Doubles moved_by_operands(const SumRow& row, std::size_t i, Count count) {
  if (!row.is_moved) return Doubles{};
  return smaller(norm_up(row.radius, load(row.norms + i, count)), sums_at(row.moved, i, count));
}

void move_row(const SumRow& row, double* moved, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles by_operands = moved_by_operands(row, i, count);
    store(moved + i, up(by_operands + load_or_zero(row.own, i, count)), count);
  });
}

/// max(u ufp(t), eta); 0 for t = 0, infinite if t is above the largest number of the format.
inline Doubles rounding_of(const Doubles& t, const RowFormat& format) {
  return where(t == 0.0, t, where(t <= format.largest, rounding_at(t, format), infinity));
}

/// Upper bounds over all runs: `total` of the sum of the products' magnitudes; `squares` of c^2, c the addend, plus the
/// sum of squares of the products of one sign (of all products if row.knows_signed_squares is not set).
struct ProductSizes {
  Doubles total, squares;
};

template <class Count>
inline ProductSizes product_sizes(const SumRow& row, const Doubles& c, std::size_t i, Count count) {
  const Doubles all_squares = sums_at(row.squares, i, count);
  Doubles total = sums_at(row.total, i, count), squares = all_squares;
  if (row.knows_signed_squares) {
    squares = squares_of_one_sign(squares, sums_at(row.signed_squares, i, count), row.signed_squares_error);
  }
  squares += c * c;
  if (row.moves_by_norm) total = up(total + norm_up(row.reach, load(row.norms + i, count)));
  if (!row.moves_by_norm && !row.knows_signed_squares) return {total, squares};
  const Doubles further = norm_up(row.reach, load(row.largest + i, count));
  const Doubles moved = squares + (2.0 * further) * root_up(squares) + further * further;
  return {total, row.moves_by_norm ? moved : smaller(moved, all_squares + c * c)};
}

/// Upper bound over all runs of the sum of squares of all products and of the addend c.
template <class Count>
inline Doubles all_squares_of(const SumRow& row, const Doubles& c, std::size_t i, Count count) {
  const Doubles squares = sums_at(row.squares, i, count) + c * c;
  if (!row.moves_by_norm) return squares;
  const Doubles further = norm_up(row.reach, load(row.largest + i, count));
  return squares + (2.0 * further) * root_up(squares) + further * further;
}

/// Mean square of the error of rounding t to nearest (T-75), divided by u^2 t^2.
constexpr double rounding_variance = 0.18;

void any_order_row(const SumRow& row, const RowFormat& format, const RowErrors& result, std::size_t n) {
  const std::size_t binades = binades_of(row.nonzero + 1.0);
  each(n, [&](std::size_t i, auto count) {
    const Doubles own = load_or_zero(row.own, i, count), c = load_or_zero(row.addend, i, count);
    const Doubles moved = up(moved_by_operands(row, i, count) + own);
    const Doubles products = smaller(load(row.columns + i, count), row.nonzero);
    const Doubles leaves = products + where(c == 0.0, Doubles(0.0), 1.0);
    const Doubles before_last = larger(leaves - 1.0, 0.0);
    const Doubles h = products * format.underflow;

    const ProductSizes sizes = product_sizes(row, c, i, count);
    const Doubles of_products = sizes.total, squares = sizes.squares;
    const Doubles total = up(of_products + c);
    const Doubles exact = smaller(up(magnitude(load(row.y + i, count)) + moved), total);

    const Doubles growth = 1.0 + (2.0 * format.u) * leaves;
    const PartialSums sums = partial_sums_of(exact, total, squares, growth, h);
    const Doubles added_up = ufps_of(sums, leaves, one_at_most(leaves), binades).sum;
    Doubles by_sizes = format.u * (of_products + added_up) + h;
    if (row.sets_apart) {
      const Doubles small = growth * (row.small_norm * load(row.norms + i, count)) + h;
      const Doubles others = smaller(products, row.not_small) + (leaves - products);
      const Doubles far =
          (growth * growth * squares * (1.0 + 0x1p-16) + (0x1p17 * (small + h)) * (small + h)) * many_up + lost;
      const Doubles two_at_most = smaller(larger(others - 1.0, 0.0), 2.0);
      const Doubles among_others = ufps_of({sums.most, far, sums.offset}, others, two_at_most, binades).sum;
      by_sizes = smaller(by_sizes, format.u * (of_products + among_others) + small + h);
    }
    const Doubles classical = (before_last * format.u) * total + h;
    const Doubles before = up_through_many(smaller(where(sums.most < infinity, by_sizes, infinity), classical));

    const Doubles rounded = up(exact + before);
    const Doubles nothing_rounded = where(rounded <= format.largest, Doubles(0.0), infinity);
    const Doubles last = where(products == 0.0, nothing_rounded, rounding_of(rounded, format));
    const Doubles error = up(before + last);
    const Doubles roundings = where(up(total + error) < format.largest, error, infinity);
    store(result.added + i, up(own + roundings), count);
    store(result.moved + i, up(moved + roundings), count);
  });
}

/// Computes root sums of squares of the bounds of the roundings (T-74) where any_order_row() adds up the bounds, and
/// the estimate of T-75.
void chances_row(const SumRow& row, const RowFormat& format, const double* added, const RowChances& result,
                 std::size_t n) {
  const std::size_t binades = binades_of(row.nonzero + 1.0);
  each(n, [&](std::size_t i, auto count) {
    const Doubles own = load_or_zero(row.own, i, count), c = load_or_zero(row.addend, i, count);
    const Doubles moved = up(moved_by_operands(row, i, count) + own), signed_y = load(row.y + i, count);
    const Doubles products = smaller(load(row.columns + i, count), row.nonzero);
    const Doubles leaves = products + where(c == 0.0, Doubles(0.0), 1.0);
    const Doubles h = products * format.underflow;

    const ProductSizes sizes = product_sizes(row, c, i, count);
    const Doubles total = up(sizes.total + c), all_squares = all_squares_of(row, c, i, count);
    const Doubles exact = smaller(up(magnitude(signed_y) + moved), total);
    const PartialSums sums = partial_sums_of(exact, total, sizes.squares, 1.0 + (2.0 * format.u) * leaves, h);
    const Doubles inner = ufps_of(sums, leaves, one_at_most(leaves), binades).squares;
    const Doubles error = load(added + i, count);
    const Doubles last = where(products == 0.0, 0.0, rounding_at(up(exact + error), format));
    const Doubles of_products = where(leaves >= 2.0, all_squares, 0.0);
    const Doubles squares = ((format.u * format.u) * (of_products + inner) + last * last) * many_up + lost;
    const Bits is_known = error < infinity;
    store(result.amplitudes + i, where(is_known, root_up(squares), infinity), count);
    store(result.residuals + i, where(is_known, up(own + h), infinity), count);
    store(result.sizes + i, total, count);

    const Doubles signed_c = load_or_zero(row.constants, i, count), from_zero = signed_y - signed_c;
    const Bits is_alone = signed_c == 0.0;
    const Doubles through = signed_c * signed_c + signed_c * signed_y + signed_y * signed_y;
    const Doubles drift = larger(from_zero * from_zero, where(is_alone, 0.0, through));
    const Doubles count_of_terms = larger(leaves, 1.0);
    const Doubles bridge = drift * (leaves + 1.0) * (2.0 * leaves + 1.0) / (6.0 * count_of_terms);
    const Doubles spread = larger(all_squares - signed_y * signed_y / count_of_terms, 0.0);
    const Doubles of_last = where(is_alone, 0.0, signed_y * signed_y);
    const Doubles variance = bridge + (leaves + 1.0) * (1.0 / 6.0) * spread + of_last + all_squares;
    const Doubles deviation = format.u * root_up(rounding_variance * variance);
    store(result.estimates + i, where(leaves == 0.0, 0.0, where(is_known, deviation, infinity)), count);
  });
}

void limit_row(const double* centre, double norm, double half_largest, double* radius, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles limited = smaller(load(radius + i, count), norm);
    const Doubles half = up(0.5 * magnitude(load(centre + i, count)) + 0.5 * limited);
    store(radius + i, where(half < half_largest, limited, infinity), count);
  });
}

ReluFlags relu_row(const double* x, const double* e, double* slopes, double* remainder, double* moved, std::size_t n) {
  Bits bends = {}, active = {};
  each(n, [&](std::size_t i, auto count) {
    const Doubles value = load(x + i, count), radius = load_or_zero(e, i, count);
    const Doubles beyond = larger(up(radius - magnitude(value)), 0.0);
    bends |= beyond > 0.0;
    active |= value > 0.0;
    store(slopes + i, where(value > 0.0, Doubles(1.0), 0.0), count);
    if (e == nullptr) return;
    store(remainder + i, beyond, count);
    store(moved + i, where(value >= 0.0, radius, beyond), count);
  });
  return {simd::any(bends), simd::any(active)};
}

/// Radii e for which (1 - s) e, s the slope of the chord, does not underflow.
constexpr double least_for_chord = 0x1p-900, most_for_chord = 0x1p900;

bool relu_chords_row(const double* x, const double* e, double* slopes, double* remainder, std::size_t n) {
  Bits is_any_open = {};
  each(n, [&](std::size_t i, auto count) {
    const Doubles value = load(x + i, count), radius = load(e + i, count);
    const Bits is_open = (radius > magnitude(value)) & (radius >= least_for_chord) & (radius <= most_for_chord);
    is_any_open |= is_open;
    const Doubles chord = (radius + value) / (2.0 * radius), other = up(1.0 - chord);
    const Doubles near = up(where(value > 0.0, other, chord) * radius);
    const Doubles far = up(up(where(value > 0.0, chord, other) * radius) - magnitude(value));
    store(slopes + i, where(is_open, chord, load(slopes + i, count)), count);
    store(remainder + i, where(is_open, larger(near, far), load(remainder + i, count)), count);
  });
  return simd::any(is_any_open);
}

void sum_row(const double* y, const double* own, const RowFormat* format, const RowErrors& result, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles of_shadow = load_or_zero(own, i, count);
    const Doubles moved = up(load(result.moved + i, count) + of_shadow);
    if (format == nullptr) return store(result.moved + i, moved, count);
    const Doubles rounding = rounding_of(up(magnitude(load(y + i, count)) + moved), *format);
    store(result.added + i, up(of_shadow + rounding), count);
    store(result.moved + i, up(moved + rounding), count);
  });
}

void add_row(double* sum, const double* more, std::size_t n) {
  each(n, [&](std::size_t i, auto count) { store(sum + i, up(load(sum + i, count) + load(more + i, count)), count); });
}

void add_constants_row(double* y, double* error, const double* constants, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles sum = load(y + i, count) + load_or_zero(constants, i, count);
    const Doubles rounding = constants == nullptr ? Doubles{} : 0x1p-53 * magnitude(sum);
    const Doubles errors = up(load(error + i, count) + rounding);
    store(y + i, sum, count);
    store(error + i, where(magnitude(sum) <= largest_double, errors, infinity), count);
  });
}

void outer_row(double scale, double underflow, const double* columns, double* result, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles column = load(columns + i, count);
    store(result + i, scale * column + where(column == 0.0, Doubles(0.0), underflow), count);
  });
}

void scale_row(const double* e, const double* constants, double* result, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles radius = load(e + i, count), factor = magnitude(load(constants + i, count));
    const Bits is_zero = (radius == 0.0) | (factor == 0.0);
    store(result + i, where(is_zero, 0.0, radius * factor * many_up + lost), count);
  });
}

/// Upper bound of (e^x - 1 - x) / rate^2 for x = rate e, up to roundings; infinite for x > 64.
inline Doubles exp_bend(const Doubles& e, double rate) {
  const Doubles x = rate * e;
  const Doubles near = 0.5 * e * e * (1.0 + 0.572762 * x);  // 2/3 + e^x / 3, with e^x <= 1 + (e - 1) x for x <= 1
  constexpr double integers_only = 0x1.8p52, bias = 1023.0;
  // The last bits of `power` hold the biased exponent of a power of two that is at least e^x.
  const Doubles power = (smaller(x, 64.0) * 1.4426951 + 0.5) + (integers_only + bias);
  const Doubles far = simd::bits_as<double>(bits_of(power) << 52) / (rate * rate);
  return where(x <= 1.0, near, where(x <= 64.0, far, infinity));
}

void smooth_row(const SmoothRow& row, const RowFormat& format, const RowErrors& result, double* remainder,
                std::size_t n) {
  constexpr double slope_error = 0x1p-49, curvature_error = 0x1p-47, third = 0.33333333333333337;
  each(n, [&](std::size_t i, auto count) {
    const Doubles size = magnitude(load(row.y + i, count)), e = load(row.e + i, count);
    const Doubles at_x = row.curvature_factor * magnitude(load(row.curvatures + i, count)) + curvature_error;
    const Doubles curvature = smaller(at_x + (row.third_derivative * third) * e, row.most_curvature);
    Doubles of_curvature = 0.5 * e * e * curvature;
    if (row.tail_rate > 0.0) {
      const Doubles m = load((row.tail_follows_slope ? row.slopes : row.curvatures) + i, count);
      const Doubles tail = row.tail_factor * (magnitude(m) + curvature_error);
      of_curvature = smaller(tail * exp_bend(e, row.tail_rate), of_curvature);
    }
    const Doubles bend = (slope_error * e + of_curvature) * many_up + lost;
    const Doubles own = (row.relative * size + row.absolute) * many_up + lost;
    const Doubles moved = (magnitude(load(row.slopes + i, count)) * e + bend + own) * many_up + lost;
    Doubles rounding = row.units * (format.u * (size + moved) + format.eta) + row.absolute_units * format.u;
    if (row.x != nullptr) rounding += row.steps * (magnitude(load(row.x + i, count)) + e) + row.least_step;
    rounding = rounding * many_up + lost;
    const Doubles radius = up(moved + rounding);
    const Doubles overflow = where(up(size + radius) <= format.largest, Doubles(0.0), infinity);
    store(remainder + i, where(e == 0.0, 0.0, bend), count);
    store(result.added + i, up(own + rounding) + overflow, count);
    store(result.moved + i, radius + overflow, count);
  });
}

void add_shares_row(double* d, double* defect, const double* share, const double* share_defect, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles sum = load(d + i, count) + load(share + i, count);
    const Doubles rounding = 0x1p-53 * magnitude(sum);
    const Doubles before = load(defect + i, count) + load_or_zero(share_defect, i, count);
    store(d + i, sum, count);
    const Doubles defects = (before + rounding) * (1.0 + 0x1p-50);
    store(defect + i, where(magnitude(sum) <= largest_double, defects, infinity), count);
  });
}

/// sum |d x| for x >= 0: the products and four partial sums per lane are in single precision, the last sum in double.
double single_weighted_sum_row(const float* d, const float* x, std::size_t n) {
  constexpr std::size_t chains = 4;
  constexpr simd::Whole<lanes> whole;
  Floats sums[chains] = {};
  std::size_t i = 0;
  for (; i + chains * lanes <= n; i += chains * lanes)
    for (std::size_t j = 0; j < chains; ++j) {
      const std::size_t at = i + j * lanes;
      sums[j] += magnitude(load(d + at, whole) * load(x + at, whole));
    }
  for (; i < n; i += lanes) {
    const std::size_t count = n - i < lanes ? n - i : lanes;
    sums[0] += magnitude(load(d + i, count) * load(x + i, count));
  }
  const Doubles sum = doubles_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
  return sum_of(sum);
}

/// sum d^2, in double.
double single_squares_row(const float* d, std::size_t n) {
  Doubles sums = {};
  each(n, [&](std::size_t i, auto count) {
    const Doubles values = doubles_of(load(d + i, count));
    sums += values * values;
  });
  return sum_of(sums);
}

/// result = d factors. Returns the largest magnitude; infinite if a product is not finite.
double single_product_row(const float* d, const float* factors, float* result, std::size_t n) {
  Largest<Floats> largest;
  each(n, [&](std::size_t i, auto count) {
    const Floats products = load(d + i, count) * load(factors + i, count);
    store(result + i, products, count);
    largest.see(products);
  });
  return largest.value();
}

double single_sum_row(const float* more, float* sum, std::size_t n) {
  Largest<Floats> largest;
  each(n, [&](std::size_t i, auto count) {
    const Floats sums = load(sum + i, count) + load(more + i, count);
    store(sum + i, sums, count);
    largest.see(sums);
  });
  return largest.value();
}

/// left = s rounded to single precision, or 0 if |s| e <= limit or |s| is below the smallest normal number of float32.
void leave_flat_row(const double* slopes, const double* e, double limit, float* left, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    const Doubles values = load(slopes + i, count);
    const Doubles steep = where(magnitude(values) < 0x1p-126, 0.0, values);
    const Doubles kept = where(magnitude(values) * load(e + i, count) <= limit, 0.0, steep);
    store(left + i, floats_of(kept), count);
  });
}

/// x >= 0 rounded up to single precision, to at least 2^-126 if x is not 0. NaN stays NaN.
inline Floats charge_of(const Doubles& x) {
  const Doubles raised = where(x < 0x1p-126, 0x1p-126, x);
  return floats_up(where(x == 0.0, 0.0, raised));
}

void single_charges_row(const RowCharges& row, float* charged, std::size_t n) {
  each(n, [&](std::size_t i, auto count) {
    Doubles charges = load_or_zero(row.added, i, count) + load_or_zero(row.remainder, i, count);
    if (row.left != nullptr) {
      const Doubles slopes = load(row.slopes + i, count), left = doubles_of(load(row.left + i, count));
      const Doubles by_slope = magnitude(slopes) * load(row.e + i, count) + lost;
      charges += where(slopes == left, 0.0, where(left == 0.0, by_slope, 0.0));
    }
    store(charged + i, charge_of(charges), count);
  });
}

}  // namespace

const RowKernels DRIFTBOUND_SIMD_NAME(rows) = {largest_row,
                                               weighted_sum_row,
                                               weighted_squares_row,
                                               count_nonzero_row,
                                               larger_operand_row,
                                               up_to_row,
                                               coarse_row,
                                               coarse_squares_row,
                                               coarse_signed_squares_row,
                                               move_row,
                                               any_order_row,
                                               chances_row,
                                               limit_row,
                                               relu_row,
                                               relu_chords_row,
                                               sum_row,
                                               add_row,
                                               add_constants_row,
                                               outer_row,
                                               scale_row,
                                               smooth_row,
                                               add_shares_row,
                                               single_weighted_sum_row,
                                               single_squares_row,
                                               single_product_row,
                                               single_sum_row,
                                               leave_flat_row,
                                               single_charges_row};

}  // namespace driftbound::bounds
