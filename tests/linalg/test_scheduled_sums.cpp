#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
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

using Terms = std::vector<std::int64_t>;

/// The terms of a part by the words of trace/dealing.hpp, and the rest that no part has.
std::pair<std::vector<Terms>, Terms> dealt(const Dealing& dealing, const Terms& all) {
  const auto n = static_cast<std::int64_t>(all.size());
  const bool is_balanced = dealing.kind == Dealing::Kind::balanced;
  const std::int64_t whole = is_balanced ? n : n - n % dealing.multiple;
  const bool has_rest = dealing.rest != Dealing::Rest::in_part && whole > 0;
  std::vector<Terms> parts;
  Terms rest;
  if (has_rest) rest.assign(all.begin() + whole, all.end());
  if (dealing.kind == Dealing::Kind::interleaved) {
    parts.resize(static_cast<std::size_t>(dealing.parts));
    const std::int64_t round = dealing.parts * dealing.run, front = dealing.short_first ? whole % round : 0;
    for (std::int64_t k = 0; k < whole; ++k) {
      const std::int64_t place = k < front ? k : k - front;
      parts[static_cast<std::size_t>(place / dealing.run % dealing.parts)].push_back(all[static_cast<std::size_t>(k)]);
    }
    if (!has_rest) parts[0].insert(parts[0].end(), all.begin() + whole, all.end());
    std::erase_if(parts, [](const Terms& part) { return part.empty(); });
    return {parts, rest};
  }
  const std::int64_t dealt_out = whole > 0 ? whole : n;
  for (std::int64_t first = 0; first < dealt_out;) {
    const std::int64_t left = dealt_out - first;
    std::int64_t length = dealing.run == 0 ? left : std::min(dealing.run, left);
    if (is_balanced && left > dealing.run && left < 2 * dealing.run) {
      length = dealing.multiple == 1 ? (left + 1) / 2 : left / 2;
      while (length % dealing.multiple != 0) ++length;
    }
    length = std::min(length, left);
    parts.emplace_back(all.begin() + first, all.begin() + first + length);
    first += length;
  }
  if (!has_rest) parts.back().insert(parts.back().end(), all.begin() + dealt_out, all.end());
  return {parts, rest};
}

float added(std::vector<float> parts, Combination combination, const std::function<float(float)>& rounded) {
  while (parts.size() > 1) {
    std::vector<float> next;
    if (combination == Combination::sequential) {
      next = parts;
      next[0] = rounded(parts[0] + parts[1]);
      next.erase(next.begin() + 1);
    } else if (combination == Combination::neighbours || (combination == Combination::fours && parts.size() <= 4)) {
      for (std::size_t i = 0; i < parts.size(); i += 2)
        next.push_back(i + 1 < parts.size() ? rounded(parts[i] + parts[i + 1]) : parts[i]);
    } else {
      const std::size_t half = (parts.size() + 1) / 2;
      for (std::size_t i = 0; i < half; ++i)
        next.push_back(i + half < parts.size() ? rounded(parts[i] + parts[i + half]) : parts[i]);
    }
    parts = next;
  }
  return parts.front();
}

/// A number rounded as the sums of parts are.
std::function<float(float)> rounding_of_parts(const ProductKernel& kernel) {
  return [id = kernel.part_format](float x) {
    return static_cast<float>(round_to(static_cast<double>(x), format(id), Rounding::nearest_even));
  };
}

/// By the emulator in integers, part after part.
float sum_by_emulator(const ProductKernel& kernel, const std::vector<float>& a, const std::vector<float>& b,
                      std::size_t row, std::size_t column, std::size_t k, std::size_t n) {
  const TensorCore& declared = *kernel.matrix_unit;
  const test::TensorCoreUnit unit{declared.fraction_bits, declared.block, format(kernel.operands).min_exponent,
                                  declared.sum_bits};
  Terms all(k);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::vector<float> sums;
  for (const Terms& part : dealt(kernel.parts.dealing, all).first) {
    const auto place = [&](std::int64_t l) { return static_cast<std::size_t>(part[static_cast<std::size_t>(l)]); };
    sums.push_back(test::tensor_core_chain(
        unit, 0.0f, static_cast<std::int64_t>(part.size()), [&](std::int64_t l) { return a[row * k + place(l)]; },
        [&](std::int64_t l) { return b[place(l) * n + column]; }));
  }
  const std::function<float(float)> rounded = rounding_of_parts(kernel), as_it_is = [](float x) { return x; };
  const bool has_parts = sums.size() > 1;
  for (float& sum : sums) sum = has_parts ? rounded(sum) : sum;
  return added(sums, kernel.parts.combination, kernel.rounds_sums_of_parts ? rounded : as_it_is);
}

/// The parts that a simulated unit may have, of sums of k products.
std::vector<ProductKernel> kernels_of_unit(const SimulatedUnit& simulated, std::int64_t k) {
  using Kind = Dealing::Kind;
  const std::int64_t block = simulated.block, third = ((k + 2) / 3 + block - 1) / block * block;
  std::vector<ProductKernel> kernels;
  const auto add = [&](const Dealing& dealing, Combination combination) {
    kernels.push_back(kernel_of_unit(simulated));
    kernels.back().parts.dealing = dealing;
    kernels.back().parts.combination = combination;
  };
  add({}, Combination::sequential);
  add({Kind::contiguous, 1, third, 1}, Combination::sequential);
  add({Kind::balanced, 1, 4 * block, block}, Combination::neighbours);
  add({Kind::interleaved, 2, block, 1}, Combination::sequential);
  add({Kind::interleaved, 8, block, 1}, Combination::fours);
  add({Kind::interleaved, 4, 2 * block, 1}, Combination::halves);
  for (const bool of_sums : {false, true}) {
    add({Kind::contiguous, 1, third, 1}, Combination::sequential);
    kernels.back().part_format = of_sums ? FormatId::bf16 : FormatId::fp16;
    kernels.back().rounds_sums_of_parts = of_sums;
  }
  return kernels;
}

/// One row-major product [m, k] x [k, n].
ProductPlan plan_of(std::size_t m, std::size_t k, std::size_t n) {
  const auto rows = static_cast<std::int64_t>(m), terms = static_cast<std::int64_t>(k),
             columns = static_cast<std::int64_t>(n);
  return {1, rows, columns, terms, {0}, {0}, terms, 1, columns, 1};
}

TEST_CASE("a simulated matrix unit has the bits of an emulator in integers") {
  std::mt19937_64 random(20261128);
  const std::size_t m = 3, n = 19;
  for (const SimulatedUnit& simulated : simulated_units) {
    for (const std::size_t k : {1u, 7u, 32u, 100u, 257u}) {
      for (const int spread : {2, 12, 60}) {
        const std::vector<float> a = numbers_of(simulated.operands, m * k, spread, random);
        const std::vector<float> b = numbers_of(simulated.operands, k * n, spread, random);
        const ProductPlan plan = plan_of(m, k, n);
        PackedMatrices<float> packed;
        pack_missing<float>(plan, b, packed);
        for (const ProductKernel& kernel : kernels_of_unit(simulated, plan.k)) {
          for (const int threads : {1, 2}) {
            std::vector<float> c(m * n);
            linalg::multiply_by_kernel(plan, a, packed, kernel, threads, c);
            for (std::size_t i = 0; i < m; ++i)
              for (std::size_t j = 0; j < n; ++j) {
                CAPTURE(describe(kernel, plan.k));
                const float expected = sum_by_emulator(kernel, a, b, i, j, k, n);
                CHECK((c[i * n + j] == expected || (std::isnan(c[i * n + j]) && std::isnan(expected))));
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

TEST_CASE("float64 sums of any number of columns are dealt to lanes, those that leave the range too") {
  std::mt19937_64 random(20261201);
  std::uniform_real_distribution<double> draw(-1.0, 1.0);
  ProductKernel kernel;
  kernel.operands = FormatId::fp64;
  kernel.fma = false;
  kernel.parts.dealing = {Dealing::Kind::interleaved, 4, 1, 1};
  kernel.parts.combination = Combination::halves;
  const std::size_t m = 2, k = 11;
  for (const std::size_t n : {1u, 7u, 8u, 9u, 16u, 17u, 24u, 40u}) {
    CAPTURE(n);
    std::vector<double> a(m * k), b(k * n);
    for (double& x : a) x = draw(random);
    for (double& x : b) x = draw(random);
    b[0] = 0x1p1023;
    a[0] = 4.0;  // element [0, 0] overflows
    const ProductPlan plan = plan_of(m, k, n);
    PackedMatrices<double> packed;
    pack_missing<double>(plan, b, packed);
    std::vector<double> c(m * n);
    linalg::multiply_by_kernel<double>(plan, a, packed, kernel, 2, c);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double lanes[4] = {};
        for (std::size_t l = 0; l < k; ++l) {
          const double product = a[i * k + l] * b[l * n + j];
          lanes[l % 4] = l < 4 ? product : lanes[l % 4] + product;
        }
        CHECK(c[i * n + j] == (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
      }
    CHECK(c[0] == std::numeric_limits<double>::infinity());
  }
}

/// The sum by the words of trace/product_kernel.hpp, one number after the other.
float plain_sum(const ProductKernel& kernel, const std::vector<float>& a, const std::vector<float>& b) {
  const auto chain = [&](const Terms& terms) {
    float sum = 0.0f;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const auto k = static_cast<std::size_t>(terms[i]);
      const float product = a[k] * b[k];
      sum = i == 0 ? product : kernel.fma ? std::fma(a[k], b[k], sum) : sum + product;
    }
    return sum;
  };
  const auto as_it_is = [](float x) { return x; };
  const std::function<float(float)> to_format = rounding_of_parts(kernel);
  const auto level = [&](const Dealing& dealing, Combination combination, const Terms& terms, const auto& part_sum,
                         bool is_outer) {
    const auto [parts, rest] = dealt(dealing, terms);
    std::vector<float> sums;
    for (const Terms& part : parts) sums.push_back(part_sum(part));
    const bool rounds = is_outer && sums.size() + rest.size() > 1;
    if (rounds)
      for (float& sum : sums) sum = to_format(sum);
    const bool rounds_sums = rounds && kernel.rounds_sums_of_parts;
    const std::function<float(float)> rounded = rounds_sums ? to_format : as_it_is;
    float sum = added(sums, combination, rounded);
    std::vector<float> others;
    for (const std::int64_t k : rest) {
      const float product = a[static_cast<std::size_t>(k)] * b[static_cast<std::size_t>(k)];
      others.push_back(rounds ? to_format(product) : product);
    }
    if (dealing.rest == Dealing::Rest::together && !others.empty())
      others = {added(others, Combination::sequential, rounded)};
    for (const float other : others) sum = rounded(sum + other);
    return sum;
  };
  Terms all;
  for (std::size_t k = 0; k < a.size(); ++k) all.push_back(static_cast<std::int64_t>(k));
  const auto inside = [&](const Terms& terms) {
    return level(kernel.parts.inside, kernel.parts.inside_combination, terms, chain, false);
  };
  return level(kernel.parts.dealing, kernel.parts.combination, all, inside, true);
}

/// The sum of a kernel by the library.
float sum_by_kernel(const ProductKernel& kernel, const std::vector<float>& a, const std::vector<float>& b) {
  const auto k = static_cast<std::int64_t>(a.size());
  const ProductPlan plan{1, 1, 1, k, {0}, {0}, k, 1, 1, 1};
  PackedMatrices<float> packed;
  pack_missing<float>(plan, b, packed);
  std::vector<float> c(1);
  linalg::multiply_by_kernel(plan, a, packed, kernel, 1, c);
  return c[0];
}

TEST_CASE("float32 sums are dealt out and combined as a kernel says") {
  using Kind = Dealing::Kind;
  std::mt19937_64 random(7);
  using Rest = Dealing::Rest;
  const std::vector<Dealing> dealings = {{Kind::contiguous, 1, 1000, 1},
                                         {Kind::contiguous, 1, 24, 1},
                                         {Kind::contiguous, 1, 8, 8},
                                         {Kind::contiguous, 1, 8, 4, Rest::one_by_one},
                                         {Kind::contiguous, 1, 8, 4, Rest::together},
                                         {Kind::balanced, 1, 64, 8},
                                         {Kind::balanced, 1, 64, 4},
                                         {Kind::balanced, 1, 24, 1},
                                         {Kind::balanced, 1, 24, 4},
                                         {Kind::interleaved, 8, 1, 1},
                                         {Kind::interleaved, 32, 2, 1},
                                         {Kind::interleaved, 5, 3, 1},
                                         {Kind::interleaved, 2, 1, 8},
                                         {Kind::interleaved, 4, 1, 16},
                                         {Kind::interleaved, 8, 1, 8, Rest::one_by_one},
                                         {Kind::interleaved, 8, 1, 4, Rest::together, true},
                                         {Kind::interleaved, 4, 2, 1, Rest::in_part, true}};
  const std::vector<Dealing> insides = {
      {}, {Kind::interleaved, 2, 1, 8}, {Kind::interleaved, 4, 1, 4, Rest::one_by_one}, {Kind::contiguous, 1, 5, 1}};
  const std::vector<Combination> combinations = {Combination::sequential, Combination::neighbours, Combination::halves,
                                                 Combination::fours};
  for (const std::size_t k : {1u, 2u, 33u, 100u, 130u}) {
    const std::vector<float> a = numbers_of(FormatId::fp32, k, 8, random), b = numbers_of(FormatId::fp32, k, 8, random);
    for (const Dealing& dealing : dealings) {
      for (const Dealing& inside : insides) {
        for (const Combination combination : combinations) {
          for (const Combination within : combinations) {
            ProductKernel kernel;
            kernel.parts = {dealing, combination, inside, within};
            kernel.fma = random() % 2 == 0;
            CAPTURE(describe(kernel, static_cast<std::int64_t>(k)));
            CHECK(sum_by_kernel(kernel, a, b) == plain_sum(kernel, a, b));
            kernel.part_format = random() % 2 == 0 ? FormatId::bf16 : FormatId::fp16;
            kernel.rounds_sums_of_parts = random() % 2 == 0;
            CHECK(sum_by_kernel(kernel, a, b) == plain_sum(kernel, a, b));
          }
        }
      }
    }
  }
}

/// numpy's sum of contiguous numbers.
float sum_by_halves(const float* x, std::int64_t n) {
  if (n < 8) {
    float sum = 0.0f;
    for (std::int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
  if (n <= 128) {
    float r[8];
    for (int j = 0; j < 8; ++j) r[j] = x[j];
    std::int64_t i = 8;
    for (; i < n - n % 8; i += 8)
      for (int j = 0; j < 8; ++j) r[j] += x[i + j];
    float sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; ++i) sum += x[i];
    return sum;
  }
  const std::int64_t half = n / 2 - n / 2 % 8;
  return sum_by_halves(x, half) + sum_by_halves(x + half, n - half);
}

/// PyTorch's sum of `n` numbers that lie `stride` apart, in four levels.
float sum_of_levels(const float* x, std::int64_t n, std::int64_t stride) {
  std::int64_t power = 0;
  while ((std::int64_t{1} << power) < n) ++power;
  power = std::max<std::int64_t>(4, power / 4);
  const std::int64_t step = std::int64_t{1} << power;
  float level[4] = {};
  std::int64_t i = 0;
  while (i + step <= n) {
    for (std::int64_t j = 0; j < step; ++j) level[0] += x[stride * i++];
    for (int j = 1; j < 4; ++j) {
      level[j] += level[j - 1];
      level[j - 1] = 0.0f;
      if ((i & ((step - 1) << (j * power))) != 0) break;
    }
  }
  for (; i < n; ++i) level[0] += x[stride * i];
  return ((level[0] + level[1]) + level[2]) + level[3];
}

/// PyTorch's sum of a row on a CPU with vectors of `lanes` numbers, four of them at a time.
float sum_by_cascade(const std::vector<float>& x, std::int64_t lanes) {
  const auto n = static_cast<std::int64_t>(x.size());
  const std::int64_t vectors = n / lanes;
  float sum = 0.0f;
  for (std::int64_t i = vectors * lanes; i < n; ++i) sum += x[static_cast<std::size_t>(i)];
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    float part[4];
    for (std::int64_t c = 0; c < 4; ++c) part[c] = sum_of_levels(x.data() + c * lanes + lane, vectors / 4, 4 * lanes);
    for (std::int64_t i = vectors / 4 * 4; i < vectors; ++i) part[0] += x[static_cast<std::size_t>(i * lanes + lane)];
    sum += ((part[0] + part[1]) + part[2]) + part[3];
  }
  return sum;
}

TEST_CASE("trees of libraries are those of their code") {
  std::mt19937_64 random(12);
  for (const std::size_t k : {1u, 7u, 8u, 31u, 128u, 129u, 300u, 1000u, 5003u, 70001u}) {
    const std::vector<float> x = numbers_of(FormatId::fp32, k, 8, random), ones(k, 1.0f);
    ProductKernel kernel;
    kernel.fma = false;
    kernel.parts.tree = SumTree::halved;
    CAPTURE(k);
    CHECK(sum_by_kernel(kernel, x, ones) == sum_by_halves(x.data(), static_cast<std::int64_t>(k)));
    kernel.parts.tree = SumTree::cascade;
    kernel.parts.chains = 4;
    for (const std::int64_t lanes : {1, 8, 16}) {
      kernel.parts.lanes = lanes;
      CHECK(sum_by_kernel(kernel, x, ones) == sum_by_cascade(x, lanes));
    }
    kernel.parts.lanes = kernel.parts.chains = 1;
    CHECK(sum_by_kernel(kernel, x, ones) == sum_of_levels(x.data(), static_cast<std::int64_t>(k), 1));
  }
}

TEST_CASE("every build of scheduled sums gives the same bits") {
  std::mt19937_64 random(9);
  const std::size_t k = 77, lanes = linalg::sum_lanes;
  const std::vector<float> a = numbers_of(FormatId::tf32, k * lanes, 20, random);
  const std::vector<float> b = numbers_of(FormatId::tf32, k * lanes, 20, random);
  const SumSchedule schedule = schedule_of({{Dealing::Kind::contiguous, 1, 24, 1}}, static_cast<std::int64_t>(k));
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
    for (const bool fma : {false, true}) {
      std::vector<double> parts(schedule.ends.size() * lanes);
      kernels->chains_in_double({wide_a.data(), wide_b.data(), true, fma, schedule.terms.data(), schedule.ends.data(),
                                 schedule.ends.size(), nullptr, parts.data()});
      for (const double part : parts) {
        sums.push_back(static_cast<float>(part));
        sums.push_back(static_cast<float>((part - static_cast<double>(sums.back())) * 0x1p26));
      }
    }
    std::vector<float> parts(schedule.ends.size() * lanes);
    kernels->units({wide_a.data(), power_a.data(), wide_b.data(), power_b.data(), true, 8, 0x1p25, 0x1p23,
                    schedule.terms.data(), schedule.ends.data(), schedule.ends.size(), nullptr, parts.data()});
    sums.insert(sums.end(), parts.begin(), parts.end());
    results.push_back(sums);
    CAPTURE(kernels->name);
    CHECK(std::memcmp(sums.data(), results.front().data(), sums.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("heights count the additions that a term meets") {
  const auto height = [](const Dealing& dealing, std::int64_t n, Combination combination) {
    return height_of(schedule_of({dealing, combination}, n));
  };
  using Kind = Dealing::Kind;
  CHECK(height({}, 1, Combination::sequential) == 0);
  CHECK(height({}, 8, Combination::sequential) == 7);
  CHECK(height({Kind::contiguous, 1, 4, 1}, 8, Combination::sequential) == 4);
  CHECK(height({Kind::contiguous, 1, 2, 1}, 8, Combination::sequential) == 4);
  CHECK(height({Kind::contiguous, 1, 2, 1}, 8, Combination::neighbours) == 3);
  CHECK(height({Kind::interleaved, 32, 2, 1}, 64, Combination::halves) == 6);
  const SumParts blocks_of_lanes{{Kind::contiguous, 1, 8, 1}, Combination::sequential, {Kind::interleaved, 2, 1, 1}};
  CHECK(height_of(schedule_of(blocks_of_lanes, 16)) == 5);
}

}  // namespace
