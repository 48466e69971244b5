#include "region/kernels/cells.hpp"

#include <cstddef>

#include "bounds/kernels/partial_sums.hpp"
#include "simd/vector.hpp"

namespace driftbound::region {
namespace {

using V = simd::Vector<double, cell_lanes>;
using simd::magnitude, simd::square_root;
constexpr std::size_t lanes = cell_lanes;

/// Half a unit of the last place of 1 in double and in float32.
constexpr double u = 0x1p-53, u_float = 0x1p-24;
/// More than any product that underflows, of float32 and of double.
constexpr double tiny_float = 0x1p-140, tiny = 0x1p-900;

/// Bounds the relative error of a sum of n products of doubles that are computed in any order, generously.
double sum_error(std::size_t n) {
  return static_cast<double>(n + 8) * 0x1p-52;
}

template <std::size_t outputs, std::size_t vectors>
void tile(const double* w, const double* x, double* y, std::size_t inputs, std::size_t stride) {
  using N = simd::Native<double>;
  N sums[outputs][vectors];
  for (auto& row : sums)
    for (N& sum : row) sum = N(0.0);
  for (std::size_t k = 0; k < inputs; ++k) {
    N column[vectors];
    for (std::size_t v = 0; v < vectors; ++v) column[v] = N::load(x + k * stride + v * N::lanes);
    for (std::size_t i = 0; i < outputs; ++i) {
      const N weight(w[i * inputs + k]);
      for (std::size_t v = 0; v < vectors; ++v) sums[i][v] = simd::multiply_add(weight, column[v], sums[i][v]);
    }
  }
  for (std::size_t i = 0; i < outputs; ++i)
    for (std::size_t v = 0; v < vectors; ++v) sums[i][v].store(y + i * stride + v * N::lanes);
}

template <std::size_t vectors>
void strip(const double* w, const double* x, double* y, std::size_t outputs, std::size_t inputs, std::size_t stride) {
  std::size_t i = 0;
  for (; i + 4 <= outputs; i += 4) tile<4, vectors>(w + i * inputs, x, y + i * stride, inputs, stride);
  for (; i < outputs; ++i) tile<1, vectors>(w + i * inputs, x, y + i * stride, inputs, stride);
}

void product(const double* w, const double* x, double* y, std::size_t outputs, std::size_t inputs, std::size_t columns,
             std::size_t stride) {
  constexpr std::size_t native = simd::native_lanes<double>;
  constexpr std::size_t most = native >= 8 ? 4 : 2;  // vectors of a tile that registers hold
  std::size_t column = 0;
  for (; column + most * native <= columns; column += most * native)
    strip<most>(w, x + column, y + column, outputs, inputs, stride);
  for (; column < columns; column += 2 * native) strip<2>(w, x + column, y + column, outputs, inputs, stride);
}

/// One feature of a value.
class Feature {
public:
  Feature(const CellShape& shape, CellValues values, std::size_t i)
      : shape_(shape),
        affine_(values.affine + i * shape.affine() * lanes),
        radii_(values.radii + i * shape.radii * lanes),
        steep_(values.steep + i * shape.dimension * lanes) {}

  V middle() const { return V::load(affine_); }
  V tangent(std::size_t j) const { return V::load(affine_ + (1 + j) * lanes); }
  V symbol(std::size_t k) const { return V::load(symbol_row(k)); }
  V deviation() const { return V::load(radii_ + deviation_row * lanes); }
  V size() const { return V::load(radii_ + size_row * lanes); }
  /// Of the exact value and of every run.
  V run_size() const { return size() + rounding(); }
  V rounding() const { return has_rounding() ? V::load(radii_ + shape_.rounding_row() * lanes) : V(0.0); }
  V steepness() const { return V::load(radii_ + steepness_row * lanes); }
  V residual(std::size_t j) const { return V::load(radii_ + (residual_row + j) * lanes); }
  V steep(std::size_t j) const { return V::load(steep_ + j * lanes); }
  bool has_rounding() const { return shape_.has_rounding; }
  bool has_gradient() const { return shape_.has_gradient; }

  void set_middle(V x) const { x.store(affine_); }
  void set_tangent(std::size_t j, V x) const { x.store(affine_ + (1 + j) * lanes); }
  void set_symbol(std::size_t k, V x) const { x.store(symbol_row(k)); }
  void set_deviation(V x) const { (x * (1.0 + 0x1p-48)).store(radii_ + deviation_row * lanes); }
  void set_rounding(V x) const {
    if (has_rounding()) (x * (1.0 + 0x1p-48)).store(radii_ + shape_.rounding_row() * lanes);
  }
  void set_residual(std::size_t j, V x) const { (x * (1.0 + 0x1p-48)).store(radii_ + (residual_row + j) * lanes); }
  double* symbol_row(std::size_t k) const { return affine_ + (1 + shape_.dimension + k) * lanes; }

  /// sum |t_j| h_j
  V reach() const {
    V sum(0.0);
    for (std::size_t j = 0; j < shape_.dimension; ++j) sum += magnitude(tangent(j)) * V::load(shape_.half + j * lanes);
    return sum;
  }
  /// How far the value is from its middle.
  V away() const {
    V sum = reach() + deviation();
    for (std::size_t k = 0; k < shape_.used; ++k) sum += magnitude(symbol(k));
    return sum * (1.0 + 0x1p-44);
  }

  /// Sets what follows from the other rows: X, and T and the derivatives' bounds.
  void complete() const {
    const V size = magnitude(middle()) + away();
    (size * (1.0 + 0x1p-46)).store(radii_ + size_row * lanes);
    if (!has_gradient()) return;
    V steepest(0.0);
    for (std::size_t j = 0; j < shape_.dimension; ++j) {
      V sum = magnitude(tangent(j)) + residual(j);
      for (std::size_t k = 0; k < shape_.used; ++k)
        sum += magnitude(symbol(k)) * V::load(shape_.turns + (k * shape_.dimension + j) * lanes);
      sum = sum * (1.0 + 0x1p-44);
      sum.store(steep_ + j * lanes);
      steepest = larger(steepest, sum);
    }
    steepest.store(radii_ + steepness_row * lanes);
  }

private:
  const CellShape& shape_;
  double *affine_, *radii_, *steep_;
};

struct Ends {
  V lower, upper;
};

/// Marks cells in which x is not bounded.
void poison(const CellShape& shape, V x) {
  (V::load(shape.poison) + x * V(0.0)).store(shape.poison);
}

Ends ends_of(const CellShape& shape, const Feature& x) {
  const V c = x.middle();
  const V half = x.away() + magnitude(c) * 0x1p-50 + tiny;
  poison(shape, half);
  return {c - half, c + half};
}

void store(double* rows, std::size_t i, V x) {
  x.store(rows + i * lanes);
}

/// The largest powers of two that are not above x >= 0.
V ufp(V x) {
  return {bounds::ufp(x.low), bounds::ufp(x.high)};
}

/// What sums of `products` products and a bias lose in float32, in any order, `leaves` of them not 0: T-68.
bounds::Doubles lost_by_sums(const bounds::Doubles& total, const bounds::Doubles& exact, const bounds::Doubles& squares,
                             const bounds::Doubles& leaves, double products) {
  using bounds::Doubles;
  const Doubles h(products * tiny_float), growth(1.0 + 2.0 * u_float * (products + 1.0));
  const bounds::PartialSums sums = bounds::partial_sums_of(exact, total, squares, growth, h);
  const Doubles added =
      bounds::ufps_of(sums, leaves, bounds::one_at_most(leaves), bounds::binades_of(products + 1.0)).sum;
  const Doubles before = (u_float * (total + added) + h) * bounds::many_up;
  const Doubles last = u_float * bounds::ufp((exact + before) * bounds::many_up) + tiny_float;
  return where(total < 0x1p126, (before + last) * bounds::many_up, Doubles(infinity));  // no sum overflows
}

V lost_by_sums(V total, V exact, V squares, V leaves, double products) {
  static_assert(lanes == 2 * bounds::lanes);
  return {lost_by_sums(total.low, exact.low, squares.low, leaves.low, products),
          lost_by_sums(total.high, exact.high, squares.high, leaves.high, products)};
}

/// What one rounding to float32 loses of a number of at most this magnitude.
V lost_by_rounding(V most) {
  return where(most < 0x1p126, ufp(most * (1.0 + 0x1p-40)) * u_float, V(infinity));
}

void dense(const CellShape& shape, const CellKernels::Layer& layer, const CellKernels::Terms& terms, CellValues values,
           CellSources sources, double* defect, std::size_t n) {
  // The rows here, and W^T g later.
  const double error = sum_error(layer.inputs), back = sum_error(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Feature y(shape, values, i);
    const double bias = layer.bias[i];
    const V total = (y.size() + __builtin_fabs(bias)) * (1.0 + error) + tiny;
    const V added = total * error;
    const V run_total = (total + y.rounding()) * (1.0 + error);
    V lost(0.0);
    y.set_middle(y.middle() + bias);
    y.set_deviation(y.deviation() * (1.0 + error) + added);
    if (y.has_rounding()) {
      const V by_norm = V::load(terms.norm) * layer.weight_norms[i] + tiny;
      const V moved = smaller(y.rounding(), by_norm) * (1.0 + error);
      const V exact = smaller((magnitude(y.middle()) + y.away() + moved) * (1.0 + 0x1p-46), run_total);
      const V both = V::load(terms.squares + i * lanes), difference = V::load(terms.signed_squares + i * lanes);
      const V of_one_sign = (both * (1.0 + 2.0 * error) + magnitude(difference)) * 0.5;
      const V squares = (of_one_sign + bias * bias) * (1.0 + error) + tiny;
      const V leaves = V::load(terms.count) + (bias == 0.0 ? 0.0 : 1.0);
      lost = lost_by_sums(run_total, exact, squares, leaves, static_cast<double>(layer.inputs));
      y.set_rounding(moved + lost);
    }
    if (y.has_gradient()) {
      const V turned = y.steepness() * ((error + back) * (1.0 + error)) + tiny;
      store(defect, i, turned);
      for (std::size_t j = 0; j < shape.dimension; ++j) y.set_residual(j, y.residual(j) * (1.0 + error) + turned);
    }
    y.complete();
    store(sources.added, i, added + total * back);
    store(sources.lost, i, lost + run_total * back);
  }
}

/// Gives symbols to what is worth one, as long as there are any, and returns where.
V::Mask give_symbols(CellShape& shape, const Feature& y, V added) {
  const auto is_large = (added > y.reach() * 0x1p-16) & (added > 0x1p-300);
  V given(0.0);
  if (simd::any(is_large)) {
    double worth[lanes], bends[lanes], has[lanes] = {};
    where(is_large, V(1.0), V(0.0)).store(worth);
    added.store(bends);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (worth[lane] == 0.0 || shape.next[lane] >= shape.symbols) continue;
      const std::size_t k = shape.next[lane]++;
      if (k >= shape.used) shape.used = k + 1;
      y.symbol_row(k)[lane] = bends[lane];
      has[lane] = static_cast<double>(k + 1);
    }
    given = V::load(has);
  }
  return given > 0.0;
}

void complete(CellShape& shape, const CellKernels::Operand* operands, std::size_t count, CellValues values,
              CellSources sources, std::size_t n) {
  // All that the step may take are 0 at first.
  std::size_t most = 0;
  for (const std::size_t taken : shape.next) most = taken > most ? taken : most;
  const std::size_t last = most + n < shape.symbols ? most + n : shape.symbols;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = shape.used; k < last; ++k) Feature(shape, values, i).set_symbol(k, V(0.0));
  for (std::size_t i = 0; i < n; ++i) {
    const Feature y(shape, values, i);
    const V added = V::load(sources.added + i * lanes);
    std::size_t before[lanes];
    for (std::size_t lane = 0; lane < lanes; ++lane) before[lane] = shape.next[lane];
    const auto is_given = give_symbols(shape, y, added);
    y.set_deviation(y.deviation() + where(is_given, V(0.0), added));
    if (!y.has_gradient()) continue;
    for (std::size_t j = 0; j < shape.dimension; ++j) {
      V residual(0.0), turned(0.0);
      for (std::size_t slot = 0; slot < count; ++slot) {
        const Feature x(shape, operands[slot].values, i);
        const V slope = magnitude(V::load(operands[slot].slopes.slope + i * lanes));
        const V spread = V::load(operands[slot].slopes.spread + i * lanes) + slope * (16.0 * u);
        residual += slope * x.residual(j);
        turned += spread * x.steep(j);
      }
      y.set_residual(j, residual + where(is_given, V(0.0), turned * (1.0 + 0x1p-46)));
      double rows[lanes];
      (turned / added * (1.0 + 0x1p-46)).store(rows);
      for (std::size_t lane = 0; lane < lanes; ++lane)
        if (shape.next[lane] != before[lane])
          shape.turns[(before[lane] * shape.dimension + j) * lanes + lane] = rows[lane];
    }
  }
  for (std::size_t i = 0; i < n; ++i) Feature(shape, values, i).complete();
}

void clear(const CellShape& shape, CellValues x, std::size_t first, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = first; k < shape.used; ++k) Feature(shape, x, i).set_symbol(k, V(0.0));
}

void squares(const CellShape& shape, CellValues operand, double* sums, double* differences, double* count,
             std::size_t n) {
  V not_zero(0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const Feature x(shape, operand, i);
    const V half = x.away() + x.rounding() + magnitude(x.middle()) * 0x1p-40 + tiny;
    const V most = larger(x.middle() + half, V(0.0)), least = larger(half - x.middle(), V(0.0));
    store(sums, i, most * most + least * least);
    store(differences, i, most * most - least * least);
    not_zero += where(x.run_size() > 0.0, V(1.0), V(0.0));
  }
  not_zero.store(count);
}

void norm(const CellShape& shape, const CellKernels::NormSource* operands, std::size_t count, CellValues values,
          const double* lost, double* result, std::size_t n) {
  V own(0.0), added(0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const V rounding = Feature(shape, values, i).rounding(), loss = V::load(lost + i * lanes);
    own += rounding * rounding;
    added += loss * loss;
  }
  V moved(0.0);
  for (std::size_t slot = 0; slot < count; ++slot) {
    V steepest(operands[slot].lipschitz);
    for (std::size_t i = 0; operands[slot].slopes != nullptr && i < n; ++i)
      steepest = larger(steepest, magnitude(V::load(operands[slot].slopes->slope + i * lanes)) +
                                      V::load(operands[slot].slopes->spread + i * lanes));
    moved += steepest * V::load(operands[slot].norm);
  }
  const double up = 1.0 + sum_error(n);
  const V by_operands = (moved + square_root(added)) * up + tiny, by_features = square_root(own) * up + tiny;
  smaller(by_operands, by_features).store(result);
}

void read(const CellShape& shape, CellValues x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    Feature(shape, x, i).complete();
  }
}

/// y = slope x + shift, up to the deviation `bound` of the linearisation.
void set_affine(const CellShape& shape, const Feature& x, const Feature& y, V slope, V shift) {
  y.set_middle(slope * x.middle() + shift);
  for (std::size_t j = 0; j < shape.dimension; ++j) y.set_tangent(j, slope * x.tangent(j));
  for (std::size_t k = 0; k < shape.used; ++k) y.set_symbol(k, slope * x.symbol(k));
}

void piecewise(const CellShape& shape, CellValues operand, const double* kinks, double left, double right,
               CellValues result, CellSlopes slopes, CellSources sources, std::size_t n) {
  const auto rounds = [](double slope) { return slope == 0.0 || slope == 1.0 || slope == -1.0 ? 0.0 : u_float; };
  const double loss = larger(V(rounds(left) * __builtin_fabs(left)), V(rounds(right) * __builtin_fabs(right)))[0];
  for (std::size_t i = 0; i < n; ++i) {
    const Feature x(shape, operand, i), y(shape, result, i);
    const double kink = kinks == nullptr ? 0.0 : kinks[i];
    const Ends ends = ends_of(shape, x);
    const V scale = (magnitude(ends.lower) + magnitude(ends.upper) + __builtin_fabs(kink)) * 4.0;
    const V lower = ends.lower - kink, upper = ends.upper - kink;
    const V error = scale * (2.0 * u);
    const auto is_right = lower >= error, is_left = upper <= -error;
    const V chord = (V(right) * upper - V(left) * lower) / (upper - lower);
    const V slope = where(is_right, V(right), where(is_left, V(left), where(upper > lower, chord, V(right))));
    // Of pieces - slope (x - k): 0 at the kink, and this at the ends.
    const V at_lower = (V(left) - slope) * lower, at_upper = (V(right) - slope) * upper;
    const V least = smaller(V(0.0), smaller(at_lower, at_upper)), most = larger(V(0.0), larger(at_lower, at_upper));
    const V largest = __builtin_fabs(left) + __builtin_fabs(right) + 1.0;
    const auto is_decided = is_right | is_left;
    const V shift = where(is_decided, V(0.0), (least + most) * 0.5);
    // What is exactly linear through 0 rounds nothing, unless it is scaled.
    const bool copies = kink == 0.0 && rounds(left) == 0.0 && rounds(right) == 0.0;
    const V bend = where(is_decided, copies ? V(0.0) : scale * largest * (8.0 * u),
                         (most - least) * 0.5 + scale * largest * (32.0 * u));
    set_affine(shape, x, y, slope, kink == 0.0 ? shift : shift + (kink - slope * kink));
    const V run = x.rounding();
    const V reach = run + error;
    const V away_left = where(lower - reach <= 0.0, magnitude(V(left) - slope), V(0.0));
    const V away_right = where(upper + reach >= 0.0, magnitude(V(right) - slope), V(0.0));
    const V spread = larger(away_left, away_right) * (1.0 + 4.0 * u);
    const V steepest = (magnitude(slope) + spread) * (1.0 + 4.0 * u);
    V lost(0.0);
    if (x.has_rounding() && loss != 0.0)
      lost = (kink == 0.0 ? x.run_size() : scale + run) * (loss * (1.0 + 0x1p-40)) + tiny_float;
    y.set_deviation(magnitude(slope) * x.deviation() * (1.0 + 4.0 * u));
    y.set_rounding(steepest * run + lost);
    store(slopes.slope, i, slope);
    store(slopes.spread, i, spread);
    store(sources.added, i, bend);
    store(sources.lost, i, lost);
  }
}

void scale(const CellShape& shape, CellValues operand, const double* a, const double* b, double error, bool rounds,
           CellValues result, CellSlopes slopes, CellSources sources, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const Feature x(shape, operand, i), y(shape, result, i);
    const double factor = a == nullptr ? 1.0 : a[i], shift = b == nullptr ? 0.0 : b[i];
    set_affine(shape, x, y, V(factor), V(shift));
    const bool copies = (factor == 1.0 || factor == -1.0) && shift == 0.0 && error == 0.0;
    const V size = x.size() * __builtin_fabs(factor) + __builtin_fabs(shift);
    const V added = copies ? V(0.0) : size * (error + 8.0 * u) + tiny;
    const double steepest = __builtin_fabs(factor) * (1.0 + error + 4.0 * u);
    V lost(0.0);
    y.set_deviation(x.deviation() * steepest);
    const V run = x.rounding() * steepest;
    if (x.has_rounding() && rounds)
      lost = lost_by_rounding(magnitude(y.middle()) + y.away() + added + run) + tiny_float;
    y.set_rounding(run + lost);
    store(slopes.slope, i, V(factor));
    store(slopes.spread, i, V(__builtin_fabs(factor) * error));
    store(sources.added, i, added);
    store(sources.lost, i, lost);
  }
}

void sum(const CellShape& shape, CellValues first, CellValues second, double sign, CellValues result,
         CellSlopes slopes_a, CellSlopes slopes_b, CellSources sources, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const Feature a(shape, first, i), b(shape, second, i), y(shape, result, i);
    y.set_middle(a.middle() + b.middle() * sign);
    for (std::size_t j = 0; j < shape.dimension; ++j) y.set_tangent(j, a.tangent(j) + b.tangent(j) * sign);
    for (std::size_t k = 0; k < shape.used; ++k) y.set_symbol(k, a.symbol(k) + b.symbol(k) * sign);
    const V added = (a.size() + b.size()) * (4.0 * u);
    V lost(0.0);
    y.set_deviation(a.deviation() + b.deviation());
    const V run = a.rounding() + b.rounding();
    if (y.has_rounding()) {
      const V most = magnitude(y.middle()) + y.away() + added + run;
      lost = where((a.run_size() > 0.0) & (b.run_size() > 0.0), lost_by_rounding(most), V(0.0));  // + 0 is exact
    }
    y.set_rounding(run + lost);
    store(slopes_a.slope, i, V(1.0));
    store(slopes_b.slope, i, V(sign));
    store(slopes_a.spread, i, V(0.0));
    store(slopes_b.spread, i, V(0.0));
    store(sources.added, i, added);
    store(sources.lost, i, lost);
  }
}

/// The range of a - b, whose tangents partly cancel.
Ends ends_of_difference(const CellShape& shape, const Feature& a, const Feature& b) {
  const V c = a.middle() - b.middle();
  V half = a.deviation() + b.deviation();
  for (std::size_t j = 0; j < shape.dimension; ++j)
    half += magnitude(a.tangent(j) - b.tangent(j)) * V::load(shape.half + j * lanes);
  for (std::size_t k = 0; k < shape.used; ++k) half += magnitude(a.symbol(k) - b.symbol(k));
  half = half * (1.0 + 0x1p-44) + (a.size() + b.size()) * 0x1p-50 + tiny;
  poison(shape, half);
  return {c - half, c + half};
}

void set_difference(const CellShape& shape, const Feature& a, const Feature& b, const Feature& y) {
  y.set_middle(a.middle() - b.middle());
  for (std::size_t j = 0; j < shape.dimension; ++j) y.set_tangent(j, a.tangent(j) - b.tangent(j));
  for (std::size_t k = 0; k < shape.used; ++k) y.set_symbol(k, a.symbol(k) - b.symbol(k));
  y.set_deviation(a.deviation() + b.deviation() + (a.size() + b.size()) * (4.0 * u));
  y.set_rounding(a.rounding() + b.rounding());
  if (shape.has_gradient)
    for (std::size_t j = 0; j < shape.dimension; ++j)
      y.set_residual(j, a.residual(j) + b.residual(j) + (a.steep(j) + b.steep(j)) * (4.0 * u));
  y.complete();
}

/// max(a, b) = b + rectifier(a - b), min(a, b) = b - rectifier(b - a).
void extremum(const CellShape& shape, CellValues first, CellValues second, double sign, CellValues result,
              CellValues difference, const CellKernels::ExtremumSlopes& slopes, CellSources sources, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const Feature a(shape, first, i), b(shape, second, i), y(shape, result, i);
    set_difference(shape, a, b, Feature(shape, difference, i));
    const Ends ends = ends_of_difference(shape, a, b);
    const V lower = sign > 0.0 ? ends.lower : -ends.upper, upper = sign > 0.0 ? ends.upper : -ends.lower;
    const auto is_a = lower >= 0.0, is_b = upper <= 0.0;
    const V slope = where(is_a, V(1.0), where(is_b, V(0.0), upper / (upper - lower)));
    const V rest = V(1.0) - slope;
    const V most = where(is_a | is_b, V(0.0), -(slope * lower));  // rectifier - slope (a - b) lies between 0 and this
    const V size = a.size() + b.size();
    y.set_middle(slope * a.middle() + rest * b.middle() + most * (0.5 * sign));
    for (std::size_t j = 0; j < shape.dimension; ++j) y.set_tangent(j, slope * a.tangent(j) + rest * b.tangent(j));
    for (std::size_t k = 0; k < shape.used; ++k) y.set_symbol(k, slope * a.symbol(k) + rest * b.symbol(k));
    const V added = where(is_a | is_b, V(0.0), most * 0.5 + size * (16.0 * u) + tiny);
    const V run = a.rounding() + b.rounding();
    const auto stays = (lower > run) | (upper < -run);
    const V spread = where(stays, V(0.0), larger(slope, rest) * (1.0 + 4.0 * u));
    y.set_deviation(slope * a.deviation() + rest * b.deviation());
    y.set_rounding(larger(a.rounding(), b.rounding()));
    store(slopes.a.slope, i, slope);
    store(slopes.b.slope, i, rest);
    store(slopes.difference.slope, i, V(0.0));
    store(slopes.a.spread, i, V(0.0));
    store(slopes.b.spread, i, V(0.0));
    store(slopes.difference.spread, i, spread);
    store(sources.added, i, added);
    store(sources.lost, i, V(0.0));
  }
}

/// a b = c_a c_b + c_b (a - c_a) + c_a (b - c_b) + (a - c_a)(b - c_b)
void product_of_values(const CellShape& shape, CellValues first, CellValues second, double, CellValues result,
                       CellSlopes slopes_a, CellSlopes slopes_b, CellSources sources, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const Feature a(shape, first, i), b(shape, second, i), y(shape, result, i);
    const V c_a = a.middle(), c_b = b.middle();
    const V reach_a = a.away(), reach_b = b.away();
    poison(shape, reach_a * reach_b);
    const bool is_square = first.affine == second.affine;
    const V rest = reach_a * reach_b;  // of a square between 0 and this
    y.set_middle(c_a * c_b + (is_square ? rest * 0.5 : V(0.0)));
    for (std::size_t j = 0; j < shape.dimension; ++j) y.set_tangent(j, c_b * a.tangent(j) + c_a * b.tangent(j));
    for (std::size_t k = 0; k < shape.used; ++k) y.set_symbol(k, c_b * a.symbol(k) + c_a * b.symbol(k));
    const V size = a.size() * b.size();
    const V added = (is_square ? rest * 0.5 : rest) + size * (16.0 * u) + tiny;
    const V spread_a = (reach_b + b.rounding()) * (1.0 + 4.0 * u),
            spread_b = (reach_a + a.rounding()) * (1.0 + 4.0 * u);
    V lost(0.0), rounding(0.0);
    if (y.has_rounding()) {
      lost = lost_by_rounding(a.run_size() * b.run_size()) + tiny_float;
      rounding = b.run_size() * a.rounding() + a.size() * b.rounding() + lost;
    }
    y.set_deviation(magnitude(c_b) * a.deviation() + magnitude(c_a) * b.deviation());
    y.set_rounding(rounding);
    store(slopes_a.slope, i, c_b);
    store(slopes_b.slope, i, c_a);
    store(slopes_a.spread, i, spread_a);
    store(slopes_b.spread, i, spread_b);
    store(sources.added, i, added);
    store(sources.lost, i, lost);
  }
}

constexpr double pi = 0x1.921fb54442d18p+1;

/// The nearest integer, of numbers below 2^50.
V nearest_integer(V x) {
  return (x + 0x1.8p52) - 0x1.8p52;
}

V split_of(const BentFunction& f, V lower, V upper) {
  const V middle = (lower + upper) * 0.5;
  V at(0.0);
  switch (f.split) {
    case Split::at_zero:
      break;
    case Split::at_middle:
      at = middle;
      break;
    case Split::at_half_turns:
      at = nearest_integer(middle * (1.0 / pi)) * pi;
      break;
    case Split::at_shifted_half_turns:
      at = (nearest_integer(middle * (1.0 / pi) - 0.5) + 0.5) * pi;
      break;
    case Split::at_bends:
      at = where(middle < 0.0, V(-f.bend_point), V(f.bend_point));
      break;
  }
  return smaller(larger(at, lower), upper);
}

/// Whether a function is sampled over a range.
V::Mask is_covered_by(const BentFunction& f, const Ends& range) {
  return (range.lower >= f.least) & (range.upper <= f.largest) & (range.upper - range.lower <= f.widest);
}

/// Points of ranges that are not covered are 0.
void sample(const CellShape& shape, CellValues operand, const BentFunction& f, BentSamples samples, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const Ends ends = ends_of(shape, Feature(shape, operand, i));
    const auto is_covered = is_covered_by(f, ends);
    const V lower = where(is_covered, ends.lower, V(0.0)), upper = where(is_covered, ends.upper, V(0.0));
    const V at = split_of(f, lower, upper);
    store(samples.at[lower_end], i, lower);
    store(samples.at[split], i, at);
    store(samples.at[upper_end], i, upper);
    store(samples.at[left_middle], i, (lower + at) * 0.5);
    store(samples.at[right_middle], i, (at + upper) * 0.5);
  }
}

/// A function at a point, less a multiple of the argument.
struct Sampled {
  V at, value, slope;
};

/// The range of h over [p, q] where h is convex, and bends like that.
Ends range_of_convex(const Sampled& p, const Sampled& m, const Sampled& q) {
  const auto falls_first = m.slope >= 0.0;
  const Sampled a{where(falls_first, p.at, m.at), where(falls_first, p.value, m.value),
                  where(falls_first, p.slope, m.slope)};
  const Sampled b{where(falls_first, m.at, q.at), where(falls_first, m.value, q.value),
                  where(falls_first, m.slope, q.slope)};
  const V turn = b.slope - a.slope;
  const V share = where(turn > 0.0, smaller(larger(b.slope / turn, V(0.0)), V(1.0)), V(0.5)), rest = V(1.0) - share;
  const auto line = [&](V x) {
    return share * (a.value + a.slope * (x - a.at)) + rest * (b.value + b.slope * (x - b.at));
  };
  return {smaller(line(p.at), line(q.at)), larger(p.value, q.value)};
}

/// Where f'' >= 0 in the part around a point.
auto is_convex(const BentFunction& f, V at, V value) {
  switch (f.bend) {
    case Bend::below_zero:
      return at <= 0.0;
    case Bend::above_zero:
      return at >= 0.0;
    case Bend::negative_value:
      return value <= 0.0;
    case Bend::between_bends:
      return magnitude(at) <= f.bend_point;
    default:
      return at == at;
  }
}

/// Whether f is straight over a range, and up to `reached` beyond it.
V::Mask is_straight(const BentFunction& f, const Ends& range, V reached) {
  return (range.lower - reached >= f.straight) | (range.upper + reached <= -f.straight);
}

/// A linearisation by what is known of f everywhere.
struct Coarse {
  V slope, shift, bend;
};
Coarse coarse_of(const BentFunction& f, const Ends& range) {
  V slope(0.0), most(0.0);  // the rectifier less slope x lies between 0 and `most`
  if (f.is_rectifier) {
    const auto is_right = range.lower >= 0.0, is_left = range.upper <= 0.0;
    slope = where(is_right, V(1.0), where(is_left, V(0.0), range.upper / (range.upper - range.lower)));
    most = where(is_right | is_left, V(0.0), -(slope * range.lower));
  }
  const V upper = most + f.ends[1];
  const V lower = f.is_rectifier ? where(is_straight(f, range, V(0.0)), V(-0x1p-47), V(f.ends[0])) : V(f.ends[0]);
  const V reach = f.is_rectifier ? magnitude(range.lower) + magnitude(range.upper) : V(0.0);  // else the slope is 0
  const V slack = (reach + magnitude(upper) + magnitude(lower)) * (32.0 * u);
  return {slope, (upper + lower) * 0.5, (upper - lower) * 0.5 + slack};
}

/// How far f' is from the slope of that linearisation, up to `reached` beyond the range. f'(-x) = 1 - f'(x) for those
/// near a rectifier, whose limits are 0 and 1.
V coarse_spread(const BentFunction& f, const Ends& range, V reached, V slope) {
  if (!f.is_rectifier) return f.steepest + magnitude(slope);
  return where(is_straight(f, range, reached), V(0x1p-47),
               larger(f.steepest - slope, slope + (f.steepest - 1.0)) * (1.0 + 4.0 * u));
}

void function(const CellShape& shape, CellValues operand, const BentFunction& f, BentSamples samples, CellValues result,
              CellSlopes slopes, CellSources sources, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const Feature x(shape, operand, i), y(shape, result, i);
    const auto row = [&](double* const(&rows)[5], std::size_t k) { return V::load(rows[k] + i * lanes); };
    const V lower = row(samples.at, lower_end), upper = row(samples.at, upper_end);
    const V f_lower = row(samples.value, lower_end), f_upper = row(samples.value, upper_end);
    const V d_lower = row(samples.slope, lower_end), d_upper = row(samples.slope, upper_end);
    const V width = upper - lower, ends = magnitude(lower) + magnitude(upper);
    const V chord = (f_upper - f_lower) / width;
    const V slope = where(width > ends * 0x1p-20, chord, (d_lower + d_upper) * 0.5);

    V least(infinity), most(-infinity), steepest = larger(d_lower, d_upper), flattest = smaller(d_lower, d_upper);
    V largest_value = magnitude(f_lower) + magnitude(f_upper), largest_slope = magnitude(d_lower) + magnitude(d_upper);
    const auto take = [&](std::size_t from, std::size_t middle, std::size_t to, bool is_left) {
      const V f_middle = row(samples.value, middle);
      const auto is_up = is_convex(f, row(samples.at, middle), f_middle);
      const V sign = where(is_up, V(1.0), V(-1.0));
      const auto sampled = [&](std::size_t k) {
        const V p = row(samples.at, k);
        V d = row(samples.slope, k);
        if (f.has_kink && is_left && k == split) d = where(p == 0.0, V(f.left_slope), d);
        steepest = larger(steepest, d);
        flattest = smaller(flattest, d);
        largest_value += magnitude(row(samples.value, k));
        largest_slope += magnitude(d);
        return Sampled{p, sign * (row(samples.value, k) - slope * p), sign * (d - slope)};
      };
      const Ends range = range_of_convex(sampled(from), sampled(middle), sampled(to));
      least = smaller(least, where(is_up, range.lower, -range.upper));
      most = larger(most, where(is_up, range.upper, -range.lower));
    };
    take(lower_end, left_middle, split, true);
    take(split, right_middle, upper_end, false);

    // Where float32 may be anything, slopes are those of the exact function.
    const V run = x.rounding(), reached = where(run < infinity, run, V(0.0));
    const V slack = (largest_value + (magnitude(slope) + largest_slope + 1.0) * ends + 1.0) * 0x1p-44;
    V used = slope, shift = (least + most) * 0.5, bend = (most - least) * 0.5 + slack;
    const bool is_unbounded = f.largest_second == infinity;
    const V second = is_unbounded ? largest_slope * 2.0 : V(f.largest_second);
    V spread = larger(magnitude(steepest - slope), magnitude(flattest - slope)) + (largest_slope + 1.0) * 0x1p-44 +
               where(is_straight(f, {lower, upper}, reached), V(0x1p-47), second * reached);
    if (is_unbounded) spread = where(reached < 0.5, spread, V(infinity));
    if (f.has_kink) {
      const auto meets = (lower - reached <= 0.0) & (upper + reached >= 0.0);
      const V away = larger(magnitude(V(1.0) - slope), magnitude(V(f.left_slope) - slope)) * (1.0 + 4.0 * u);
      spread = where(meets, larger(spread, away + second * reached + 0x1p-44), spread);
    }
    // Ranges that were not sampled.
    const Ends whole = ends_of(shape, x);
    const auto is_covered = is_covered_by(f, whole);
    if (!simd::every(is_covered)) {
      const Coarse coarse = coarse_of(f, whole);
      used = where(is_covered, used, coarse.slope);
      shift = where(is_covered, shift, coarse.shift);
      bend = where(is_covered, bend, coarse.bend);
      spread = where(is_covered, spread, coarse_spread(f, whole, reached, coarse.slope));
      if (!(f.ends[1] - f.ends[0] < infinity)) poison(shape, where(is_covered, V(0.0), V(infinity)));
    }

    set_affine(shape, x, y, used, shift);
    const V furthest = (magnitude(used) + spread) * (1.0 + 4.0 * u);
    y.set_deviation(magnitude(used) * x.deviation() * (1.0 + 4.0 * u));
    V lost(0.0);
    if (x.has_rounding()) {
      const V value = magnitude(y.middle()) + y.away() + bend + furthest * run;
      lost = (value * f.units.relative + x.run_size() * f.units.of_argument + f.units.absolute) *
                 (u_float * (1.0 + 0x1p-10)) +
             tiny_float;
      lost = where((value < 0x1p126) & (x.run_size() <= f.largest_run), lost, V(infinity));
    }
    y.set_rounding(furthest * run + lost);
    store(slopes.slope, i, used);
    store(slopes.spread, i, spread);
    store(sources.added, i, bend);
    store(sources.lost, i, lost);
  }
}

// ---- backward

void add_to(double* row, V x) {
  (V::load(row) + x).store(row);
}

void added(const CellShape& shape, const double* g, CellSources sources, CellKernels::Sums sums, std::size_t n) {
  V value(0.0), rounding(0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const V weight = magnitude(V::load(g + i * lanes));
    value += weight * V::load(sources.added + i * lanes);
    rounding += weight * V::load(sources.lost + i * lanes);
  }
  add_to(sums.value, value);
  if (shape.has_rounding) add_to(sums.rounding, rounding);
}

void turned(const CellShape& shape, const double* g, const double* defect, CellKernels::Sums sums, std::size_t n) {
  V gradient(0.0);
  for (std::size_t i = 0; i < n; ++i) gradient += magnitude(V::load(g + i * lanes)) * V::load(defect + i * lanes);
  for (std::size_t j = 0; j < shape.dimension; ++j) add_to(sums.gradient + j * lanes, gradient);
}

void slope_back(const CellShape& shape, const double* g, CellValues operand, CellSlopes slopes, double* g_in,
                CellKernels::Sums sums, std::size_t n) {
  V value(0.0), rounding(0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const Feature x(shape, operand, i);
    const V adjoint = V::load(g + i * lanes), weight = magnitude(adjoint);
    const V slope = V::load(slopes.slope + i * lanes), steep = magnitude(slope);
    const V spread = V::load(slopes.spread + i * lanes) + steep * (16.0 * u);
    (adjoint * slope).store(g_in + i * lanes);
    value += weight * steep * x.size();
    rounding += weight * spread * x.rounding();
    if (!x.has_gradient()) continue;
    const V off = weight * spread;
    for (std::size_t j = 0; j < shape.dimension; ++j) add_to(sums.gradient + j * lanes, off * x.steep(j));
  }
  add_to(sums.value, value * (16.0 * u));
  if (shape.has_rounding) add_to(sums.rounding, rounding);
}

void accumulate(const CellShape& shape, const double* other, CellValues operand, double* g, CellKernels::Sums sums,
                std::size_t n) {
  V value(0.0), rounding(0.0), gradient(0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const Feature x(shape, operand, i);
    const V sum = V::load(g + i * lanes) + V::load(other + i * lanes), error = magnitude(sum) * (2.0 * u);
    sum.store(g + i * lanes);
    value += error * x.size();
    rounding += error * x.rounding();
    if (x.has_gradient()) gradient += error * x.steepness();
  }
  add_to(sums.value, value);
  if (shape.has_rounding) add_to(sums.rounding, rounding);
  if (shape.has_gradient)
    for (std::size_t j = 0; j < shape.dimension; ++j) add_to(sums.gradient + j * lanes, gradient);
}

template <bool has_tangents>
void point_columns(const double* w, const CellKernels::PointOperand& x, const CellKernels::PointResult& y,
                   std::size_t outputs) {
  using N = simd::Native<double>;
  constexpr std::size_t vectors = 2, rows = has_tangents ? 5 : 2;
  for (std::size_t j = 0; j < outputs; j += vectors * N::lanes) {
    double* const results[5] = {y.middle, y.radius, y.tangents[0], y.tangents[1], y.tangents[2]};
    N sums[rows][vectors];
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t v = 0; v < vectors; ++v) sums[r][v] = N::load(results[r] + j + v * N::lanes);
    for (std::size_t k = 0; k < x.count; ++k) {
      const double* const row = w + x.rows[k] * outputs + j;
      const N middle(x.middle[k]), error(x.error[k]);
      for (std::size_t v = 0; v < vectors; ++v) {
        const N weight = N::load(row + v * N::lanes);
        sums[0][v] = simd::multiply_add(weight, middle, sums[0][v]);
        sums[1][v] = simd::multiply_add(magnitude(weight), error, sums[1][v]);
        if constexpr (has_tangents)
          for (std::size_t c = 0; c < 3; ++c)
            sums[2 + c][v] = simd::multiply_add(weight, N(x.tangents[c][k]), sums[2 + c][v]);
      }
    }
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t v = 0; v < vectors; ++v) sums[r][v].store(results[r] + j + v * N::lanes);
  }
}

void point_layer(const double* w, const CellKernels::PointOperand& x, const CellKernels::PointResult& y,
                 std::size_t outputs) {
  (x.has_tangents ? point_columns<true> : point_columns<false>)(w, x, y, outputs);
}

}  // namespace

const CellKernels DRIFTBOUND_SIMD_NAME(cells) = {DRIFTBOUND_SIMD_TARGET_NAME,
                                                 &product,
                                                 &dense,
                                                 &piecewise,
                                                 &scale,
                                                 &sum,
                                                 &product_of_values,
                                                 &extremum,
                                                 &sample,
                                                 &function,
                                                 &complete,
                                                 &clear,
                                                 &squares,
                                                 &norm,
                                                 &read,
                                                 &added,
                                                 &turned,
                                                 &slope_back,
                                                 &accumulate,
                                                 &point_layer};

}  // namespace driftbound::region
