#include <doctest/doctest.h>

#include <cfloat>
#include <string>

#include "driftbound/num/errors.hpp"
#include "support/approach.hpp"
#include "support/matrix_unit.hpp"
#include "support/rational_unit.hpp"
#include "support/theorems.hpp"

// Sums of a matrix unit (T-21), and products that may flush. What the assumptions leave open is decided by chance,
// for every sum anew; the truth is exact.

using namespace checks;

namespace {

const std::vector<FormatId>& operand_formats() {
  static const std::vector<FormatId> formats = {FormatId::tf32, FormatId::bf16, FormatId::fp16};
  return formats;
}

const std::vector<FormatId>& fp8_formats() {
  static const std::vector<FormatId> formats = {FormatId::fp8_e4m3, FormatId::fp8_e5m2};
  return formats;
}

/// As measured on Ada and on Hopper: addends and sums of fp8 products keep 13 fraction bits.
constexpr TensorCore ada_fp8{13, 16, 13, 0}, hopper_fp8{13, 32, 13, 0};

/// The data of every kind that is hard on T-21; largest error per bound where the operands are exact.
Tallies check_all_data(const MatrixUnit& unit, Generator& generator) {
  Tallies tallies;
  for (int data = 0; data < static_cast<int>(UnitData::last); ++data) {
    const Tallies of_data = check_unit_lengths(unit, static_cast<UnitData>(data), generator);
    CAPTURE(data);
    INFO(of_data.first_violation());
    CHECK(of_data.violations() == 0);
    tallies += of_data;
  }
  return tallies;
}

LayerBounds bounds_of_sum(const std::vector<double>& a, const std::vector<double>& b, double y,
                          const ArithmeticModel& arithmetic) {
  const auto k = static_cast<std::int64_t>(a.size());
  return bounds_of(one_node(op::MatMul{}, {{{1, k}, a}, {{k, 1}, b}}, {{1, 1}, {y}}, arithmetic));
}

double componentwise(const LayerBounds& layer) {
  return find_bound(layer.local, BoundKind::componentwise)->values.values[0];
}

}  // namespace

TEST_CASE("what rounds to the smallest normal number may be read as 0, beside which products are cut off (T-21)") {
  const double quantum = std::ldexp(1.0, -12), small = (1.0 - 0x1p-11) * 0x1p-10;
  const std::vector<double> a = {0x1p-14 - 0x1p-26, small, small, small}, b = {0x1p15, quantum, quantum, quantum};
  ArithmeticModel arithmetic = cpu_arithmetic("fp16", {});
  arithmetic.input = FormatId::fp16;
  arithmetic.tensor_core = TensorCore{23, 4};
  arithmetic.products_may_flush = true;
  Real exact;
  for (std::size_t i = 0; i < a.size(); ++i) exact += Real(a[i]) * Real(b[i]);
  const double bound = componentwise(bounds_of_sum(a, b, 0.0, arithmetic));
  CHECK(exact <= Real(bound));
  CHECK(bound <= 1.001 * exact.to_double());
}

TEST_CASE("three emulators that share no code, one in exact rationals, agree bit for bit") {
  Generator generator(61);
  std::int64_t compared = 0;
  for (const FormatId input :
       {FormatId::tf32, FormatId::bf16, FormatId::fp16, FormatId::fp8_e4m3, FormatId::fp8_e5m2}) {
    for (const TensorCore built : {TensorCore{23, 4}, TensorCore{24, 8}, TensorCore{25, 16}, ada_fp8, hopper_fp8,
                                   TensorCore{25, 8, 13}, TensorCore{9, 4, 17}}) {
      MatrixUnit unit;
      unit.built = unit.declared = built;
      unit.input = input;
      unit.splits_and_pads = false;
      const driftbound::test::TensorCoreUnit other{built.fraction_bits, built.block, unit.min_exponent(),
                                                   built.sum_bits};
      for (int data = 0; data < static_cast<int>(UnitData::huge); ++data) {
        for (const std::size_t k : unit_lengths()) {
          const auto [a, b] = UnitDraw(unit, static_cast<UnitData>(data), generator).vectors(k);
          const float expected = driftbound::test::tensor_core_chain(
              other, 0.0f, static_cast<std::int64_t>(k),
              [&a = a](std::int64_t i) { return static_cast<float>(a[static_cast<std::size_t>(i)]); },
              [&b = b](std::int64_t i) { return static_cast<float>(b[static_cast<std::size_t>(i)]); });
          const float found = UnitRun(unit, generator).dot(a, b);
          CAPTURE(data);
          CAPTURE(k);
          if (!std::isfinite(expected)) continue;
          REQUIRE(found == expected);
          const auto exact = rational::unit_sum(a, b, built, unit.min_exponent());
          REQUIRE(rational::cpp_rational(static_cast<double>(found)) == exact);
          ++compared;
        }
      }
    }
  }
  CHECK(compared >= 3000);
}

TEST_CASE("a matrix unit's sums stay within componentwise, however they are cut into parts, padded and flushed" *
          doctest::test_suite("campaign")) {
  Generator generator(62);
  std::int64_t checked = 0;
  for (int repetition = 0; repetition < test_multiplier(); ++repetition) {
    for (const FormatId input : operand_formats()) {
      for (const TensorCore declared : {TensorCore{23, 4}, TensorCore{24, 8}, TensorCore{25, 8}, TensorCore{25, 16}}) {
        for (const TensorCore built : {TensorCore{23, 4}, TensorCore{24, 8}, TensorCore{25, 8}, TensorCore{25, 16}}) {
          if (built.fraction_bits < declared.fraction_bits || built.block < declared.block) continue;
          for (int variant = 0; variant < 4; ++variant) {
            MatrixUnit unit;
            unit.built = built;
            unit.declared = declared;
            unit.input = input;
            unit.may_flush = variant % 2 == 1;
            unit.operands_as_given = variant < 2;
            unit.zeros_are_lowest = generator() % 2 == 0;
            unit.saturates = generator() % 2 == 0;
            CAPTURE(variant);
            checked += check_all_data(unit, generator).componentwise.checked;
          }
        }
      }
    }
  }
  CHECK(checked >= 100'000);
}

TEST_CASE("units that cut the largest addend as well stay within componentwise" * doctest::test_suite("campaign")) {
  Generator generator(63);
  for (const FormatId input : operand_formats()) {
    for (const int fraction_bits : {1, 7, 13, 19, 22}) {
      MatrixUnit unit;
      unit.built = unit.declared = {fraction_bits, 4};
      unit.input = input;
      unit.zeros_are_lowest = false;
      CAPTURE(fraction_bits);
      check_all_data(unit, generator);
    }
  }
}

TEST_CASE("sums of fp8 products stay within componentwise, cut to float32 or to 13 bits, promoted or not" *
          doctest::test_suite("campaign")) {
  Generator generator(69);
  std::int64_t checked = 0;
  for (const FormatId input : fp8_formats()) {
    for (const TensorCore declared : {TensorCore{25, 16}, TensorCore{25, 32}, ada_fp8, hopper_fp8,
                                      TensorCore{13, 4, 13, 8}, TensorCore{13, 16, 13, 32}, TensorCore{13, 8}}) {
      for (int variant = 0; variant < 8; ++variant) {
        MatrixUnit unit;
        unit.built = unit.declared = declared;
        unit.input = input;
        unit.may_flush = variant % 2 == 1;
        unit.operands_as_given = variant % 4 < 2;
        unit.splits_and_pads = variant < 4;
        unit.zeros_are_lowest = generator() % 2 == 0;
        if (generator() % 2 == 0) unit.built.fraction_bits += 3;
        if (generator() % 2 == 0) unit.built.sum_bits = std::min(23, declared.sum_bits + 4);
        if (generator() % 2 == 0) unit.built.block *= 2;
        CAPTURE(variant);
        checked += check_all_data(unit, generator).componentwise.checked;
      }
    }
  }
  CHECK(checked >= 50'000);
}

TEST_CASE("sums that are cut to fewer bits than a float32 stay within componentwise, whatever is kept of addends" *
          doctest::test_suite("campaign")) {
  Generator generator(70);
  for (const FormatId input : operand_formats()) {
    for (const TensorCore declared : {TensorCore{25, 8, 13}, TensorCore{13, 4, 20}, TensorCore{24, 4, 1},
                                      TensorCore{25, 4, 10, 12}, TensorCore{23, 4, 23, 8}}) {
      for (const bool splits_and_pads : {false, true}) {
        MatrixUnit unit;
        unit.built = unit.declared = declared;
        unit.input = input;
        unit.splits_and_pads = splits_and_pads;
        unit.zeros_are_lowest = false;
        CAPTURE(declared.fraction_bits);
        CAPTURE(declared.sum_bits);
        check_all_data(unit, generator);
      }
    }
  }
}

TEST_CASE(
    "operands that are cut stay within componentwise, which is twice as large, and not within that of rounded ones" *
    doctest::test_suite("campaign")) {
  Generator generator(72);
  for (const FormatId input : {FormatId::tf32, FormatId::bf16}) {
    MatrixUnit unit;
    unit.input = input;
    unit.declared.cuts_operands = true;
    unit.operands_as_given = false;
    for (const bool may_flush : {false, true}) {
      unit.may_flush = may_flush;
      check_all_data(unit, generator);
    }

    unit.may_flush = unit.may_be_bypassed = unit.splits_and_pads = false;
    const std::size_t k = 8;
    const double ulp = std::ldexp(1.0, 1 - format(input).precision);
    const std::vector<double> longer(k, 1.0 + ulp - 0x1p-23), ones(k, 1.0);
    const double y = static_cast<double>(UnitRun(unit, generator).product(longer, ones));
    const double error = static_cast<double>(k) * longer[0] - y;
    const double of_cut = componentwise(bounds_of_sum(longer, ones, y, unit.arithmetic()));
    unit.declared.cuts_operands = false;
    const double of_rounded = componentwise(bounds_of_sum(longer, ones, y, unit.arithmetic()));
    CHECK_APPROACH("T-13", error / of_cut, 0.99);
    CHECK_FALSE(error <= of_rounded);
  }
}

TEST_CASE("alpha and a bias after a matrix unit's sum stay within componentwise") {
  Generator generator(64);
  for (const FormatId input : operand_formats()) {
    for (const double alpha : {1.0, -1.0, 0.7, 3.1}) {
      for (const double beta : {1.0, -1.0, 0.3}) {
        for (int data = 0; data < static_cast<int>(UnitData::last); ++data) {
          MatrixUnit unit;
          unit.input = input;
          unit.may_flush = generator() % 2 == 0;
          UnitSums sums;
          sums.data = static_cast<UnitData>(data);
          sums.alpha = alpha;
          sums.beta = beta;
          sums.has_bias = generator() % 4 != 0;
          sums.k = unit_lengths()[generator() % unit_lengths().size()];
          const Tallies tallies = check_unit(unit, sums, generator);
          CAPTURE(alpha);
          CAPTURE(beta);
          CAPTURE(data);
          INFO(tallies.first_violation());
          CHECK(tallies.violations() == 0);
        }
      }
    }
  }
}

TEST_CASE("data built for it uses more than half of the bound of every unit") {
  Generator generator(65);
  for (const int fraction_bits : {23, 24, 25}) {
    for (const int block : {4, 8, 16}) {
      MatrixUnit unit;
      unit.built = unit.declared = {fraction_bits, block};
      unit.splits_and_pads = unit.may_be_bypassed = false;
      UnitSums sums;
      sums.k = 512;
      sums.rows = sums.columns = 1;
      for (const UnitData data : {UnitData::quanta, UnitData::returning}) {
        sums.data = data;
        const Tallies tallies = check_unit(unit, sums, generator);
        CAPTURE(fraction_bits);
        CAPTURE(block);
        CAPTURE(static_cast<int>(data));
        CHECK(tallies.violations() == 0);
        const double of_wide[] = {data == UnitData::quanta ? 0.87 : 0.77, 0.69, 0.59};
        CHECK_APPROACH("T-21", tallies.componentwise.utilisation, fraction_bits < 25 ? 0.79 : of_wide[block / 8]);
      }
    }
  }
}

TEST_CASE("data built for it uses most of the bound of units that keep 13 bits of their sums") {
  Generator generator(71);
  struct Case {
    FormatId input;
    TensorCore unit;
    double of_quanta, of_returning;
  };
  const std::vector<Case> cases = {
      {FormatId::fp8_e4m3, ada_fp8, 0.83, 0.74},    {FormatId::fp8_e4m3, hopper_fp8, 0.85, 0.77},
      {FormatId::fp8_e5m2, hopper_fp8, 0.80, 0.72}, {FormatId::fp8_e4m3, {13, 32, 13, 128}, 0.89, 0.71},
      {FormatId::tf32, {25, 4, 13, 0}, 0.98, 0.95}, {FormatId::tf32, {25, 4, 13, 64}, 0.99, 0.87}};
  for (const Case& c : cases) {
    MatrixUnit unit;
    unit.built = unit.declared = c.unit;
    unit.input = c.input;
    unit.splits_and_pads = unit.may_be_bypassed = false;
    UnitSums sums;
    sums.k = 512;
    sums.rows = sums.columns = 1;
    for (const UnitData data : {UnitData::quanta, UnitData::returning}) {
      sums.data = data;
      const Tallies tallies = check_unit(unit, sums, generator);
      CAPTURE(c.unit.block);
      CAPTURE(c.unit.promotion);
      CAPTURE(static_cast<int>(data));
      CHECK(tallies.violations() == 0);
      CHECK_APPROACH("T-21", tallies.componentwise.utilisation,
                     data == UnitData::quanta ? c.of_quanta : c.of_returning);
    }
  }
}

TEST_CASE("a sum that cancels has half of the bound that its magnitudes allow") {
  const std::size_t k = 512;
  const std::vector<double> ones(k, 1.0);
  std::vector<double> signs = ones;
  for (std::size_t i = 0; i < k; i += 2) signs[i] = -1.0;
  for (const TensorCore declared : {TensorCore{23, 4}, TensorCore{24, 4}, TensorCore{24, 8}, TensorCore{25, 8}}) {
    MatrixUnit unit;
    unit.declared = declared;
    const double plain = componentwise(bounds_of_sum(ones, ones, static_cast<double>(k), unit.arithmetic()));
    const double cancelling = componentwise(bounds_of_sum(signs, ones, 0.0, unit.arithmetic()));
    CAPTURE(declared.fraction_bits);
    CHECK(cancelling < 0.51 * plain);
    CHECK(cancelling > 0.48 * plain);
  }
}

TEST_CASE("for long sums the bound is what docs/theory.md says of each device") {
  const std::size_t k = 4096;
  const std::vector<double> ones(k, 1.0);
  const auto factor = [&](TensorCore declared) {
    MatrixUnit unit;
    unit.declared = declared;
    const double bound = componentwise(bounds_of_sum(ones, ones, static_cast<double>(k), unit.arithmetic()));
    return bound / (0x1p-24 * static_cast<double>(k * k));
  };
  CHECK(factor({23, 4}) == doctest::Approx(2.5).epsilon(0.001));
  CHECK(factor({24, 4}) == doctest::Approx(1.5).epsilon(0.001));
  CHECK(factor({24, 8}) == doctest::Approx(1.25).epsilon(0.001));
  CHECK(factor({25, 4}) == doctest::Approx(1.0).epsilon(0.001));
  CHECK(factor({25, 16}) == doctest::Approx(1.0).epsilon(0.001));
}

TEST_CASE("for long sums of fp8 products the bound is what docs/theory.md says, and promotion keeps it from growing") {
  const auto share_of_sum = [&](std::size_t k, FormatId input, TensorCore declared) {
    const std::vector<double> ones(k, 1.0);
    MatrixUnit unit;
    unit.input = input;
    unit.declared = declared;
    const double bound = componentwise(bounds_of_sum(ones, ones, static_cast<double>(k), unit.arithmetic()));
    return bound / static_cast<double>(k);
  };
  for (const FormatId input : fp8_formats()) {
    CHECK(share_of_sum(4096, input, hopper_fp8) == doctest::Approx(33.0 / 32.0 * 0x1p-1).epsilon(0.001));
    CHECK(share_of_sum(4096, input, ada_fp8) == doctest::Approx(17.0 / 16.0 * 0x1p-1).epsilon(0.001));
    CHECK(share_of_sum(4096, input, {13, 32}) == share_of_sum(4096, input, hopper_fp8));
    for (const std::size_t k : {std::size_t{512}, std::size_t{4096}})
      CHECK(share_of_sum(k, input, {13, 32, 13, 128}) == doctest::Approx(131 * 0x1p-13).epsilon(0.005));
    CHECK(share_of_sum(64, input, {13, 32, 13, 128}) == share_of_sum(64, input, hopper_fp8));
  }
}

TEST_CASE("exact zeros are not counted, and a sum of zeros alone is exact") {
  std::vector<double> sparse(64, 0.0);
  sparse[3] = sparse[40] = 1.0;
  const std::vector<double> ones(64, 1.0);
  const ArithmeticModel arithmetic = MatrixUnit().arithmetic();
  CHECK(componentwise(bounds_of_sum(sparse, ones, 2.0, arithmetic)) < 12 * 0x1p-23);
  CHECK(componentwise(bounds_of_sum(ones, ones, 64.0, arithmetic)) > 60 * 64 * 0x1p-23);
  CHECK(componentwise(bounds_of_sum(std::vector<double>(64, 0.0), ones, 0.0, arithmetic)) == 0.0);
}

TEST_CASE("a zero beside a huge partner can wipe out a whole sum, and the bound knows") {
  MatrixUnit unit;
  unit.input = FormatId::bf16;
  unit.built = unit.declared;
  unit.splits_and_pads = false;
  const std::vector<double> a = {0x1p-100, 0.0}, b = {0x1p-60, 0x1p127};
  Generator generator(66);
  CHECK(UnitRun(unit, generator).dot(a, b) == 0.0f);
  CHECK(componentwise(bounds_of_sum(a, b, 0.0, unit.arithmetic())) >= 0x1p-160);
}

TEST_CASE("where a cut could hide an overflow there is no bound") {
  MatrixUnit unit;
  unit.saturates = true;
  unit.splits_and_pads = false;
  unit.built = unit.declared = {23, 4};
  const std::vector<double> a = {0x1p127, 0x1p127, 0.0, 0.0, -0x1p127}, ones(5, 1.0);
  Generator generator(67);
  const auto y = static_cast<double>(UnitRun(unit, generator).dot(a, ones));
  CHECK(y < 0x1p127);
  CHECK(componentwise(bounds_of_sum(a, ones, y, unit.arithmetic())) == std::numeric_limits<double>::infinity());
}

TEST_CASE("ties of the conversion may go either way") {
  MatrixUnit unit;
  const double tie = 1.0 + 0x1p-11;
  const double bound = componentwise(bounds_of_sum({tie}, {1.0}, 1.0, unit.arithmetic()));
  CHECK(bound >= 0x1p-11);
  CHECK(componentwise(bounds_of_sum({tie}, {1.0}, 1.0 + 0x1p-10, unit.arithmetic())) >= 0x1p-11);
  CHECK(bound <= 0x1.01p-11);
}

TEST_CASE("a bound of a matrix unit is conditional, names the unit, and has no order") {
  MatrixUnit unit;
  ArithmeticModel arithmetic = unit.arithmetic();
  arithmetic.order = {SummationOrder::Kind::blocked, 8, true};
  const LayerBounds layer = bounds_of_sum({1.0, 2.0}, {1.0, 1.0}, 3.0, arithmetic);
  CHECK(find_bound(layer.local, BoundKind::order_aware) == nullptr);
  CHECK(find_bound(layer.local, BoundKind::seed_gamma) != nullptr);
  const BoundResult* bound = find_bound(layer.local, BoundKind::componentwise);
  CHECK(bound->guarantee == Guarantee::conditional);
  CHECK(bound->theorem == "T-21");
  for (const char* part : {"A-03", "at least 4 ", "23 bits", "multiples of 4"}) {
    CAPTURE(part);
    CHECK(bound->condition.find(part) != std::string::npos);
  }
  CHECK(find_bound(layer.accumulated, BoundKind::forward)->guarantee == Guarantee::conditional);

  arithmetic.input = FormatId::fp8_e4m3;
  arithmetic.tensor_core = TensorCore{13, 32, 13, 128};
  const LayerBounds of_fp8 = bounds_of_sum({1.0, 2.0}, {1.0, 1.0}, 3.0, arithmetic);
  const std::string condition = find_bound(of_fp8.local, BoundKind::componentwise)->condition;
  for (const char* part : {"cuts that sum no earlier than 13 bits",
                           "multiples of 32 products (padding not counted), none longer than 128"}) {
    CAPTURE(condition);
    CHECK(condition.find(part) != std::string::npos);
  }

  const Tensor<double> x{{1, 2}, {0.0, 0.0}}, p{{1, 2}, {0.5, 0.5}};
  const LayerBounds softmax = bounds_of(one_node(op::Softmax{}, {x}, p, arithmetic));
  CHECK(find_bound(softmax.local, BoundKind::order_aware) != nullptr);
  CHECK(find_bound(softmax.local, BoundKind::componentwise)->condition.find("A-03") == std::string::npos);
}

TEST_CASE("matrix units that T-21 does not cover are refused") {
  const auto with = [](auto change) {
    ArithmeticModel arithmetic = MatrixUnit().arithmetic();
    change(arithmetic);
    return arithmetic;
  };
  const auto refused = [](const ArithmeticModel& arithmetic) {
    CHECK_THROWS_AS(bounds_of_sum({1.0}, {1.0}, 1.0, arithmetic), Unsupported);
  };
  refused(with([](auto& a) { a.accumulator = FormatId::fp16; }));
  refused(with([](auto& a) { a.accumulator = FormatId::fp64; }));
  refused(with([](auto& a) { a.rounding = Rounding::toward_zero; }));
  refused(with([](auto& a) { a.tensor_core->block = 0; }));
  refused(with([](auto& a) { a.tensor_core->fraction_bits = 0; }));
  refused(with([](auto& a) { a.tensor_core->sum_bits = 0; }));
  refused(with([](auto& a) { a.tensor_core->sum_bits = 24; }));
  for (const FormatId input : {FormatId::fp16, FormatId::fp8_e4m3, FormatId::fp8_e5m2})
    refused(with([&](auto& a) { a.input = input, a.tensor_core->cuts_operands = true; }));
  refused(with([](auto& a) { a.tensor_core->promotion = 3; }));
  refused(with([](auto& a) { a.tensor_core->promotion = -4; }));
  for (const FormatId fp8 : fp8_formats()) {
    for (const TensorCore unit : {ada_fp8, hopper_fp8, TensorCore{22, 16}, TensorCore{25, 32}}) {
      CHECK_NOTHROW(bounds_of_sum({1.0}, {1.0}, 1.0, with([&](auto& a) { a.input = fp8, a.tensor_core = unit; })));
    }
  }
}

namespace {

/// A chain of float32 operations whose subnormal operands and results are now kept, now flushed.
class WaveringSum {
public:
  explicit WaveringSum(Generator& generator) : generator_(generator) {}

  float dot(const std::vector<float>& a, const std::vector<float>& b, bool fma) {
    float sum = read(a[0], b[0]);
    for (std::size_t k = 1; k < a.size(); ++k) {
      if (fma)
        sum = flushed(std::fma(flushed(a[k]), flushed(b[k]), flushed(sum)));
      else
        sum = flushed(flushed(sum) + flushed(read(a[k], b[k])));
    }
    return sum;
  }
  float add(float x, float y) { return flushed(flushed(x) + flushed(y)); }

private:
  float flushed(float x) { return std::abs(x) < FLT_MIN && generator_() % 2 == 0 ? 0.0f : x; }
  float read(float a, float b) { return flushed(flushed(a) * flushed(b)); }

  Generator& generator_;
};

Tallies check_wavering(Data data, bool fma, bool has_bias, Generator& generator) {
  const std::size_t k = 1 + generator() % 12;
  const auto length = static_cast<std::int64_t>(k);
  std::vector<double> p(k), q(k);
  for (double& x : p) x = static_cast<double>(static_cast<float>(draw(data, generator)));
  for (double& x : q) x = static_cast<double>(static_cast<float>(draw(data, generator)));
  if (data == Data::subnormal && generator() % 2 == 0) {  // operands, not products, below the normal range
    for (double& x : p) x = static_cast<double>(static_cast<float>(std::ldexp(x, -56)));
    for (double& x : q) x = std::ldexp(x, 74);
  }
  const std::vector<float> a(p.begin(), p.end()), b(q.begin(), q.end());
  const double bias = std::ldexp(uniform(generator, -1.0, 1.0), -126);
  WaveringSum sum(generator);
  float y = sum.dot(a, b, fma);
  Real exact;
  for (std::size_t i = 0; i < k; ++i) exact += Real(p[i]) * Real(q[i]);
  std::vector<Tensor<double>> operands{{{1, length}, p}, {{length, 1}, q}};
  if (has_bias) {
    const auto addend = static_cast<float>(bias);
    y = sum.add(y, addend);
    exact += Real(static_cast<double>(addend));
    operands.push_back({{1}, {static_cast<double>(addend)}});
  }
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {SummationOrder::Kind::sequential, 0, fma});
  arithmetic.products_may_flush = true;
  const auto computed = static_cast<double>(y);
  Tallies tallies;
  tallies.add(bounds_of(one_node(op::Gemm{}, operands, {{1, 1}, {computed}}, arithmetic)), 0, computed, exact);
  return tallies;
}

}  // namespace

TEST_CASE("products that flush now and then stay within the bounds, without a matrix unit too" *
          doctest::test_suite("campaign")) {
  Generator generator(68);
  for (int data = 0; data < static_cast<int>(Data::bias); ++data) {
    Tallies tallies;
    for (int i = 0; i < 100 * test_multiplier(); ++i)
      tallies += check_wavering(static_cast<Data>(data), i % 2 == 0, i % 3 == 0, generator);
    CAPTURE(data);
    INFO(tallies.first_violation());
    CHECK(tallies.violations() == 0);
    CHECK(tallies.order_aware.checked > 0);
  }
}

TEST_CASE("ops around products that may flush keep subnormal numbers") {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", {});
  arithmetic.products_may_flush = true;
  const double x = 0x1p-130;
  const OneNode add = one_node(op::Add{}, {{{1}, {x}}, {{1}, {x}}}, {{1}, {2 * x}}, arithmetic);
  CHECK(componentwise(bounds_of(add)) == 0.0);
  CHECK(componentwise(bounds_of_sum({x}, {1.0}, x, arithmetic)) >= x);
}
