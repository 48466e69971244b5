#include <doctest/doctest.h>

#ifdef DRIFTBOUND_WITH_EIGEN

#include <Eigen/Core>
#include <vector>

#include "driftbound/evaluate/probe.hpp"

using namespace driftbound;

namespace {

std::vector<float> product_by_eigen(const ProductShape& shape, std::span<const float> a, std::span<const float> b) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> left(a.data(), shape.m, shape.k), right(b.data(), shape.k, shape.n);
  const Matrix c = left * right;
  return {c.data(), c.data() + c.size()};
}

}  // namespace

TEST_CASE("the trees of Eigen's products give its bits") {
  for (const ProductShape& shape : {ProductShape{40, 100, 7}, ProductShape{5, 1000, 33}, ProductShape{1, 77, 64}}) {
    CAPTURE(shape.k);
    const ProbeFindings found = probe_product(product_by_eigen, shape);
    CHECK(found.is_confirmed());
    std::int64_t elements = 0;
    for (const ElementClass& one : found.classes) {
      elements += one.elements;
      MESSAGE(one.elements << " elements: " << words_for(*one.tree));
    }
    CHECK(elements == shape.m * shape.n);
  }
}

#endif
