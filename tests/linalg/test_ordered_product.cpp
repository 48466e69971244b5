#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "linalg/ordered_product_kernels.hpp"

namespace {

using namespace driftbound;

template <class Real>
std::vector<Real> spiteful(std::size_t count, std::mt19937_64& random) {
  std::vector<Real> values(count);
  for (Real& x : values) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    x = static_cast<Real>(std::ldexp(unit, static_cast<int>(random() % 30) - 15));
  }
  return values;
}

template <class Real>
void check_kernels_agree() {
  std::mt19937_64 random(11);
  const std::size_t width = panel_width<Real>;
  for (const std::size_t m : {1u, 2u, 7u, 9u, 17u}) {
    for (const std::size_t n : {1u, 15u, 16u, 33u, 57u}) {
      for (const std::size_t k : {1u, 2u, 5u, 31u, 64u}) {
        const std::vector<Real> a = spiteful<Real>(m * k, random);
        const std::vector<Real> b = spiteful<Real>((n + width - 1) / width * width * k, random);
        for (const std::size_t chain : {0u, 1u, 3u, 8u, 1000u}) {
          for (const bool fma : {false, true}) {
            std::vector<std::vector<Real>> results;
            for (const ProductKernels* kernels : usable_product_kernels()) {
              std::vector<Real> c(m * n, Real(-1));
              const PackedProduct<Real> product{a.data(), b.data(), c.data(), m, n, k, chain, fma};
              kernels->multiply(product, 0, m / 2);  // any division into rows
              kernels->multiply(product, m / 2, m);
              results.push_back(c);
              CAPTURE(kernels->name);
              CHECK(std::memcmp(c.data(), results.front().data(), c.size() * sizeof(Real)) == 0);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("every build of the product gives the same bits in float") {
  check_kernels_agree<float>();
}

TEST_CASE("every build of the product gives the same bits in double") {
  check_kernels_agree<double>();
}

template <class Real>
void check_sparse_products() {
  std::mt19937_64 random(12);
  const std::size_t width = panel_width<Real>;
  for (const std::size_t n : {1u, 8u, 15u, 32u, 57u, 64u}) {
    for (const std::size_t k : {1u, 5u, 64u}) {
      const std::vector<std::uint32_t> rows = {3, 0, 7, 4, 1, 2, 6, 9, 8, 5};
      std::vector<std::uint32_t> columns;
      for (std::uint32_t j = 0; j < k; j += 1 + static_cast<std::uint32_t>(random() % 3)) columns.push_back(j);
      const std::vector<Real> all = spiteful<Real>(rows.size() * k, random);
      std::vector<Real> a(all.size(), Real(0));
      for (std::size_t row = 0; row < rows.size(); ++row)
        for (const std::uint32_t j : columns) a[row * k + j] = all[row * k + j];
      const std::vector<Real> b = spiteful<Real>((n + width - 1) / width * width * k, random);
      std::vector<Real> whole(rows.size() * n);
      product_baseline.multiply(PackedProduct<Real>{a.data(), b.data(), whole.data(), rows.size(), n, k, k, true}, 0,
                                rows.size());
      const std::vector<SparseRows> groups = {{rows.data(), columns.data(), 7, columns.size()},
                                              {rows.data() + 7, columns.data(), 2, columns.size()},
                                              {rows.data() + 9, columns.data(), 1, columns.size()}};
      for (const ProductKernels* kernels : usable_product_kernels()) {
        CAPTURE(kernels->name);
        std::vector<Real> c(rows.size() * n, Real(-1));
        kernels->multiply(SparseProduct<Real>{a.data(), b.data(), c.data(), n, k, groups.data(), groups.size()});
        CHECK(std::memcmp(c.data(), whole.data(), c.size() * sizeof(Real)) == 0);
      }
    }
  }
}

TEST_CASE("products of rows with zeros in the same columns give the bits of one chain, in every build") {
  check_sparse_products<double>();
  check_sparse_products<float>();
}

TEST_CASE("the slowest build runs everywhere") {
  CHECK(std::string(usable_product_kernels().front()->name) == "baseline");
  CHECK(&fastest_product_kernels() == usable_product_kernels().back());
}

}  // namespace
