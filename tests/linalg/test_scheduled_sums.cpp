#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "driftbound/num/format.hpp"
#include "linalg/scheduled_sums.hpp"
#include "simd/dispatch.hpp"
#include "support/tensor_core.hpp"

namespace {

using namespace driftbound;

struct SimulatedUnit {
  FormatId operands;
  int fraction_bits, block, sum_bits;
};

constexpr SimulatedUnit simulated_units[] = {
    {FormatId::fp16, 23, 4, 23},      {FormatId::fp16, 24, 8, 23},      {FormatId::tf32, 24, 4, 23},
    {FormatId::bf16, 25, 16, 23},     {FormatId::fp16, 25, 16, 23},     {FormatId::tf32, 25, 8, 23},
    {FormatId::fp8_e4m3, 13, 16, 13}, {FormatId::fp8_e5m2, 13, 32, 13}, {FormatId::fp8_e4m3, 25, 32, 23}};

/// Numbers of a format of any size, among them zeros, subnormal numbers, and equal ones with the other sign.
std::vector<float> numbers_of(FormatId id, std::size_t count, int spread, std::mt19937_64& random) {
  const Format& f = format(id);
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    const int exponent = static_cast<int>(random() % static_cast<unsigned>(spread)) - spread / 2;
    double x = std::ldexp(unit, std::max(f.min_exponent - 2, std::min(exponent, f.max_exponent - 2)));
    if (random() % 16 == 0) x = 0.0;
    if (random() % 16 == 0) x = std::ldexp(unit, f.min_exponent);
    if (random() % 8 == 0 && i > 0) x = -static_cast<double>(numbers[i - 1]);
    numbers[i] = static_cast<float>(round_to(x, f, Rounding::nearest_even));
  }
  return numbers;
}

ProductKernel kernel_of_unit(const SimulatedUnit& simulated) {
  ProductKernel kernel;
  kernel.operands = simulated.operands;
  TensorCore& unit = kernel.matrix_unit.emplace();
  unit.fraction_bits = simulated.fraction_bits;
  unit.block = simulated.block;
  unit.sum_bits = simulated.sum_bits;
  return kernel;
}

/// By the emulator in integers.
float sum_by_emulator(const SimulatedUnit& simulated, const std::vector<float>& a, const std::vector<float>& b,
                      std::size_t row, std::size_t column, std::size_t k, std::size_t n, std::size_t run) {
  const test::TensorCoreUnit unit{simulated.fraction_bits, simulated.block, format(simulated.operands).min_exponent,
                                  simulated.sum_bits};
  float sum = 0.0f;
  for (std::size_t first = 0; first < k; first += run) {
    const float part = test::tensor_core_chain(
        unit, 0.0f, static_cast<std::int64_t>(std::min(run, k - first)),
        [&](std::int64_t l) { return a[row * k + first + static_cast<std::size_t>(l)]; },
        [&](std::int64_t l) { return b[(first + static_cast<std::size_t>(l)) * n + column]; });
    sum = first == 0 ? part : sum + part;
  }
  return sum;
}

TEST_CASE("a simulated matrix unit has the bits of an emulator in integers") {
  std::mt19937_64 random(20261128);
  const std::size_t m = 3, n = 19;
  for (const SimulatedUnit& simulated : simulated_units) {
    for (const std::size_t k : {1u, 7u, 32u, 100u, 257u}) {
      for (const int spread : {2, 12, 60}) {
        const std::vector<float> a = numbers_of(simulated.operands, m * k, spread, random);
        const std::vector<float> b = numbers_of(simulated.operands, k * n, spread, random);
        const ProductPlan plan{1,
                               static_cast<std::int64_t>(m),
                               static_cast<std::int64_t>(n),
                               static_cast<std::int64_t>(k),
                               {0},
                               {0},
                               static_cast<std::int64_t>(k),
                               1,
                               static_cast<std::int64_t>(n),
                               1};
        PackedMatrices<float> packed;
        pack_missing<float>(plan, b, packed);
        for (const std::size_t slices : {1u, 3u}) {
          ProductKernel kernel = kernel_of_unit(simulated);
          const auto block = static_cast<std::size_t>(simulated.block);
          const std::size_t run = ((k + slices - 1) / slices + block - 1) / block * block;
          kernel.dealing.run = static_cast<std::int64_t>(run);
          for (const int threads : {1, 2}) {
            std::vector<float> c(m * n);
            linalg::multiply_by_kernel(plan, a, packed, kernel, threads, c);
            for (std::size_t i = 0; i < m; ++i)
              for (std::size_t j = 0; j < n; ++j) {
                CAPTURE(k);
                CAPTURE(simulated.fraction_bits);
                CHECK(c[i * n + j] == sum_by_emulator(simulated, a, b, i, j, k, n, run));
              }
          }
        }
      }
    }
  }
}

TEST_CASE("sums of a simulated unit that are not finite are those of float32") {
  const SimulatedUnit hopper{FormatId::bf16, 25, 16, 23};
  const float huge = 0x1p120f, infinite = INFINITY;
  const std::vector<std::vector<float>> rows = {{huge, huge}, {infinite, 1.0f}, {infinite, -infinite}, {NAN, 1.0f}};
  const std::vector<float> column = {0x1p20f, 1.0f};
  const ProductKernel kernel = kernel_of_unit(hopper);
  const ProductPlan plan{1, 1, 1, 2, {0}, {0}, 2, 1, 1, 1};
  PackedMatrices<float> packed;
  pack_missing<float>(plan, column, packed);
  std::vector<float> sums;
  for (const std::vector<float>& row : rows) {
    std::vector<float> c(1);
    linalg::multiply_by_kernel(plan, row, packed, kernel, 1, c);
    sums.push_back(c[0]);
  }
  CHECK(sums[0] == INFINITY);
  CHECK(sums[1] == INFINITY);
  CHECK(std::isnan(sums[2]));
  CHECK(std::isnan(sums[3]));
}

/// The sum by the words of trace/product_kernel.hpp, one number after the other.
float plain_sum(const ProductKernel& kernel, const std::vector<float>& a, const std::vector<float>& b) {
  const auto n = static_cast<std::int64_t>(a.size());
  std::vector<float> parts;
  const auto chain = [&](const std::vector<std::int64_t>& terms) {
    float sum = 0.0f;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const auto k = static_cast<std::size_t>(terms[i]);
      const float product = a[k] * b[k];
      sum = i == 0 ? product : kernel.fma ? std::fma(a[k], b[k], sum) : sum + product;
    }
    parts.push_back(sum);
  };
  const Dealing& dealing = kernel.dealing;
  if (dealing.kind == Dealing::Kind::interleaved) {
    for (std::int64_t part = 0; part < dealing.parts; ++part) {
      std::vector<std::int64_t> terms;
      for (std::int64_t k = 0; k < n; ++k)
        if (k / dealing.run % dealing.parts == part) terms.push_back(k);
      if (!terms.empty()) chain(terms);
    }
  } else {
    for (std::int64_t first = 0; first < n;) {
      std::int64_t length = std::min(dealing.run, n - first);
      if (dealing.kind == Dealing::Kind::balanced && n - first > dealing.run && n - first < 2 * dealing.run) {
        length = (n - first + 1) / 2;
        while (length % dealing.multiple != 0) ++length;
      }
      std::vector<std::int64_t> terms;
      for (std::int64_t k = first; k < std::min(first + length, n); ++k) terms.push_back(k);
      chain(terms);
      first += length;
    }
  }
  while (parts.size() > 1) {
    std::vector<float> next;
    if (kernel.combination == Combination::sequential) {
      next = parts;
      next[0] = parts[0] + parts[1];
      next.erase(next.begin() + 1);
    } else if (kernel.combination == Combination::neighbours) {
      for (std::size_t i = 0; i < parts.size(); i += 2)
        next.push_back(i + 1 < parts.size() ? parts[i] + parts[i + 1] : parts[i]);
    } else {
      const std::size_t half = (parts.size() + 1) / 2;
      for (std::size_t i = 0; i < half; ++i)
        next.push_back(i + half < parts.size() ? parts[i] + parts[i + half] : parts[i]);
    }
    parts = next;
  }
  return parts.front();
}

TEST_CASE("float32 sums are dealt out and combined as a kernel says") {
  using Kind = Dealing::Kind;
  std::mt19937_64 random(7);
  const std::vector<Dealing> dealings = {{Kind::contiguous, 1, 1000, 1}, {Kind::contiguous, 1, 24, 1},
                                         {Kind::balanced, 1, 64, 8},     {Kind::balanced, 1, 24, 1},
                                         {Kind::interleaved, 8, 1, 1},   {Kind::interleaved, 32, 2, 1},
                                         {Kind::interleaved, 5, 3, 1}};
  for (const std::size_t k : {1u, 2u, 31u, 100u, 130u}) {
    const std::vector<float> a = numbers_of(FormatId::fp32, k, 8, random), b = numbers_of(FormatId::fp32, k, 8, random);
    const ProductPlan plan{1, 1, 1, static_cast<std::int64_t>(k), {0}, {0}, static_cast<std::int64_t>(k), 1, 1, 1};
    PackedMatrices<float> packed;
    pack_missing<float>(plan, b, packed);
    for (const Dealing& dealing : dealings) {
      for (const Combination combination : {Combination::sequential, Combination::neighbours, Combination::halves}) {
        for (const bool fma : {false, true}) {
          ProductKernel kernel;
          kernel.dealing = dealing;
          kernel.combination = combination;
          kernel.fma = fma;
          std::vector<float> c(1);
          linalg::multiply_by_kernel(plan, a, packed, kernel, 1, c);
          CAPTURE(describe(kernel, static_cast<std::int64_t>(k)));
          CHECK(c[0] == plain_sum(kernel, a, b));
        }
      }
    }
  }
}

TEST_CASE("every build of scheduled sums gives the same bits") {
  std::mt19937_64 random(9);
  const std::size_t k = 77, lanes = linalg::sum_lanes;
  const std::vector<float> a = numbers_of(FormatId::tf32, k * lanes, 20, random);
  const std::vector<float> b = numbers_of(FormatId::tf32, k * lanes, 20, random);
  const SumSchedule schedule = schedule_of({Dealing::Kind::contiguous, 1, 24, 1}, static_cast<std::int64_t>(k));
  std::vector<double> wide_a(a.begin(), a.end()), wide_b(b.begin(), b.end()), power_a(a.size()), power_b(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    power_a[i] = a[i] == 0.0f ? 0x1p-126 : std::ldexp(1.0, std::ilogb(a[i]));
    power_b[i] = b[i] == 0.0f ? 0x1p-126 : std::ldexp(1.0, std::ilogb(b[i]));
  }
  std::vector<std::vector<float>> results;
  for (const linalg::ScheduledKernels* kernels : simd::usable<linalg::scheduled_builds>()) {
    std::vector<float> sums;
    for (const bool fma : {false, true}) {
      std::vector<float> parts(schedule.ends.size() * lanes);
      kernels->chains({a.data(), b.data(), true, fma, schedule.terms.data(), schedule.ends.data(), schedule.ends.size(),
                       nullptr, parts.data()});
      sums.insert(sums.end(), parts.begin(), parts.end());
    }
    std::vector<float> parts(schedule.ends.size() * lanes);
    kernels->units({wide_a.data(), power_a.data(), wide_b.data(), power_b.data(), true, 8, 0x1p25, 0x1p23,
                    schedule.terms.data(), schedule.ends.data(), schedule.ends.size(), parts.data()});
    sums.insert(sums.end(), parts.begin(), parts.end());
    results.push_back(sums);
    CAPTURE(kernels->name);
    CHECK(std::memcmp(sums.data(), results.front().data(), sums.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("heights count the additions that a term meets") {
  const auto height = [](const Dealing& dealing, std::int64_t n, Combination combination) {
    return height_of(schedule_of(dealing, n), combination);
  };
  using Kind = Dealing::Kind;
  CHECK(height({}, 1, Combination::sequential) == 0);
  CHECK(height({}, 8, Combination::sequential) == 7);
  CHECK(height({Kind::contiguous, 1, 4, 1}, 8, Combination::sequential) == 4);
  CHECK(height({Kind::contiguous, 1, 2, 1}, 8, Combination::sequential) == 4);
  CHECK(height({Kind::contiguous, 1, 2, 1}, 8, Combination::neighbours) == 3);
  CHECK(height({Kind::interleaved, 32, 2, 1}, 64, Combination::halves) == 6);
}

}  // namespace
