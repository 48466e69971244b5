#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/evaluate/probe.hpp"
#include "driftbound/trace/matrix_units.hpp"

// What was published of NVIDIA's matrix units, in numbers that the statements give, on the simulated devices: M. Fasi,
// N. Higham, M. Mikaitis and S. Pranesh, PeerJ CS 7:e330, 2021 (V100, T4, A100); F. Khattak and M. Mikaitis,
// arXiv:2512.07004, and P. Xie and others, arXiv:2511.10909 (H100, B200, Ada); P. Xie and others, arXiv:2411.00442 (trees).

namespace {

using namespace driftbound;

/// The sum of a_k b_k on a device.
float on(const std::string& device, const std::string& arithmetic, const std::vector<float>& a,
         const std::vector<float>& b) {
  const Evaluator evaluator =
      cpu_evaluator(simulated_arithmetic(device, arithmetic, parse_summation_order("sequential")));
  return product_call(evaluator)({1, static_cast<std::int64_t>(a.size()), 1}, a, b)[0];
}

/// The sum of numbers, each times 1.
float on(const std::string& device, const std::string& arithmetic, const std::vector<float>& terms) {
  return on(device, arithmetic, terms, std::vector<float>(terms.size(), 1.0f));
}

TEST_CASE("units keep subnormal operands and results, and products exactly") {
  for (const char* device : {"v100", "t4", "a100", "h100", "b200"}) {
    CAPTURE(device);
    CHECK(on(device, "fp16", {0x1p-24f}) == 0x1p-24f);
    CHECK(on(device, "fp16", {0x1p-24f}, {0x1p-24f}) == 0x1p-48f);
    CHECK(on(device, "fp16", {0x1.ffcp+0f}, {0x1.ffcp+0f}) == 0x1.ff8008p+1f);
  }
  for (const char* device : {"a100", "h100", "b200"}) CHECK(on(device, "bf16", {0x1p-70f}, {0x1p-70f}) == 0x1p-140f);
}

TEST_CASE("units cut sums toward zero") {
  for (const char* device : {"v100", "t4", "a100", "h100", "b200"}) {
    CAPTURE(device);
    const std::vector<float> a = {2.0f, 0x1.8p-11f}, b = {1.0f, 0x1p-11f};  // 2 + 3 2^-23
    CHECK(on(device, "fp16", a, b) == 0x1.000002p+1f);                      // to nearest: a tie, to 2 + 2^-21
    CHECK(on(device, "fp16", {-a[0], -a[1]}, b) == -0x1.000002p+1f);
  }
}

TEST_CASE("units keep no bit, one bit or two bits more than a float32 behind the largest addend") {
  const auto one_less = [](const char* device, float a, float b) { return on(device, "fp16", {1.0f, -a}, {1.0f, b}); };
  CHECK(one_less("v100", 0x1p-12f, 0x1p-12f) == 1.0f);  // 1 - 2^-24
  for (const char* device : {"t4", "a100", "h100", "b200"})
    CHECK(one_less(device, 0x1p-12f, 0x1p-12f) == 0x1.fffffep-1f);
  for (const char* device : {"v100", "t4", "a100"}) CHECK(one_less(device, 0x1p-12f, 0x1p-13f) == 1.0f);  // 1 - 2^-25
  for (const char* device : {"h100", "b200"}) CHECK(one_less(device, 0x1p-12f, 0x1p-13f) == 0x1.fffffep-1f);
  for (const char* device : {"h100", "b200"}) CHECK(one_less(device, 0x1p-13f, 0x1p-13f) == 1.0f);  // 1 - 2^-26
}

TEST_CASE("units add the products of a step in any order, without normalising between them") {
  std::vector<float> terms = {-1.0f, 0x1p-24f, 0x1p-24f, 1.0f};
  do {
    CHECK(on("v100", "fp16", terms) == 0.0f);
    CHECK(on("a100", "fp16", terms) == 0x1p-23f);
  } while (std::next_permutation(terms.begin(), terms.end()));
  for (const char* device : {"v100", "t4", "a100", "h100", "b200"})  // sums of four have two carry bits
    CHECK(on(device, "fp16", {0x1.ffcp+0f, 0x1.ffcp+0f, 0x1.ffcp+0f, 0x1.ffcp+0f}) == 0x1.ffcp+2f);
}

TEST_CASE("sums of units are not monotonic") {
  // 1 - 2^-24 in the first step of four products, or 1, and 2^-24 four times in the second one.
  const std::vector<float> below = {0.5f, 0x1.ff8p-2f, 0x1.ff8p-12f, 0x1.cp-22f};
  const auto with_four_more = [](std::vector<float> a) {
    a.insert(a.end(), 4, 0x1p-24f);
    return on("v100", "fp16", a);
  };
  CHECK(on("v100", "fp16", {0.5f, 0x1.ff8p-2f, 0x1.ff8p-12f, 0x1.cp-12f}, {1.0f, 1.0f, 1.0f, 0x1p-10f}) ==
        0x1.fffffep-1f);
  CHECK(with_four_more({1.0f, 0.0f, 0.0f, 0.0f}) == 1.0f);
  CHECK(with_four_more(below) == 0x1.000002p+0f);
}

TEST_CASE("fp8 sums keep 13 bits on Ada and Hopper, and float32's on Blackwell") {
  for (const char* device : {"l40s", "h100"}) {
    CHECK(on(device, "fp8_e4m3", {1.0f, 0x1p-7f}, {1.0f, 0x1p-6f}) == 0x1.0008p+0f);  // 1 + 2^-13
    CHECK(on(device, "fp8_e4m3", {1.0f, 0x1p-7f}, {1.0f, 0x1p-7f}) == 1.0f);          // 1 + 2^-14
  }
  CHECK(on("b200", "fp8_e4m3", {1.0f, 0x1p-7f}, {1.0f, 0x1p-7f}) == 0x1.0004p+0f);
}

TEST_CASE("masks leave the units that are added behind the step in which they meet") {
  struct Unit {
    const char *device, *arithmetic;
    std::size_t block;
  };
  for (const Unit& unit : {Unit{"v100", "fp16", 4}, Unit{"a100", "fp16", 8}, Unit{"h100", "fp16", 16},
                           Unit{"a100", "tf32", 4}, Unit{"h100", "tf32", 8}, Unit{"l40s", "fp8_e5m2", 16}}) {
    CAPTURE(unit.device);
    const std::size_t n = 64;
    for (const std::size_t j : {1U, 7U, 20U, 63U}) {
      std::vector<float> a(n, 0x1p-8f), b(n, 0x1p-8f);
      a[0] = b[0] = a[j] = 0x1p+14f;
      b[j] = -0x1p+14f;
      const std::size_t lost = (j / unit.block + 1) * unit.block;
      CHECK(on(unit.device, unit.arithmetic, a, b) == 0x1p-16f * static_cast<float>(n - lost));
    }
  }
}

}  // namespace
