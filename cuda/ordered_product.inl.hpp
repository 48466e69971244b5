// C = A B in a declared order. Which thread computes an element, and what it computes beside it, changes nothing in
// the operations of that element: the same bits for every m, n, tile and launch.
#pragma once

#include <cstdint>

#include "evaluate/device/interface.h"
#include "evaluate/shared/sums.inl.hpp"
#include "num/narrow.inl.hpp"

namespace driftbound::device {

template <class Real>
struct Operands {
  const Real* a;
  const Real* b;
  Real* c;
  std::int64_t m, n, k, a_row, a_col, b_row, b_col;

  explicit Operands(const driftbound_product& p)
      : a(static_cast<const Real*>(p.a)),
        b(static_cast<const Real*>(p.b)),
        c(static_cast<Real*>(p.c)),
        m(p.m),
        n(p.n),
        k(p.k),
        a_row(p.a_row),
        a_col(p.a_col),
        b_row(p.b_row),
        b_col(p.b_col) {}
};

/// One element of C an index.
template <class Real>
struct PairwiseProduct {
  Operands<Real> p;
  bool fused;

  DRIFTBOUND_HD void operator()(std::int64_t index) const {
    const std::int64_t i = index / p.n, j = index % p.n;
    const shared::ProductChain<Real> chain{p.a + i * p.a_row, p.a_col, p.b + j * p.b_col, p.b_row, fused};
    p.c[index] = narrow::canonical(shared::pairwise_sum(p.k, chain));
  }
};

/// rows x columns sums that grow by one product each at a time: chains of products, and the sum of the finished chains.
template <class Real, bool fused, unsigned rows, unsigned columns>
class ChainSums {
public:
  DRIFTBOUND_HD explicit ChainSums(std::int64_t chain_length) : chain_length_(chain_length) {}

  DRIFTBOUND_HD void add(const Real (&a)[rows], const Real (&b)[columns]) {
    if (in_chain_ == 0) {
      for (unsigned r = 0; r < rows; ++r) {
        for (unsigned c = 0; c < columns; ++c) chain_[r][c] = a[r] * b[c];
      }
    } else {
      for (unsigned r = 0; r < rows; ++r) {
        for (unsigned c = 0; c < columns; ++c) chain_[r][c] = shared::add_product(fused, a[r], b[c], chain_[r][c]);
      }
    }
    if (++in_chain_ == chain_length_) finish_chain();
  }

  /// The sums, after the last product.
  DRIFTBOUND_HD const Real (&finished())[rows][columns] {
    if (in_chain_ > 0) finish_chain();
    return total_;
  }

private:
  DRIFTBOUND_HD void finish_chain() {
    for (unsigned r = 0; r < rows; ++r) {
      for (unsigned c = 0; c < columns; ++c) total_[r][c] = any_ ? total_[r][c] + chain_[r][c] : chain_[r][c];
    }
    any_ = true;
    in_chain_ = 0;
  }

  std::int64_t chain_length_;
  std::int64_t in_chain_ = 0;
  bool any_ = false;
  Real chain_[rows][columns] = {};
  Real total_[rows][columns] = {};
};

/// A block of C by the threads of one CUDA block, which go through k together: load() fills the shared tiles, add()
/// uses them, with all threads done before the next of the two begins; store() ends.
template <class Real, bool fused>
struct TiledProduct {
  static constexpr unsigned threads = 256;
  static constexpr unsigned across = 16;  ///< threads in a row of threads
  static constexpr unsigned rows = 4, columns = 4;
  static constexpr unsigned block_rows = threads / across * rows, block_columns = across * columns;
  static constexpr unsigned depth = 16;

  struct Tiles {
    Real a[depth][block_rows + 1];  // a column more, so that threads with neighbouring k use different banks
    Real b[depth][block_columns + 1];
  };
  using Sums = ChainSums<Real, fused, rows, columns>;

  Operands<Real> p;
  std::int64_t chain_length;

  DRIFTBOUND_HD std::int64_t blocks_across() const { return (p.n + block_columns - 1) / block_columns; }
  DRIFTBOUND_HD std::int64_t blocks() const { return (p.m + block_rows - 1) / block_rows * blocks_across(); }
  DRIFTBOUND_HD std::int64_t first_row(std::int64_t block) const { return block / blocks_across() * block_rows; }
  DRIFTBOUND_HD std::int64_t first_column(std::int64_t block) const { return block % blocks_across() * block_columns; }

  DRIFTBOUND_HD void load(Tiles& tiles, std::int64_t block, unsigned thread, std::int64_t first_k) const {
    for (unsigned e = thread; e < block_rows * depth; e += threads) {
      const unsigned row = p.a_col == 1 ? e / depth : e % block_rows;  // neighbouring threads, neighbouring addresses
      const unsigned step = p.a_col == 1 ? e % depth : e / block_rows;
      const std::int64_t i = first_row(block) + row, k = first_k + step;
      tiles.a[step][row] = i < p.m && k < p.k ? p.a[i * p.a_row + k * p.a_col] : Real(0);
    }
    for (unsigned e = thread; e < block_columns * depth; e += threads) {
      const unsigned column = p.b_row == 1 ? e / depth : e % block_columns;
      const unsigned step = p.b_row == 1 ? e % depth : e / block_columns;
      const std::int64_t j = first_column(block) + column, k = first_k + step;
      tiles.b[step][column] = j < p.n && k < p.k ? p.b[k * p.b_row + j * p.b_col] : Real(0);
    }
  }

  DRIFTBOUND_HD void add(const Tiles& tiles, unsigned thread, std::int64_t first_k, Sums& sums) const {
    const unsigned steps = p.k - first_k < depth ? static_cast<unsigned>(p.k - first_k) : depth;
    for (unsigned step = 0; step < steps; ++step) {
      Real a[rows], b[columns];
      for (unsigned r = 0; r < rows; ++r) a[r] = tiles.a[step][row_of(thread, r)];
      for (unsigned c = 0; c < columns; ++c) b[c] = tiles.b[step][column_of(thread, c)];
      sums.add(a, b);
    }
  }

  DRIFTBOUND_HD void store(std::int64_t block, unsigned thread, Sums& sums) const {
    const Real(&finished)[rows][columns] = sums.finished();
    for (unsigned r = 0; r < rows; ++r) {
      const std::int64_t i = first_row(block) + row_of(thread, r);
      for (unsigned c = 0; c < columns; ++c) {
        const std::int64_t j = first_column(block) + column_of(thread, c);
        if (i < p.m && j < p.n) p.c[i * p.n + j] = narrow::canonical(finished[r][c]);
      }
    }
  }

private:
  DRIFTBOUND_HD static unsigned row_of(unsigned thread, unsigned r) { return thread / across * rows + r; }
  DRIFTBOUND_HD static unsigned column_of(unsigned thread, unsigned c) { return c * across + thread % across; }
};

}  // namespace driftbound::device
