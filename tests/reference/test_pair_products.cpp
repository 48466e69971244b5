#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "linalg/residue_kernels.hpp"
#include "networks.hpp"
#include "num/error_free.hpp"
#include "oracle.hpp"
#include "reference/kept_matrices.hpp"
#include "reference/pair_apply.hpp"
#include "support/special_numbers.hpp"

// Products of balls by matrices that stay: by residues (T-101), whatever the processor would take, and by two
// accumulators (T-86), against sums in exact integers.

using namespace driftbound;
using networks::Maker;
using networks::Scale;
using oracle::Dyadic;

namespace {

struct Elements {
  std::vector<double> hi, lo, radius;
};

void split(Elements& row, std::size_t l, double x, double y) {
  const num::ErrorFree pair = num::two_sum(x, y);
  row.hi[l] = pair.value;
  row.lo[l] = pair.error;
}

/// Rows of one kind, and how they are multiplied.
struct RowKind {
  enum class By { residues, exactly_by_residues, accumulators };
  std::string name;
  By by;
  std::function<void(Maker&, Elements&)> fill;
};

template <class F>
void each(Elements& row, F f) {
  for (std::size_t l = 0; l < row.hi.size(); ++l) f(l);
}

void pairs(Maker& make, Elements& row, double factor) {
  each(row, [&](std::size_t l) {
    const double x = make.number() * factor;
    split(row, l, x, x * make.number() * 0x1p-54);
  });
}

void radii(Maker& make, Elements& row) {
  each(row, [&](std::size_t l) {
    const double share = make.chance(0.05) ? 1.0 : std::exp2(-40.0 - static_cast<double>(make.below(100)));
    row.radius[l] = make.chance(0.3) ? 0.0 : std::fabs(row.hi[l]) * share;
  });
}

const std::vector<RowKind>& row_kinds() {
  using By = RowKind::By;
  static const std::vector<RowKind> kinds = {
      {"float32", By::exactly_by_residues,
       [](Maker& make, Elements& row) {
         each(row, [&](std::size_t l) { row.hi[l] = static_cast<double>(static_cast<float>(make.number())); });
       }},
      {"float32, rectified", By::exactly_by_residues,
       [](Maker& make, Elements& row) {
         each(row, [&](std::size_t l) {
           row.hi[l] = std::max(0.0, static_cast<double>(static_cast<float>(make.number())));
         });
       }},
      {"integers of 43 bits", By::exactly_by_residues,
       [](Maker& make, Elements& row) {
         each(row, [&](std::size_t l) { row.hi[l] = std::floor(make.number() * 0x1p40); });
       }},
      {"zeros", By::exactly_by_residues, [](Maker&, Elements&) {}},
      {"float32 of 170 bits", By::residues,
       [](Maker& make, Elements& row) {
         each(row, [&](std::size_t l) {
           row.hi[l] = static_cast<double>(static_cast<float>(make.number())) * (l % 3 == 0 ? 0x1p70 : 0x1p-70);
         });
       }},
      {"pairs", By::residues, [](Maker& make, Elements& row) { pairs(make, row, 1.0); }},
      {"pairs of two magnitudes", By::residues,
       [](Maker& make, Elements& row) {
         pairs(make, row, 1.0);
         each(row, [&](std::size_t l) {
           if (l % 2 == 0) row.hi[l] *= 0x1p90, row.lo[l] *= 0x1p90;
         });
       }},
      {"pairs, one an outlier", By::residues,
       [](Maker& make, Elements& row) {
         pairs(make, row, 0x1p-40);
         split(row, make.below(row.hi.size()), 0x1.23456789p20, 0x1p-36);
       }},
      {"balls", By::residues,
       [](Maker& make, Elements& row) {
         pairs(make, row, 1.0);
         radii(make, row);
       }},
      {"float32 but for one ball", By::exactly_by_residues,
       [](Maker& make, Elements& row) {
         each(row, [&](std::size_t l) { row.hi[l] = static_cast<double>(static_cast<float>(make.number())); });
         row.radius[make.below(row.radius.size())] = 0x1p-70;
       }},
      {"zeros within radii", By::exactly_by_residues,
       [](Maker& make, Elements& row) {
         each(row, [&](std::size_t l) { row.radius[l] = std::fabs(make.number()) * 0x1p-50; });
       }},
      {"one element the whole line", By::residues,
       [](Maker& make, Elements& row) {
         pairs(make, row, 1.0);
         const std::size_t l = make.below(row.hi.size());
         row.hi[l] = row.lo[l] = 0.0;
         row.radius[l] = infinity;
       }},
      {"too small", By::accumulators, [](Maker& make, Elements& row) { pairs(make, row, 0x1p-430); }},
      {"too large", By::accumulators, [](Maker& make, Elements& row) { pairs(make, row, 0x1p430); }},
      {"balls too small", By::accumulators,
       [](Maker& make, Elements& row) {
         pairs(make, row, 0x1p-430);
         radii(make, row);
       }},
      {"balls too large", By::accumulators,
       [](Maker& make, Elements& row) {
         pairs(make, row, 0x1p430);
         radii(make, row);
       }},
      {"subnormal", By::accumulators,
       [](Maker& make, Elements& row) {
         each(row, [&](std::size_t l) { row.hi[l] = std::ldexp(make.number(), -1060); });
       }},
      {"beyond all products", By::accumulators, [](Maker& make, Elements& row) {
         each(row, [&](std::size_t l) { row.hi[l] = std::ldexp(make.number(), 1000); });
       }}};
  return kinds;
}

/// Rows of `kinds`, in that order, each a part.
PairTensor rows_of(const std::vector<const RowKind*>& kinds, std::size_t length, Maker& make) {
  PairTensor x({static_cast<std::int64_t>(kinds.size()), static_cast<std::int64_t>(length)}, kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Elements row = {std::vector<double>(length), std::vector<double>(length), std::vector<double>(length)};
    kinds[i]->fill(make, row);
    std::copy(row.hi.begin(), row.hi.end(), x.hi.begin() + static_cast<std::ptrdiff_t>(i * length));
    std::copy(row.lo.begin(), row.lo.end(), x.lo.begin() + static_cast<std::ptrdiff_t>(i * length));
    std::copy(row.radius.begin(), row.radius.end(), x.radius.begin() + static_cast<std::ptrdiff_t>(i * length));
  }
  x.settle();
  return x;
}

/// Every kind so many times, shuffled: rows beside each other share panels.
std::vector<const RowKind*> shuffled_kinds(Maker& make, int times) {
  std::vector<const RowKind*> kinds;
  for (int i = 0; i < times; ++i)
    for (const RowKind& kind : row_kinds()) kinds.push_back(&kind);
  for (std::size_t i = kinds.size(); i > 1; --i) std::swap(kinds[i - 1], kinds[make.below(i)]);
  return kinds;
}

PairTensor row_of(const PairTensor& x, std::size_t row) {
  const auto length = static_cast<std::size_t>(x.shape[1]);
  PairTensor one({1, x.shape[1]}, 1);
  std::copy_n(x.hi.data() + row * length, length, one.hi.data());
  std::copy_n(x.lo.data() + row * length, length, one.lo.data());
  std::copy_n(x.radius.data() + row * length, length, one.radius.data());
  one.settle();
  return one;
}

/// Float32 weights [k, n]: columns of ordinary numbers, of zeros, of small ones, and with an outlier.
PairTensor weights(Maker& make, std::int64_t k, std::int64_t n, double outlier) {
  Tensor<double> w = make.tensor({k, n});
  for (std::int64_t l = 0; l < k; ++l) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double scale = j % 11 == 3 ? 0.0 : j % 11 == 5 ? 0x1p-90 : 1.0;
      double& weight = w.values[static_cast<std::size_t>(l * n + j)];
      weight = static_cast<double>(static_cast<float>(weight * scale));
      if (j % 11 == 7 && l == j % k) weight *= outlier;
    }
  }
  return PairTensor(w);
}

PairTensor transposed(const PairTensor& x, std::size_t parts) {
  const auto rows = static_cast<std::size_t>(x.shape[0]), columns = static_cast<std::size_t>(x.shape[1]);
  PairTensor y({x.shape[1], x.shape[0]}, parts);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      y.hi[j * rows + i] = x.hi[i * columns + j];
      y.lo[j * rows + i] = x.lo[i * columns + j];
      y.radius[j * rows + i] = x.radius[i * columns + j];
    }
  }
  y.settle();
  return y;
}

PairTensor multiply(const PairTensor& x, const PairTensor& w, KeptMatrices& kept, std::size_t parts,
                    const Op& op = op::MatMul{}) {
  const auto* gemm = std::get_if<op::Gemm>(&op);
  const bool turned_x = gemm != nullptr && gemm->transpose_a, turned_w = gemm != nullptr && gemm->transpose_b;
  const std::vector<PairInput> inputs = {{&x, nullptr}, {&w, &kept}};
  return apply(op, inputs, {x.shape[turned_x ? 1 : 0], w.shape[turned_w ? 0 : 1]}, parts);
}

Dyadic middle(const PairTensor& x, std::size_t i) {
  return Dyadic(x.hi[i]) + Dyadic(x.lo[i]);
}

Dyadic distance(const PairTensor& x, std::size_t i, const Dyadic& from) {
  return oracle::magnitude(from - middle(x, i));
}

double as_double(const Dyadic& x) {
  const int drop = std::max(0, static_cast<int>(x.integer == 0 ? 0 : msb(oracle::Integer(abs(x.integer)))) - 60);
  return std::ldexp(oracle::Integer(x.integer >> drop).convert_to<double>(), x.exponent + drop);
}

bool has_radii(const PairTensor& x, std::size_t row) {
  const auto length = static_cast<std::size_t>(x.shape[1]);
  const auto first = x.radius.begin() + static_cast<std::ptrdiff_t>(row * length);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(length), [](double radius) { return radius > 0.0; });
}

/// One way's balls, and how near they were reached: largest error next to its radius where midpoints alone are
/// multiplied, and where elements are at the ends of their balls.
struct Way {
  std::string name;
  std::size_t elements = 0, whole_lines = 0;
  double of_midpoints = 0.0, of_balls = 0.0;
};

class Products {
public:
  Products(const PairTensor& x, const PairTensor& w) : x_(x), w_(w) {
    for (std::size_t i = 0; i < w.size(); ++i) exact_weights_.push_back(Dyadic(w.hi[i]));
  }

  /// Every element of every way's result, and every row's norm, hold the sums of midpoints, of random ends of the
  /// balls, and of the ends that lie farthest for one column.
  void check(const std::vector<std::pair<const PairTensor*, Way*>>& results, Maker& make) const {
    for (std::size_t row = 0; row < rows(); ++row) {
      const std::vector<Dyadic> sums = sums_of(row, [](std::size_t) { return 0; });
      for (const auto& [y, way] : results) check_row(*y, row, sums, *way, way->of_midpoints);
      if (!has_radii(x_, row)) continue;
      const std::size_t column = make.below(columns());
      const std::vector<Dyadic> ends = sums_of(row, [&](std::size_t) { return make.chance(0.5) ? 1 : -1; });
      const std::vector<Dyadic> farthest =
          sums_of(row, [&](std::size_t l) { return w_.hi[l * columns() + column] < 0.0 ? -1 : 1; });
      for (const auto& [y, way] : results) {
        check_row(*y, row, ends, *way, way->of_balls);
        check_row(*y, row, farthest, *way, way->of_balls);
      }
    }
  }

private:
  std::size_t rows() const { return static_cast<std::size_t>(x_.shape[0]); }
  std::size_t length() const { return static_cast<std::size_t>(x_.shape[1]); }
  std::size_t columns() const { return static_cast<std::size_t>(w_.shape[1]); }

  /// Of points side(l) radii from the midpoints; of a whole line some number.
  template <class Side>
  std::vector<Dyadic> sums_of(std::size_t row, Side side) const {
    std::vector<Dyadic> sums(columns());
    for (std::size_t l = 0; l < length(); ++l) {
      const std::size_t i = row * length() + l;
      const double radius = std::isinf(x_.radius[i]) ? 3.0 : x_.radius[i];
      const Dyadic point = middle(x_, i) + Dyadic(static_cast<double>(side(l)) * radius);
      if (point.integer == 0) continue;
      for (std::size_t j = 0; j < columns(); ++j) sums[j] = sums[j] + point * exact_weights_[l * columns() + j];
    }
    return sums;
  }

  void check_row(const PairTensor& y, std::size_t row, const std::vector<Dyadic>& sums, Way& way,
                 double& closest) const {
    Dyadic squares;
    for (std::size_t j = 0; j < columns(); ++j) {
      const std::size_t i = row * columns() + j;
      ++way.elements;
      if (std::isinf(y.radius[i])) {
        ++way.whole_lines;
        continue;
      }
      const Dyadic error = distance(y, i, sums[j]);
      if (!(error <= Dyadic(y.radius[i]))) FAIL(way.name, ", row ", row, ", column ", j, ": radius ", y.radius[i]);
      if (y.radius[i] > 0x1p-1000) closest = std::max(closest, as_double(error) / y.radius[i]);
      squares = squares + error * error;
    }
    const double norm = y.norms[row];
    if (std::isfinite(norm)) CHECK(squares <= Dyadic(norm) * Dyadic(norm));
  }

  const PairTensor& x_;
  const PairTensor& w_;
  std::vector<Dyadic> exact_weights_;
};

KeptMatrices::Place place_of(const PairTensor& w) {
  const auto k = static_cast<std::size_t>(w.shape[0]), n = static_cast<std::size_t>(w.shape[1]);
  return {0, n, k, 1, static_cast<std::ptrdiff_t>(n), linalg::Side::right};
}

bool same_bits(const PairTensor& x, std::size_t row, const PairTensor& y, std::size_t other) {
  const auto n = static_cast<std::ptrdiff_t>(x.shape[1]);
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(row) * n, second = static_cast<std::ptrdiff_t>(other) * n;
  const auto same = [&](const Doubles& a, const Doubles& b) {
    return std::equal(a.begin() + first, a.begin() + first + n, b.begin() + second);
  };
  return same(x.hi, y.hi) && same(x.lo, y.lo) && same(x.radius, y.radius);
}

/// Rows that residues fit are multiplied by them, others as if there were none; and both ways' balls have a number in
/// common.
void check_ways(const std::vector<const RowKind*>& kinds, const PairTensor& x, const PairTensor& by_residues,
                const PairTensor& by_accumulators) {
  using By = RowKind::By;
  const auto n = static_cast<std::size_t>(by_residues.shape[1]);
  for (std::size_t row = 0; row < kinds.size(); ++row) {
    CAPTURE(kinds[row]->name);
    if (kinds[row]->by == By::accumulators) CHECK(same_bits(by_residues, row, by_accumulators, row));
    const bool is_line = kinds[row]->name == "one element the whole line";
    if (kinds[row]->by == By::residues && !is_line) CHECK_FALSE(same_bits(by_residues, row, by_accumulators, row));
    for (std::size_t i = row * n; i < (row + 1) * n; ++i) {
      if (kinds[row]->by == By::exactly_by_residues && !has_radii(x, row)) {
        CHECK(by_residues.radius[i] == 0.0);
        CHECK(by_accumulators.radius[i] == 0.0);
      }
      CHECK(std::isinf(by_residues.radius[i]) == std::isinf(by_accumulators.radius[i]));
      if (std::isinf(by_residues.radius[i])) continue;
      const Dyadic reach = Dyadic(by_residues.radius[i]) + Dyadic(by_accumulators.radius[i]);
      if (!(distance(by_accumulators, i, middle(by_residues, i)) <= reach))
        FAIL("row ", row, ", column ", i % n, ": balls have nothing in common");
    }
  }
}

}  // namespace

TEST_CASE("matrices that stay, by residues too: rows of every kind hold the exact sums (T-89)") {
  Maker make(16, Scale::ordinary);
  Way residues = {"by residues"}, accumulators = {"by two accumulators"};
  struct Size {
    std::int64_t k, n;
    double outlier;
    int times;
  };
  for (const Size& size :
       std::vector<Size>{{200, 200, 1.0, 2}, {130, 65, 0x1p12, 1}, {1025, 40, 1.0, 1}, {65, 70, 0x1p-20, 1}}) {
    const std::int64_t k = size.k, n = size.n;
    CAPTURE(k);
    CAPTURE(n);
    const std::vector<const RowKind*> kinds = shuffled_kinds(make, size.times);
    const PairTensor x = rows_of(kinds, static_cast<std::size_t>(k), make), w = weights(make, k, n, size.outlier);
    KeptMatrices none(nullptr), plain(&linalg::residue_baseline);
    CHECK(none.residues(w, place_of(w)) == nullptr);
    REQUIRE(plain.residues(w, place_of(w)) != nullptr);
    const PairTensor by_accumulators = multiply(x, w, none, kinds.size());
    const PairTensor by_residues = multiply(x, w, plain, kinds.size());
    Products(x, w).check({{&by_residues, &residues}, {&by_accumulators, &accumulators}}, make);
    check_ways(kinds, x, by_residues, by_accumulators);

    for (const linalg::ResidueKernels* kernels : linalg::usable_residue_kernels()) {
      CAPTURE(kernels->name);
      KeptMatrices kept(kernels);
      const PairTensor y = multiply(x, w, kept, kinds.size());
      for (std::size_t row = 0; row < kinds.size(); ++row) CHECK(same_bits(y, row, by_residues, row));
    }
    for (std::size_t row = 0; row < kinds.size(); ++row) {
      CAPTURE(kinds[row]->name);
      const PairTensor one = row_of(x, row);
      CHECK(same_bits(multiply(one, w, plain, 1), 0, by_residues, row));
    }
  }
  for (const Way* way : {&residues, &accumulators}) {
    MESSAGE(way->name << ": elements " << way->elements << ", of which the whole line " << way->whole_lines
                      << "; error / radius of midpoints " << way->of_midpoints << ", of balls " << way->of_balls);
    CHECK(way->whole_lines < way->elements / 4);
    CHECK(way->of_midpoints > 0.01);
    CHECK(way->of_balls > 0.5);
  }
}

TEST_CASE("matrices that stay, by residues: operands with strides, and rows that are no parts") {
  Maker make(17, Scale::ordinary);
  const std::vector<const RowKind*> kinds = shuffled_kinds(make, 1);
  const std::int64_t m = static_cast<std::int64_t>(kinds.size()), k = 120, n = 90;
  const PairTensor x = rows_of(kinds, 120, make), w = weights(make, k, n, 1.0);
  const PairTensor turned_x = transposed(x, 1), turned_w = transposed(w, 1);
  KeptMatrices plain(&linalg::residue_baseline), of_turned(&linalg::residue_baseline),
      folded(&linalg::residue_baseline);
  const PairTensor expected = multiply(x, w, plain, kinds.size());
  const PairTensor with_weights_turned =
      multiply(x, turned_w, of_turned, kinds.size(), op::Gemm{1.0, 1.0, false, true});
  const PairTensor with_rows_turned = multiply(turned_x, w, plain, 1, op::Gemm{1.0, 1.0, true, false});
  PairTensor batches = x;
  batches.shape = {2, m / 2, k};
  const std::vector<PairInput> inputs = {{&batches, nullptr}, {&w, &folded}};
  PairTensor of_batches = apply(op::MatMul{}, inputs, {2, m / 2, n}, 1);
  of_batches.shape = {m, n};
  REQUIRE(plain.residues(w, place_of(w)) != nullptr);
  for (std::size_t row = 0; row < kinds.size(); ++row) {
    CAPTURE(kinds[row]->name);
    CHECK(same_bits(with_weights_turned, row, expected, row));
    CHECK(same_bits(with_rows_turned, row, of_batches, row));
  }
  // Norms of single rows lower some radii.
  CHECK(with_rows_turned.hi == expected.hi);
  CHECK(with_rows_turned.lo == expected.lo);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(with_rows_turned.radius[i] >= expected.radius[i]);
}

TEST_CASE("matrices that stay have no residues where weights have too many bits, are balls, few or short") {
  Maker make(18, Scale::ordinary);
  const auto have_residues = [](const PairTensor& w) {
    KeptMatrices kept(&linalg::residue_baseline);
    return kept.residues(w, place_of(w)) != nullptr;
  };
  CHECK(have_residues(weights(make, 90, 90, 1.0)));
  CHECK_FALSE(have_residues(weights(make, 90, 90, 0x1p60)));
  CHECK_FALSE(have_residues(weights(make, 31, 90, 1.0)));
  CHECK_FALSE(have_residues(weights(make, 90, 15, 1.0)));
  PairTensor balls = weights(make, 90, 90, 1.0);
  balls.radius[17] = 0x1p-80;
  balls.norms = {infinity};
  balls.settle();
  CHECK_FALSE(have_residues(balls));

  Way residues = {"by residues"};
  const PairTensor x = rows_of(shuffled_kinds(make, 1), 90, make), w = weights(make, 90, 90, 0x1p60);
  KeptMatrices none(nullptr), plain(&linalg::residue_baseline);
  const PairTensor y = multiply(x, w, plain, x.parts()), expected = multiply(x, w, none, x.parts());
  for (std::size_t row = 0; row < x.parts(); ++row) CHECK(same_bits(y, row, expected, row));
  Products(x, w).check({{&y, &residues}}, make);
}

TEST_CASE("networks of rectifiers by residues hold the exact values layer by layer (T-89)") {
  Maker make(19, Scale::ordinary);
  const std::int64_t samples = 6, width = 80;
  const auto rows = static_cast<std::size_t>(samples), columns = static_cast<std::size_t>(width);
  PairTensor by_residues({samples, width}, rows);
  for (std::size_t i = 0; i < by_residues.size(); ++i)
    by_residues.hi[i] = make.number(), by_residues.lo[i] = by_residues.radius[i] = 0.0;
  by_residues.settle();
  PairTensor by_accumulators = by_residues;
  std::vector<Dyadic> exact;
  for (const double x : by_residues.hi) exact.push_back(Dyadic(x));
  for (int layer = 0; layer < 5; ++layer) {
    CAPTURE(layer);
    const PairTensor w = weights(make, width, width, 1.0);
    KeptMatrices none(nullptr), plain(&linalg::residue_baseline);
    REQUIRE(plain.residues(w, place_of(w)) != nullptr);
    const auto rectified = [&](const PairTensor& x, KeptMatrices& kept) {
      const PairTensor product = multiply(x, w, kept, rows);
      const std::vector<PairInput> input = {{&product, nullptr}};
      return apply(op::Relu{}, input, product.shape, rows);
    };
    by_residues = rectified(by_residues, plain);
    by_accumulators = rectified(by_accumulators, none);
    std::vector<Dyadic> next(exact.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t l = 0; l < columns; ++l)
        for (std::size_t j = 0; j < columns; ++j)
          next[i * columns + j] = next[i * columns + j] + exact[i * columns + l] * Dyadic(w.hi[l * columns + j]);
    for (Dyadic& value : next)
      if (oracle::sign(value) < 0) value = Dyadic();
    exact = std::move(next);
    for (const PairTensor* y : {&by_residues, &by_accumulators}) {
      for (std::size_t i = 0; i < exact.size(); ++i) {
        if (!(distance(*y, i, exact[i]) <= Dyadic(y->radius[i]))) FAIL("element ", i, ": radius ", y->radius[i]);
        CHECK(y->radius[i] <= 0x1p-70 * std::exp2(4.0 * layer));
      }
    }
  }
}
