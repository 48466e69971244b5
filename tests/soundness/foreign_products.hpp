#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace driftbound::soundness {

/// Matrices of one product as the arithmetic reads them, row-major.
struct FloatProduct {
  std::size_t m = 0, k = 0, n = 0;
  std::vector<float> a;     ///< [m, k]
  std::vector<float> b;     ///< [k, n]
  std::vector<float> bias;  ///< [n], or empty
};

/// A program's way to sum: A B + bias in float32, [m, n], in an order that the program chooses.
struct ForeignProduct {
  std::string name;
  std::function<std::vector<float>(const FloatProduct&)> multiply;
};

/// Every column in an order of its own, drawn from the seed: a chain or a random tree over products and bias, with
/// fused steps, without, or with some. The rows share the order.
ForeignProduct permuted_product(std::uint64_t seed);

/// Every element in an order of its own, chosen so that partial sums grow far and come back: the terms of one sign first,
/// the largest of them first, then those of the other sign, from the smallest or from the largest. Rounded products,
/// the bias a term like the others. Four such products.
std::vector<ForeignProduct> products_by_sign();

/// Of the libraries that this was built with: Eigen, OpenBLAS. Their sums, then the bias.
std::vector<ForeignProduct> library_products();

}  // namespace driftbound::soundness
