#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "driftbound/trace/arithmetic.hpp"

/// Plain evaluations in native arithmetic, sharing nothing with the library.
namespace naive {

using driftbound::FormatId;
using driftbound::SummationOrder;

/// float32 rounded to nearest even in a narrower format of the same exponent range: its last bits dropped.
inline float drop_bits(float x, int bits) {
  const auto pattern = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t half = (1u << (bits - 1)) - 1u + ((pattern >> bits) & 1u);
  return std::bit_cast<float>((pattern + half) >> bits << bits);
}

inline float as_bf16(float x) {
  return drop_bits(x, 16);
}
inline float as_tf32(float x) {
  return drop_bits(x, 13);
}
/// Domain: |x| < 65504
inline float as_fp16(float x) {
  return std::abs(x) < 0x1p-14f ? std::copysign((std::abs(x) + 0.75f) - 0.75f, x) : drop_bits(x, 13);
}

inline float as_operand(float x, FormatId input) {
  switch (input) {
    case FormatId::bf16:
      return as_bf16(x);
    case FormatId::tf32:
      return as_tf32(x);
    case FormatId::fp16:
      return as_fp16(x);
    default:
      return x;
  }
}
inline double as_operand(double x, FormatId) {
  return x;
}

template <class T>
T chain(const std::vector<T>& a, const std::vector<T>& b, std::size_t first, std::size_t last, bool fma) {
  T sum = a[first] * b[first];
  for (std::size_t k = first + 1; k < last; ++k) {
    if (fma) {
      sum = std::fma(a[k], b[k], sum);
    } else {
      const T product = a[k] * b[k];
      sum = sum + product;
    }
  }
  return sum;
}

template <class T>
T pairwise(const std::vector<T>& a, const std::vector<T>& b, std::size_t first, std::size_t last, bool fma) {
  const std::size_t n = last - first;
  if (n == 1) return a[first] * b[first];
  if (n == 2 && fma) return std::fma(a[first + 1], b[first + 1], a[first] * b[first]);
  std::size_t half = 1;
  while (2 * half < n) half *= 2;
  return pairwise(a, b, first, first + half, fma) + pairwise(a, b, first + half, last, fma);
}

template <class T>
T dot(const SummationOrder& order, const std::vector<T>& a, const std::vector<T>& b) {
  const std::size_t n = a.size();
  const auto parameter = static_cast<std::size_t>(order.parameter);
  std::size_t length = n;
  switch (order.kind) {
    case SummationOrder::Kind::pairwise:
      return pairwise(a, b, 0, n, order.fma);
    case SummationOrder::Kind::blocked:
      length = parameter;
      break;
    case SummationOrder::Kind::split_k:
      length = (n + parameter - 1) / parameter;
      break;
    default:
      break;
  }
  T total = chain(a, b, 0, std::min(n, length), order.fma);
  for (std::size_t first = length; first < n; first += length) {
    total = total + chain(a, b, first, std::min(n, first + length), order.fma);
  }
  return total;
}

/// The same sum over a random binary tree with a bias among its leaves and a random choice of fused steps.
template <class T, class Generator>
T random_tree(const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& stored, Generator& generator) {
  std::vector<T> nodes = stored;
  std::vector<std::pair<T, T>> products;
  for (std::size_t k = 0; k < a.size(); ++k) products.emplace_back(a[k], b[k]);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(generator() % n); };
  while (!products.empty() || nodes.size() > 1) {
    const bool fuse = !products.empty() && !nodes.empty() && below(2) == 0;
    if (fuse || (!products.empty() && (nodes.size() < 2 || below(2) == 0))) {
      std::swap(products[below(products.size())], products.back());
      const auto [p, q] = products.back();
      products.pop_back();
      if (fuse) {
        T& target = nodes[below(nodes.size())];
        target = std::fma(p, q, target);
      } else {
        nodes.push_back(p * q);
      }
    } else {
      std::swap(nodes[below(nodes.size())], nodes.back());
      const T last = nodes.back();
      nodes.pop_back();
      T& target = nodes[below(nodes.size())];
      target = target + last;
    }
  }
  return nodes.front();
}

}  // namespace naive
