// The matrix product in its declared order. Vector: neighbouring columns in the lanes of a register.

#include "linalg/kernels/ordered_product.hpp"

#include <cstddef>

#include "simd/vector.hpp"

namespace driftbound {
namespace {

/// `rows` rows of C by one panel of columns.
template <class Vector, std::size_t rows>
struct Tile {
  static constexpr std::size_t vectors = panel_width<typename Vector::Number> / Vector::lanes;
  Vector v[rows][vectors];
};

template <class Vector, std::size_t rows>
void add_to(Tile<Vector, rows>& sum, const Tile<Vector, rows>& term) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < sum.vectors; ++i) sum.v[r][i] += term.v[r][i];
  }
}

/// Rows of A under one panel of B.
template <class Vector, std::size_t rows>
struct Operands {
  using Scalar = typename Vector::Number;
  using Sum = Tile<Vector, rows>;
  const Scalar* a[rows];
  const Scalar* b;

  const Scalar* panel_row(std::size_t k) const { return b + k * panel_width<Scalar>; }

  /// The products first, first + 1 ... last - 1 added one after the other, the first one rounded.
  template <bool fused>
  Sum chain(std::size_t first, std::size_t last) const {
    Sum sum;
    for (std::size_t r = 0; r < rows; ++r) {
      const Vector factor = Vector(a[r][first]);
      for (std::size_t i = 0; i < Sum::vectors; ++i) {
        sum.v[r][i] = factor * Vector::load(panel_row(first) + i * Vector::lanes);
      }
    }
    for (std::size_t k = first + 1; k < last; ++k) {
      Vector column[Sum::vectors];
      for (std::size_t i = 0; i < Sum::vectors; ++i) column[i] = Vector::load(panel_row(k) + i * Vector::lanes);
      for (std::size_t r = 0; r < rows; ++r) {
        const Vector factor = Vector(a[r][k]);
        for (std::size_t i = 0; i < Sum::vectors; ++i) {
          if constexpr (fused) {
            sum.v[r][i] = fma(factor, column[i], sum.v[r][i]);
          } else {
            sum.v[r][i] += factor * column[i];
          }
        }
      }
    }
    return sum;
  }

  /// Chains of `length` products, their sums added one after the other.
  template <bool fused>
  Sum chains(std::size_t length, std::size_t k) const {
    std::size_t last = length < k ? length : k;
    Sum sum = chain<fused>(0, last);
    while (last < k) {
      const std::size_t first = last;
      last = length < k - first ? first + length : k;
      add_to(sum, chain<fused>(first, last));
    }
    return sum;
  }

  /// Halves, the left one the largest power of two below k, recursively: finished sums of 2^j products wait on
  /// a stack, as the ones of a binary counter.
  template <bool fused>
  Sum pairwise(std::size_t k) const {
    Sum waiting[64];
    std::size_t depth = 0;
    for (std::size_t pair = 0; 2 * pair < k; ++pair) {
      Sum sum = chain<fused>(2 * pair, 2 * pair + 2 < k ? 2 * pair + 2 : k);
      for (std::size_t carry = pair; carry % 2 == 1; carry /= 2) add_to(sum, waiting[--depth]);
      waiting[depth++] = sum;
    }
    Sum sum = waiting[--depth];
    while (depth > 0) add_to(sum, waiting[--depth]);
    return sum;
  }

  Sum product(const PackedProduct<Scalar>& p) const {
    if (p.chain == 0) return p.fma ? pairwise<true>(p.k) : pairwise<false>(p.k);
    return p.fma ? chains<true>(p.chain, p.k) : chains<false>(p.chain, p.k);
  }
};

template <class Vector, std::size_t rows>
void multiply_block(const PackedProduct<typename Vector::Number>& p, std::size_t row, std::size_t panel) {
  using Scalar = typename Vector::Number;
  constexpr std::size_t width = panel_width<Scalar>;
  Operands<Vector, rows> operands;
  for (std::size_t r = 0; r < rows; ++r) operands.a[r] = p.a + (row + r) * p.k;
  operands.b = p.b + panel * p.k * width;
  const Tile<Vector, rows> result = operands.product(p);
  const std::size_t columns = p.n - panel * width < width ? p.n - panel * width : width;
  for (std::size_t r = 0; r < rows; ++r) {
    Scalar values[width];
    for (std::size_t i = 0; i < result.vectors; ++i) result.v[r][i].store(values + i * Vector::lanes);
    Scalar* target = p.c + (row + r) * p.n + panel * width;
    for (std::size_t j = 0; j < columns; ++j) target[j] = values[j];
  }
}

/// `rows` rows of C by `panels` panels of columns, every element one fused chain: the operations of Operands::chain,
/// with more sums at once, as many as hide how long each takes.
template <class Vector, std::size_t rows, std::size_t panels>
void multiply_in_one_chain(const PackedProduct<typename Vector::Number>& p, std::size_t row, std::size_t panel) {
  using Scalar = typename Vector::Number;
  constexpr std::size_t width = panel_width<Scalar>, in_panel = width / Vector::lanes, vectors = panels * in_panel;
  const Scalar* a = p.a + row * p.k;
  const Scalar* b = p.b + panel * p.k * width;
  Vector sum[rows][vectors];
  const auto column = [&](std::size_t k, std::size_t i) {
    return Vector::load(b + (i / in_panel * p.k + k) * width + i % in_panel * Vector::lanes);
  };
  for (std::size_t r = 0; r < rows; ++r) {
    const Vector factor = Vector(a[r * p.k]);
    for (std::size_t i = 0; i < vectors; ++i) sum[r][i] = factor * column(0, i);
  }
  for (std::size_t k = 1; k < p.k; ++k) {
    Vector columns[vectors];
    for (std::size_t i = 0; i < vectors; ++i) columns[i] = column(k, i);
    for (std::size_t r = 0; r < rows; ++r) {
      const Vector factor = Vector(a[r * p.k + k]);
      for (std::size_t i = 0; i < vectors; ++i) sum[r][i] = fma(factor, columns[i], sum[r][i]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    Scalar* target = p.c + (row + r) * p.n + panel * width;
    for (std::size_t i = 0; i < vectors; ++i) sum[r][i].store(target + i * Vector::lanes);
  }
}

/// Rows [row, last), `rows` at a time, what is left by halves of that.
template <class Vector, std::size_t rows, std::size_t panels>
void multiply_rows_in_one_chain(const PackedProduct<typename Vector::Number>& p, std::size_t row, std::size_t last,
                                std::size_t panel) {
  for (; row + rows <= last; row += rows) multiply_in_one_chain<Vector, rows, panels>(p, row, panel);
  if constexpr (rows > 1) multiply_rows_in_one_chain<Vector, rows / 2, panels>(p, row, last, panel);
}

/// Columns from `panel` on of all full groups of `panels` panels, so that no single one is left where there are more.
/// Returns the panel after them.
template <class Vector, std::size_t rows, std::size_t panels>
std::size_t multiply_groups(const PackedProduct<typename Vector::Number>& p, std::size_t first, std::size_t last,
                            std::size_t panel) {
  if constexpr (panels > 1) {
    const std::size_t full = p.n / panel_width<typename Vector::Number>;
    for (; panel + panels <= full && (panels == 2 || panel + panels + 1 != full); panel += panels)
      multiply_rows_in_one_chain<Vector, rows, panels>(p, first, last, panel);
    return multiply_groups<Vector, rows, panels - 1>(p, first, last, panel);
  }
  return panel;
}

/// Rows [first, last) of C, `rows` at a time; `most_panels` panels of columns too where all is one fused chain.
/// Domain:    k >= 1
template <class Vector, std::size_t rows, std::size_t most_panels = 1>
void multiply_rows(const PackedProduct<typename Vector::Number>& p, std::size_t first, std::size_t last) {
  const bool is_one_chain = p.fma && p.chain >= p.k;
  std::size_t panel = is_one_chain ? multiply_groups<Vector, rows, most_panels>(p, first, last, 0) : 0;
  for (; panel * panel_width<typename Vector::Number> < p.n; ++panel) {
    std::size_t row = first;
    for (; row + rows <= last; row += rows) multiply_block<Vector, rows>(p, row, panel);
    for (; row < last; ++row) multiply_block<Vector, 1>(p, row, panel);
  }
}

/// `rows` rows of a group by `panels` panels of columns.
template <class Vector, std::size_t rows, std::size_t panels>
void multiply_sparse_tile(const SparseProduct<typename Vector::Number>& p, const SparseRows& group, std::size_t row,
                          std::size_t panel) {
  using Scalar = typename Vector::Number;
  constexpr std::size_t width = panel_width<Scalar>, in_panel = width / Vector::lanes, vectors = panels * in_panel;
  const Scalar* a[rows];
  for (std::size_t r = 0; r < rows; ++r) a[r] = p.a + group.rows[row + r] * p.k;
  const Scalar* b = p.b + panel * p.k * width;
  Vector sum[rows][vectors];
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < vectors; ++i) sum[r][i] = Vector(Scalar(0));
  for (std::size_t j = 0; j < group.column_count; ++j) {
    const std::size_t k = group.columns[j];
    Vector column[vectors];
    for (std::size_t i = 0; i < vectors; ++i)
      column[i] = Vector::load(b + (i / in_panel * p.k + k) * width + i % in_panel * Vector::lanes);
    for (std::size_t r = 0; r < rows; ++r) {
      const Vector factor = Vector(a[r][k]);
      for (std::size_t i = 0; i < vectors; ++i) sum[r][i] = fma(factor, column[i], sum[r][i]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    Scalar values[panels * width];
    for (std::size_t i = 0; i < vectors; ++i) sum[r][i].store(values + i * Vector::lanes);
    const std::size_t first = panel * width, left = p.n - first;
    Scalar* target = p.c + group.rows[row + r] * p.n + first;
    for (std::size_t j = 0; j < panels * width && j < left; ++j) target[j] = values[j];
  }
}

/// `rows` rows of a group at a time from `row` on by `panels` panels, `together` of them at once. Returns the row after.
template <class Vector, std::size_t rows, std::size_t together, std::size_t panels>
std::size_t multiply_sparse_rows(const SparseProduct<typename Vector::Number>& p, const SparseRows& group,
                                 std::size_t row, std::size_t panel) {
  for (; row + rows <= group.row_count; row += rows)
    for (std::size_t i = 0; i < panels; i += together)
      multiply_sparse_tile<Vector, rows, together>(p, group, row, panel + i);
  return row;
}

/// All rows of a group by `panels` panels, as many sums at once as hide how long each takes.
template <class Vector, std::size_t panels>
void multiply_sparse_group(const SparseProduct<typename Vector::Number>& p, const SparseRows& group,
                           std::size_t panel) {
  static_assert(panels == 1 || panels == 4);
  constexpr bool is_wide = Vector::lanes == panel_width<typename Vector::Number>;  // and there are 32 registers
  constexpr std::size_t two = panels < 2 ? 1 : 2;
  std::size_t row = 0;
  if constexpr (is_wide) row = multiply_sparse_rows<Vector, 8, two, panels>(p, group, row, panel);
  row = multiply_sparse_rows < Vector, 4, is_wide ? two : 1, panels > (p, group, row, panel);
  if constexpr (panels == 4) {
    row = multiply_sparse_rows<Vector, 3, 2, panels>(p, group, row, panel);
    row = multiply_sparse_rows<Vector, 2, 2, panels>(p, group, row, panel);
  }
  multiply_sparse_rows<Vector, 1, panels, panels>(p, group, row, panel);
}

/// Four panels at a time for all groups, so that they stay near the processor.
template <class Vector>
void multiply_sparse(const SparseProduct<typename Vector::Number>& p) {
  constexpr std::size_t width = panel_width<typename Vector::Number>;
  std::size_t panel = 0;
  for (; (panel + 3) * width < p.n; panel += 4)
    for (std::size_t i = 0; i < p.group_count; ++i) multiply_sparse_group<Vector, 4>(p, p.groups[i], panel);
  for (; panel * width < p.n; ++panel)
    for (std::size_t i = 0; i < p.group_count; ++i) multiply_sparse_group<Vector, 1>(p, p.groups[i], panel);
}

/// Rows of A, and full panels of columns, of which elements are computed at once: what the registers hold.
constexpr std::size_t rows_at_once = simd::register_bytes == 16 ? 2 : simd::register_bytes == 32 ? 4 : 8;
constexpr std::size_t most_panels = simd::register_bytes == 64 ? 3 : 1;
using Floats = simd::Native<float>;
using Doubles = simd::Native<double>;

}  // namespace

const ProductKernels DRIFTBOUND_SIMD_NAME(product) = {
    DRIFTBOUND_SIMD_TARGET_NAME, &multiply_rows<Floats, rows_at_once, most_panels>,
    &multiply_rows<Doubles, rows_at_once, most_panels>, &multiply_sparse<Floats>, &multiply_sparse<Doubles>};

}  // namespace driftbound
