#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

/// Data with a structure that rounding errors may share, and sums of products in float32 in many orders, by plain loops.
namespace structured {

struct Factors {
  std::vector<float> x, w;
};

struct Kind {
  std::string name;
  std::function<Factors(std::size_t, std::mt19937_64&)> make;
};

namespace detail {
inline float uniform(std::mt19937_64& random) {
  return std::uniform_real_distribution<float>(0.0F, 1.0F)(random);
}
inline float normal(std::mt19937_64& random) {
  return std::normal_distribution<float>()(random);
}
using Draw = std::function<float(std::size_t k, std::size_t n, std::mt19937_64&)>;
inline std::vector<float> drawn(std::size_t n, std::mt19937_64& random, const Draw& draw) {
  std::vector<float> values(n);
  for (std::size_t k = 0; k < n; ++k) values[k] = draw(k, n, random);
  return values;
}
/// Numbers of `bits` bits in [1, 2), which are `rest` modulo `modulus` in their last places.
inline float of_few_bits(int bits, int modulus, int rest, std::mt19937_64& random) {
  const float lowest = std::floor(std::ldexp(1.0F + uniform(random), bits) / static_cast<float>(modulus));
  return std::ldexp(lowest * static_cast<float>(modulus) + static_cast<float>(rest), -bits);
}
}  // namespace detail

inline std::vector<Kind> kinds() {
  using namespace detail;
  std::vector<Kind> all;
  const auto add = [&](std::string name, Draw x, Draw w) {
    all.push_back({std::move(name), [x = std::move(x), w = std::move(w)](std::size_t n, std::mt19937_64& random) {
                     return Factors{drawn(n, random, x), drawn(n, random, w)};
                   }});
  };
  const Draw one = [](auto, auto, auto&) { return 1.0F; };
  const Draw normals = [](auto, auto, auto& r) { return normal(r); };
  const Draw uniforms = [](auto, auto, auto& r) { return uniform(r); };
  add("normal", normals, normals);
  add("positive", uniforms, uniforms);
  add("sums of positive", one, uniforms);
  add(
      "constant", [](auto, auto, auto&) { return 0.1F; }, one);
  add(
      "sparse", [](auto, auto, auto& r) { return std::max(normal(r), 0.0F); }, normals);
  add(
      "one-hot", [](std::size_t k, std::size_t n, auto&) { return k == n / 3 ? 1.0F : 0.0F; }, normals);
  add(
      "powers of 2", [](auto, auto, auto& r) { return std::ldexp(1.0F, static_cast<int>(r() % 12)); },
      [](auto, auto, auto& r) { return std::ldexp(1.0F, static_cast<int>(r() % 12)); });
  add(
      "integers", [](auto, auto, auto& r) { return static_cast<float>(r() % 1000); },
      [](auto, auto, auto& r) { return static_cast<float>(r() % 1000); });
  add("ramp", one, [](std::size_t k, auto, auto&) { return static_cast<float>(k + 1) * 0.1F; });
  add("dyadic ramp", one,
      [](std::size_t k, std::size_t n, auto&) { return static_cast<float>(k) / static_cast<float>(n); });
  add(
      "decay", [](std::size_t k, auto, auto&) { return std::pow(0.999F, static_cast<float>(k)); }, one);
  add(
      "harmonic", [](std::size_t k, auto, auto&) { return 1.0F / static_cast<float>(k + 1); }, one);
  add("log-normal", one, [](auto, auto, auto& r) { return std::exp(3.0F * normal(r)); });
  add("within 2^-7", one, [](auto, auto, auto& r) { return 1.0F + 0.01F * uniform(r); });
  add(
      "pixels", [](auto, auto, auto& r) { return static_cast<float>(r() % 256) / 255.0F; },
      [](auto, auto, auto& r) { return std::abs(normal(r)); });
  add(
      "int8", [](auto, auto, auto& r) { return 0.013F * static_cast<float>(r() % 128); },
      [](auto, auto, auto& r) { return 0.0071F * (static_cast<float>(r() % 255) - 127.0F); });
  add(
      "int4", [](auto, auto, auto& r) { return 0.013F * static_cast<float>(r() % 16); },
      [](auto, auto, auto& r) { return 0.0071F * static_cast<float>(r() % 8); });
  add("cancelling", one, [](std::size_t k, std::size_t n, auto&) {
    return k < n / 2 ? std::sin(static_cast<float>(k)) : -std::sin(static_cast<float>(n - 1 - k));
  });
  for (const int bits : {4, 8, 12, 16, 20}) {
    const std::string named = std::to_string(bits) + " bits";
    add(named, one, [=](auto, auto, auto& r) { return of_few_bits(bits, 1, 0, r); });
    add(named + ", odd", one, [=](auto, auto, auto& r) { return of_few_bits(bits, 2, 1, r); });
    add(named + ", 1 mod 4", one, [=](auto, auto, auto& r) { return of_few_bits(bits, 4, 1, r); });
  }
  for (const std::size_t levels : {2U, 3U, 5U, 16U, 64U}) {
    const auto level = [levels](bool is_signed) {
      return [levels, is_signed](std::size_t n, std::mt19937_64& random) {
        std::vector<float> values(levels), left(n), right(n, 1.0F);
        for (float& value : values) value = is_signed ? normal(random) : uniform(random);
        for (float& value : left) value = values[random() % levels];
        return Factors{left, right};
      };
    };
    const std::string named = std::to_string(levels);
    all.push_back({named + " levels", level(false)});
    all.push_back({named + " signed levels", level(true)});
    const auto repeated = [levels](bool in_runs) {
      return [levels, in_runs](std::size_t n, std::mt19937_64& random) {
        std::vector<float> values(levels), left(n), right(n, 1.0F);
        for (float& value : values) value = uniform(random);
        for (std::size_t k = 0; k < n; ++k) left[k] = values[in_runs ? k * levels / n : k % levels];
        return Factors{left, right};
      };
    };
    all.push_back({"period " + named, repeated(false)});
    all.push_back({named + " runs", repeated(true)});
  }
  for (const int places : {9, 11, 12, 14, 16, 20}) {
    const std::string named = std::to_string(places);
    const auto small_after = [places](double share) {
      return [places, share](std::size_t k, std::size_t n, std::mt19937_64& r) {
        const bool is_large = static_cast<double>(k) < share * static_cast<double>(n);
        return is_large ? uniform(r) : std::ldexp(uniform(r), -places);
      };
    };
    add("large, then small by 2^-" + named, one, small_after(0.6));
    add("one large, then small by 2^-" + named, one,
        [places](std::size_t k, auto, auto& r) { return k == 0 ? 1.0F : std::ldexp(uniform(r), -places); });
    add("ten large, then small by 2^-" + named, one, [places](std::size_t k, auto, auto& r) {
      return k < 10 ? 1.0F + uniform(r) : std::ldexp(uniform(r), -places);
    });
  }
  all.push_back(
      {"sorted", [](std::size_t n, std::mt19937_64& random) {
         Factors sorted{std::vector<float>(n, 1.0F), drawn(n, random, [](auto, auto, auto& r) { return uniform(r); })};
         std::sort(sorted.w.begin(), sorted.w.end());
         return sorted;
       }});
  all.push_back({"sorted log-normal", [](std::size_t n, std::mt19937_64& random) {
                   Factors sorted{std::vector<float>(n, 1.0F),
                                  drawn(n, random, [](auto, auto, auto& r) { return std::exp(3.0F * normal(r)); })};
                   std::sort(sorted.w.rbegin(), sorted.w.rend());
                   return sorted;
                 }});
  return all;
}

/// A way to add up products: chains of places, each from 0 on, whose sums are added in turn; or pairwise.
struct Order {
  std::string name;
  bool is_fused = false, is_pairwise = false;
  std::function<std::vector<std::vector<std::size_t>>(std::size_t)> chains;
};

namespace detail {
inline float pairwise(const std::vector<float>& x, const std::vector<float>& w, std::size_t first, std::size_t last) {
  if (last - first == 1) return x[first] * w[first];
  const std::size_t middle = first + (last - first) / 2;
  return pairwise(x, w, first, middle) + pairwise(x, w, middle, last);
}
}  // namespace detail

inline std::vector<Order> orders() {
  std::vector<Order> all;
  const auto add = [&](const std::string& name, auto chains) {
    for (const bool is_fused : {false, true}) all.push_back({name + (is_fused ? "+fma" : ""), is_fused, false, chains});
  };
  const auto blocks = [](std::size_t size) {
    return [size](std::size_t n) {
      std::vector<std::vector<std::size_t>> chains((n + size - 1) / size);
      for (std::size_t k = 0; k < n; ++k) chains[k / size].push_back(k);
      return chains;
    };
  };
  const auto lanes = [](std::size_t count) {
    return [count](std::size_t n) {
      std::vector<std::vector<std::size_t>> chains(count);
      for (std::size_t k = 0; k < n; ++k) chains[k % count].push_back(k);
      return chains;
    };
  };
  add("sequential", blocks(std::size_t{1} << 40));
  add("reverse", [](std::size_t n) {
    std::vector<std::size_t> chain(n);
    std::iota(chain.rbegin(), chain.rend(), 0U);
    return std::vector<std::vector<std::size_t>>{chain};
  });
  add("from the middle", [](std::size_t n) {
    std::vector<std::size_t> chain(n);
    std::iota(chain.begin(), chain.end(), 0U);
    std::rotate(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(n / 2), chain.end());
    return std::vector<std::vector<std::size_t>>{chain};
  });
  for (const std::size_t size : {16U, 32U, 64U, 128U, 256U, 1024U})
    add("blocks of " + std::to_string(size), blocks(size));
  for (const std::size_t parts : {2U, 4U, 16U})
    add(std::to_string(parts) + " parts", [parts](std::size_t n) {
      const std::size_t size = (n + parts - 1) / parts;
      std::vector<std::vector<std::size_t>> chains((n + size - 1) / size);
      for (std::size_t k = 0; k < n; ++k) chains[k / size].push_back(k);
      return chains;
    });
  for (const std::size_t count : {2U, 4U, 8U, 16U, 32U}) add(std::to_string(count) + " lanes", lanes(count));
  all.push_back({"pairwise", false, true, {}});
  return all;
}

inline float sum(const Factors& factors, const Order& order) {
  if (order.is_pairwise) return detail::pairwise(factors.x, factors.w, 0, factors.x.size());
  float total = 0.0F;
  for (const std::vector<std::size_t>& chain : order.chains(factors.x.size())) {
    float part = 0.0F;
    for (const std::size_t k : chain)
      part = order.is_fused ? std::fma(factors.x[k], factors.w[k], part) : part + factors.x[k] * factors.w[k];
    total += part;
  }
  return total;
}

}  // namespace structured
