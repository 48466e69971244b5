#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/choices.hpp"
#include "analysis/drift.hpp"
#include "analysis/drift_report.hpp"
#include "analysis/drift_tolerances.hpp"
#include "analysis/drift_verdict.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "support/approach.hpp"
#include "support/json_schema.hpp"
#include "support/recording.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::analysis;
using namespace driftbound::test;

// Two runs of y = gelu-like network that plain float32 loops of this file compute, in one order of summation or another,
// with faults or without.

namespace {

using Matrix = Tensor<float>;

/// How a run computes.
struct Way {
  bool backwards = false;  ///< order of the sums
  bool in_halves = false;  ///< two sums, added at the end
  bool is_fused = true;    ///< addmm, or mm and add
  std::int64_t rows = 48;
  float weight_factor = 1.0F;  ///< of one weight
  double epsilon = 1e-5;
  bool drops_bias = false, reads_input_twice = false, makes_nan = false, declares_epsilon = true;
  std::function<float(float)> read = [](float x) { return x; };  ///< of the product's left operand
};

constexpr std::int64_t width = 96, out = 8;

Matrix random_matrix(Shape shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Matrix tensor(std::move(shape));
  for (float& x : tensor.values) x = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
  return tensor;
}

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

Matrix rows_of_input(std::int64_t rows) {
  Matrix all = random_matrix({48, width}, 1);
  all.shape[0] = rows;
  all.values.resize(at(rows * width));
  return all;
}

Matrix normalised(const Matrix& x, double epsilon) {
  Matrix y(x.shape);
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    double mean = 0.0, squares = 0.0;
    for (std::int64_t j = 0; j < width; ++j) mean += static_cast<double>(x.values[at(row * width + j)]) / width;
    for (std::int64_t j = 0; j < width; ++j) {
      const double d = static_cast<double>(x.values[at(row * width + j)]) - mean;
      squares += d * d / width;
    }
    for (std::int64_t j = 0; j < width; ++j)
      y.values[at(row * width + j)] = static_cast<float>((static_cast<double>(x.values[at(row * width + j)]) - mean) /
                                                         std::sqrt(squares + epsilon));
  }
  return y;
}

/// x W^T in float32, one product after the other.
Matrix product(const Matrix& x, const Matrix& w, const Way& way) {
  Matrix y({x.shape[0], w.shape[0]});
  for (std::int64_t i = 0; i < x.shape[0]; ++i)
    for (std::int64_t j = 0; j < w.shape[0]; ++j) {
      float sum = 0.0F, before = 0.0F;
      for (std::int64_t step = 0; step < width; ++step) {
        if (way.in_halves && step == width / 2) before = std::exchange(sum, 0.0F);
        const std::int64_t k = way.backwards ? width - 1 - step : step;
        sum += way.read(x.values[at(i * width + k)]) * w.values[at(j * width + k)];
      }
      y.values[at(i * w.shape[0] + j)] = way.in_halves ? before + sum : sum;
    }
  return y;
}

void write_run(const std::string& file, const Way& way) {
  RecordingWriter writer;
  const Matrix x = rows_of_input(way.rows);
  Matrix w = random_matrix({out, width}, 2), bias = random_matrix({out}, 3);
  w.values[at(3 * width + 5)] *= way.weight_factor;
  const Matrix n = normalised(x, way.epsilon);
  const Matrix ones = Matrix({width}, std::vector<float>(width, 1.0F));
  Matrix y = product(way.reads_input_twice ? x : n, w, way);
  const Matrix p = y;
  if (!way.drops_bias)
    for (std::size_t i = 0; i < y.size(); ++i) y.values[i] += bias.values[i % at(out)];
  Matrix z = y;
  for (float& value : z.values) value = std::max(value, 0.0F);
  if (way.makes_nan) z.values[7] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [id, tensor] :
       {std::pair<const char*, const Matrix*>{"x", &x}, {"w", &w}, {"n", &n}, {"y", &y}, {"z", &z}})
    writer.value(id, StoredTensor::from(*tensor));
  writer.derived("wt", ElementType::f32, {width, out});
  writer.value("one", StoredTensor::from(ones));
  writer.record("aten::native_layer_norm", {"x", "one", std::nullopt}, {"n"},
                {{"normalized_shape", {width}}, {"eps", way.declares_epsilon ? way.epsilon : 1e-5}}, "ln");
  writer.record("aten::t", {"w"}, {"wt"});
  const std::string left = way.reads_input_twice ? "x" : "n";
  if (!way.drops_bias) writer.value("bias", StoredTensor::from(bias));
  if (way.drops_bias) {
    writer.record("aten::mm", {left, "wt"}, {"y"}, {}, "fc");
  } else if (way.is_fused) {
    writer.record("aten::addmm", {"bias", left, "wt"}, {"y"}, {}, "fc");
  } else {
    writer.value("p", StoredTensor::from(p));
    writer.record("aten::mm", {left, "wt"}, {"p"}, {}, "fc");
    writer.record("aten::add", {"p", "bias"}, {"y"}, {}, "fc");
  }
  writer.record("aten::relu", {"y"}, {"z"}, {}, "act");
  writer.write(file);
}

DriftOptions options() {
  DriftOptions options;
  options.judge.precision.threads = 1;
  options.most_numbers = std::int64_t{1} << 30;
  for (const BoundKind kind :
       {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic, BoundKind::adjoint_any_order})
    options.judge.bounds.emplace_back(kind);
  return options;
}

RunsDrift drift_of(const Way& a, const Way& b, KernelSearches searches = KernelSearches::none) {
  const TemporaryFolder folder;
  write_run(folder.file("a.safetensors"), a);
  write_run(folder.file("b.safetensors"), b);
  const RecordedRun run_a(folder.file("a.safetensors")), run_b(folder.file("b.safetensors"));
  DriftOptions asked = options();
  asked.judge.kernel_searches = searches;
  return compare_runs(judge_run_alone(run_a, asked), judge_run_alone(run_b, asked), asked);
}

const DriftOp& op_of(const RunsDrift& drift, const std::string& module) {
  for (const DriftOp& op : drift.ops)
    if (op.module == module) return op;
  FAIL("no such op");
  return drift.ops.front();
}

std::string culprit_of(const RunsDrift& drift) {
  return drift.culprit ? drift.ops[*drift.culprit].module : "";
}

/// Exact numbers that are these; no bounds.
KnownNumbers known_as(const Tensor<float>& numbers) {
  KnownNumbers known;
  known.exact = Tensor<Ball>(numbers.shape);
  known.any_run = Tensor<double>(numbers.shape);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    known.exact.values[i].hi = static_cast<double>(numbers.values[i]);
    known.any_run.values[i] = std::numeric_limits<double>::infinity();
  }
  known.six_sigmas = known.any_run;
  return known;
}

}  // namespace

TEST_CASE("Sums in another order are expected, and the reason has the numbers") {
  Way backwards;
  backwards.backwards = true;
  const RunsDrift drift = drift_of({}, backwards);
  CHECK(drift.verdict == DriftVerdict::expected);
  CHECK_FALSE(drift.culprit);
  const DriftOp& product = op_of(drift, "fc");
  REQUIRE(product.difference);
  CHECK(product.has_same_operands);
  CHECK(product.difference->largest > 0.0);
  CHECK(product.introduced() == product.difference->largest);
  CHECK(product.difference->largest <= product.error_a + product.error_b);
  const DriftOp& last = op_of(drift, "act");
  REQUIRE(last.apart_at_most);
  CHECK(last.difference->largest < *last.apart_at_most);
  CHECK(*last.apart_at_most < 1e-3);
  CHECK(contains(last.reason, "any two such runs are within"));
  CHECK(op_of(drift, "ln").difference->is_zero());
  REQUIRE(drift.first);
  CHECK(drift.ops[*drift.first].module == "fc");
}

TEST_CASE("Kernels that give all bits of both runs are named, and explain the difference on the same operands") {
  Way halves;
  halves.in_halves = true;
  const RunsDrift drift = drift_of({}, halves, KernelSearches::all);
  CHECK(drift.verdict == DriftVerdict::expected);
  const DriftOp& product = op_of(drift, "fc");
  CHECK(contains(product.kernel_a, "in one chain"));
  CHECK(contains(product.kernel_b, "2 slices"));
  CHECK(contains(product.reason, "the difference is that of two kernels: all bits are those of " + product.kernel_a +
                                     " in the first run, and of " + product.kernel_b + " in the second"));
  CHECK(product.is_predicted());
  CHECK(contains(product.reason, "the difference is predicted, bit for bit"));
  CHECK(op_of(drift, "ln").kernel_a == "");
  CHECK_FALSE(op_of(drift, "ln").is_predicted());
  Way backwards;  // in no member of the family
  backwards.backwards = true;
  CHECK(op_of(drift_of({}, backwards, KernelSearches::all), "fc").kernel_b == "");
}

TEST_CASE("A run with other ops is held against the first one's numbers") {
  Way apart;
  apart.is_fused = false;
  apart.backwards = true;
  const RunsDrift drift = drift_of({}, apart);
  CHECK(drift.verdict == DriftVerdict::expected);
  CHECK(op_of(drift, "fc").by == AlignedBy::module);
  CHECK(op_of(drift, "fc").as_b == Status::holds);
  REQUIRE(drift.only_b.size() == 1);
  CHECK(drift.only_b.front().op == "aten::mm");
  apart.weight_factor = 1.01F;
  CHECK(culprit_of(drift_of({}, apart)) == "fc");
}

TEST_CASE("A part of a batch is compared with its rows") {
  Way part;
  part.rows = 3;
  part.backwards = true;
  const RunsDrift drift = drift_of({}, part);
  CHECK(drift.verdict == DriftVerdict::expected);
  REQUIRE(drift.rows);
  CHECK(drift.rows->of_b == std::vector<std::int64_t>{0, 1, 2});
  CHECK(op_of(drift, "fc").difference->elements == 3 * out);
  CHECK(op_of(drift, "fc").as_b == Status::holds);
  const RunsDrift other_way = drift_of(part, {});
  CHECK(other_way.verdict == DriftVerdict::expected);
  CHECK(op_of(other_way, "fc").difference->elements == 3 * out);
}

TEST_CASE("Faults are bugs at the op that has them" * doctest::test_suite("campaign")) {
  struct Fault {
    const char* what;
    std::function<void(Way&)> make;
    std::string module, reason;
  };
  const std::vector<Fault> faults = {
      {"weight", [](Way& way) { way.weight_factor = 1.001F; }, "fc",
       "the runs read other numbers: 1 of 768 elements of 'w'"},
      {"epsilon", [](Way& way) { way.epsilon = 1e-3; }, "ln", "eps is 0.001, and 1e-05 in the first run"},
      {"hidden epsilon",
       [](Way& way) {
         way.epsilon = 1e-3;
         way.declares_epsilon = false;
       },
       "ln", "the second run exceeds"},
      {"bias", [](Way& way) { way.drops_bias = true; }, "fc", "not those of the second run's function"},
      {"operand", [](Way& way) { way.reads_input_twice = true; }, "fc", "its operand 1 is another value"},
      {"NaN", [](Way& way) { way.makes_nan = true; }, "act", "1 elements are not finite in the second run alone"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.what);
    Way way;
    way.backwards = true;
    fault.make(way);
    const RunsDrift drift = drift_of({}, way);
    CHECK(drift.verdict == DriftVerdict::bug);
    CHECK(culprit_of(drift) == fault.module);
    REQUIRE(drift.culprit);
    CAPTURE(drift.ops[*drift.culprit].reason);
    CHECK(contains(drift.ops[*drift.culprit].reason, fault.reason));
  }
}

TEST_CASE("Operands read otherwise than declared are suspicious at least") {
  Way narrow;
  narrow.read = [](float x) {
    return static_cast<float>(round_to(static_cast<double>(x), format(FormatId::tf32), Rounding::nearest_even));
  };
  const RunsDrift drift = drift_of({}, narrow);
  CHECK(drift.verdict >= DriftVerdict::suspicious);
  CHECK(culprit_of(drift) == "fc");
  CHECK(contains(drift.ops[*drift.culprit].reason, "tf32"));
}

TEST_CASE(
    "Weights that one run rounds are suspicious, as no bound is exceeded, and expected where their type says so") {
  enum class Scales { as_they_are, rounded, declared, zero };
  const TemporaryFolder folder;
  const auto write = [&](const char* name, Scales scales) {
    RecordingWriter writer;
    const Matrix x = rows_of_input(4);
    Matrix s = random_matrix({width}, 5), y(x.shape);
    for (float& value : s.values) {
      if (scales == Scales::zero) value = 0.0F;
      if (scales == Scales::rounded || scales == Scales::declared)
        value =
            static_cast<float>(round_to(static_cast<double>(value), format(FormatId::bf16), Rounding::nearest_even));
    }
    for (std::size_t i = 0; i < y.size(); ++i) y.values[i] = x.values[i] * s.values[i % at(width)];
    writer.value("x", StoredTensor::from(x));
    std::vector<std::byte> upper_halves;  // the bytes of bfloat16
    for (const float value : s.values)
      for (const unsigned shift : {16U, 24U})
        upper_halves.push_back(static_cast<std::byte>(std::bit_cast<std::uint32_t>(value) >> shift & 255U));
    writer.value("s", scales == Scales::declared ? StoredTensor(ElementType::bf16, {width}, upper_halves)
                                                 : StoredTensor::from(s));
    writer.value("y", StoredTensor::from(y));
    writer.record("aten::mul", {"x", "s"}, {"y"}, {}, "scale");
    writer.write(folder.file(name));
    return folder.file(name);
  };
  const RecordedRun plain(write("plain.safetensors", Scales::as_they_are)),
      rounded(write("rounded.safetensors", Scales::rounded)), declared(write("declared.safetensors", Scales::declared)),
      zero(write("zero.safetensors", Scales::zero));
  const auto drift_between = [](const RecordedRun& a, const RecordedRun& b) {
    return compare_runs(judge_run_alone(a, options()), judge_run_alone(b, options()), options());
  };
  for (const bool is_exchanged : {false, true}) {
    CAPTURE(is_exchanged);
    const auto against_plain = [&](const RecordedRun& other) {
      return is_exchanged ? drift_between(other, plain) : drift_between(plain, other);
    };
    const std::string run = is_exchanged ? "first" : "second";
    const RunsDrift odd = against_plain(rounded);
    CHECK(odd.verdict == DriftVerdict::suspicious);
    CHECK(odd.ops.at(0).reason == "the " + run + " run reads 's' rounded to bf16");
    const RunsDrift honest = against_plain(declared);
    CHECK(honest.verdict == DriftVerdict::expected);
    CHECK(contains(honest.ops.at(0).reason, "the " + run + " run reads 's' rounded to bf16, as its type says"));
    const RunsDrift dropped = against_plain(zero);
    CHECK(dropped.verdict == DriftVerdict::bug);
    CHECK(contains(dropped.ops.at(0).reason, "'s' is 0 in one run alone"));
  }
}

TEST_CASE("What one run alone ends with, and numbers that are finite in neither run, are undecided") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, bool has_last, float first) {
    RecordingWriter writer;
    Matrix x = rows_of_input(4), y = x;
    x.values[0] = first;
    for (std::size_t i = 0; i < y.size(); ++i) y.values[i] = std::max(x.values[i], 0.0F);
    if (std::isnan(first)) y.values[0] = first;
    Matrix z = y;
    for (float& value : z.values) value *= 2.0F;
    writer.value("x", StoredTensor::from(x));
    writer.value("y", StoredTensor::from(y));
    writer.record("aten::relu", {"x"}, {"y"}, {}, "act");
    if (has_last) {
      writer.value("z", StoredTensor::from(z));
      writer.record("aten::add", {"y", "y"}, {"z"}, {}, "last");
    }
    writer.write(folder.file(name));
    return folder.file(name);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RecordedRun whole(write("whole.safetensors", true, 1.0F)), cut(write("cut.safetensors", false, 1.0F)),
      broken(write("broken.safetensors", true, nan)), broken_again(write("again.safetensors", true, nan));
  const auto drift_between = [](const RecordedRun& a, const RecordedRun& b) {
    return compare_runs(judge_run_alone(a, options()), judge_run_alone(b, options()), options());
  };
  for (const RunsDrift& drift : {drift_between(whole, cut), drift_between(cut, whole)}) {
    CHECK(drift.verdict == DriftVerdict::undecided);
    REQUIRE(drift.alone);
    CHECK(drift.alone->name == "last/aten::add");
    CHECK(contains(drift.alone->reason, "the other run has none to compare it with"));
  }
  const RunsDrift void_in_both = drift_between(broken, broken_again);
  CHECK(void_in_both.verdict == DriftVerdict::undecided);
  REQUIRE(void_in_both.culprit);
  CHECK(contains(void_in_both.ops[*void_in_both.culprit].reason, "1 elements are NaN in both runs"));
}

TEST_CASE("The factor of two runs is the mean over rows, with a standard error from 8 rows on") {
  std::mt19937 random(140);
  std::normal_distribution<double> draw;
  Tensor<double> a({64, 48}), b({64, 48}), few({4, 2}, {1, 2, 1, 2, 1, 2, 1, 2});
  std::vector<double> factors;
  for (std::size_t row = 0; row < 64; ++row) {
    factors.push_back(1e-3 + 1e-4 * draw(random));
    for (std::size_t i = row * 48; i < (row + 1) * 48; ++i) {
      a.values[i] = draw(random);
      b.values[i] = a.values[i] * (1.0 + factors.back());
    }
  }
  double mean = 0.0, squares = 0.0;
  for (const double f : factors) mean += f / 64.0;
  for (const double f : factors) squares += (f - mean) * (f - mean);
  const RunDifference difference = difference_of({StoredTensor::from(a), StoredTensor::from(b)});
  CHECK(difference.factor == doctest::Approx(mean).epsilon(1e-9));
  CHECK(difference.factor_error == doctest::Approx(std::sqrt(squares / (64.0 * 63.0))).epsilon(1e-6));
  CHECK(difference_of({StoredTensor::from(few), StoredTensor::from(few)}).factor_error == 0.0);
}

TEST_CASE("What follows in one run alone from numbers that the other one does not have is undecided") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, bool goes_on, bool has_cache, bool reads_again = false) {
    RecordingWriter writer;
    const Matrix x = rows_of_input(4);
    Matrix y = x;
    for (float& value : y.values) value = std::max(value, 0.0F);
    writer.value("x", StoredTensor::from(x));
    writer.value("y", StoredTensor::from(y));
    writer.record("aten::relu", {"x"}, {"y"}, {}, "act");
    Matrix cache = x;
    for (float& value : cache.values) value = 1.0F - value;
    Matrix z = has_cache ? cache : y;
    for (float& value : z.values) value = std::max(value, 0.0F);
    if (has_cache) writer.value("cache", StoredTensor::from(cache));
    if (goes_on) {
      writer.value("z", StoredTensor::from(z));
      writer.record("aten::relu", {has_cache ? "cache" : reads_again ? "x" : "y"}, {"z"}, {}, "act");
    }
    writer.write(folder.file(name));
    return folder.file(name);
  };
  const RecordedRun one_call(write("one.safetensors", false, false)), two(write("two.safetensors", true, false)),
      again(write("again.safetensors", true, false, true)), cached(write("cached.safetensors", true, true));
  const auto drift_between = [](const RecordedRun& a, const RecordedRun& b) {
    return compare_runs(judge_run_alone(a, options()), judge_run_alone(b, options()), options());
  };
  CHECK(drift_between(one_call, again).verdict == DriftVerdict::expected);  // another call of the module
  CHECK(drift_between(one_call, two).verdict == DriftVerdict::undecided);   // what is behind the other run's end
  for (const RunsDrift& drift : {drift_between(one_call, cached), drift_between(cached, one_call)}) {
    CHECK(drift.verdict == DriftVerdict::undecided);
    REQUIRE(drift.alone);
    CHECK(contains(drift.alone->reason, "it follows from 'cache', which comes from outside"));
  }
}

TEST_CASE("A weight that one run has in parts is the same weight, and another one where few of its numbers differ") {
  const TemporaryFolder folder;
  constexpr std::int64_t width = 8, half = 4;
  const Matrix x = random_matrix({5, width}, 1), w = random_matrix({width, width}, 2);
  const auto columns = [&](std::int64_t first, float factor) {
    Matrix part({width, half});
    for (std::int64_t i = 0; i < width; ++i)
      for (std::int64_t j = 0; j < half; ++j)
        part.values[static_cast<std::size_t>(i * half + j)] =
            w.values[static_cast<std::size_t>(i * width + first + j)] * (i == 3 && j == 1 ? factor : 1.0F);
    return part;
  };
  const auto times = [&](const Matrix& of) {
    const std::int64_t count = of.shape[1];
    Matrix product({5, count});
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < count; ++j)
        for (std::int64_t k = 0; k < width; ++k)
          product.values[static_cast<std::size_t>(i * count + j)] +=
              x.values[static_cast<std::size_t>(i * width + k)] * of.values[static_cast<std::size_t>(k * count + j)];
    return product;
  };
  const auto write = [&](const char* name, const std::vector<Matrix>& parts) {
    RecordingWriter writer;
    writer.value("x", StoredTensor::from(x));
    RecordingWriter::Ids products;
    Matrix joined({5, width});
    std::int64_t first = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string number = std::to_string(i);
      const Matrix product = times(parts[i]);
      for (std::size_t e = 0; e < product.size(); ++e) {
        const auto row = static_cast<std::int64_t>(e) / product.shape[1],
                   column = static_cast<std::int64_t>(e) % product.shape[1];
        joined.values[static_cast<std::size_t>(row * width + first + column)] = product.values[e];
      }
      first += product.shape[1];
      writer.value("w" + number, StoredTensor::from(parts[i]));
      writer.value("p" + number, StoredTensor::from(product));
      writer.record("aten::mm", {"x", "w" + number}, {"p" + number});
      products.emplace_back("p" + number);
    }
    if (parts.size() > 1) {
      writer.derived("p", ElementType::f32, {5, width});
      writer.record("aten::cat", products, {"p"}, {{"dim", 1}});
    }
    for (float& value : joined.values) value = std::max(value, 0.0F);
    writer.value("y", StoredTensor::from(joined));
    writer.record("aten::relu", {parts.size() > 1 ? "p" : "p0"}, {"y"});
    writer.write(folder.file(name));
    return RecordedRun(folder.file(name));
  };
  const RecordedRun whole = write("whole.safetensors", {w}),
                    parts = write("parts.safetensors", {columns(0, 1.0F), columns(half, 1.0F)}),
                    other = write("other.safetensors", {columns(0, 1.0F), columns(half, 1.001F)});
  const auto drift_between = [](const RecordedRun& a, const RecordedRun& b) {
    return compare_runs(judge_run_alone(a, options()), judge_run_alone(b, options()), options());
  };
  CHECK(drift_between(whole, parts).verdict == DriftVerdict::expected);
  CHECK(drift_between(parts, whole).verdict == DriftVerdict::expected);
  for (const RunsDrift& drift : {drift_between(whole, other), drift_between(other, whole)}) {
    CHECK(drift.verdict == DriftVerdict::bug);
    REQUIRE(drift.sources.size() == 1);
    CHECK(drift.sources.front().difference->differing == 1);
    CHECK(drift.sources.front().difference->elements == width * width);
  }
}

TEST_CASE("Elements of scores that both runs mask are not compared: the softmax that reads them is") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, float mask, float last, float slope = 0.0F) {
    RecordingWriter writer;
    const Matrix x = rows_of_input(4);
    Matrix m(x.shape), s = x, p = x;
    for (std::size_t i = 0; i < m.size(); ++i) m.values[i] = i % at(width) < 3 ? mask : 0.0F;
    // A row in which all is masked.
    for (std::size_t i = 0; i < at(width) && slope != 0.0F; ++i) m.values[i] = mask + slope * static_cast<float>(i);
    m.values.back() = last;
    for (std::size_t row = 0; row < 4; ++row) {
      const std::size_t first = row * at(width);
      double sum = 0.0, largest = -std::numeric_limits<double>::infinity();
      for (std::size_t i = first; i < first + at(width); ++i) {
        s.values[i] = x.values[i] + m.values[i];
        largest = std::max(largest, static_cast<double>(s.values[i]));
      }
      const auto term = [&](std::size_t i) { return std::exp(static_cast<double>(s.values[i]) - largest); };
      for (std::size_t i = first; i < first + at(width); ++i) sum += term(i);
      for (std::size_t i = first; i < first + at(width); ++i) p.values[i] = static_cast<float>(term(i) / sum);
    }
    for (const auto& [id, tensor] : {std::pair<const char*, const Matrix*>{"x", &x}, {"s", &s}, {"p", &p}})
      writer.value(id, StoredTensor::from(*tensor));
    writer.value("m", StoredTensor::from(m));
    writer.record("aten::add", {"x", "m"}, {"s"}, {}, "mask");
    writer.record("aten::_softmax", {"s"}, {"p"}, {{"dim", -1}, {"half_to_float", false}}, "weights");
    writer.write(folder.file(name));
    return folder.file(name);
  };
  const float infinite = std::numeric_limits<float>::infinity();
  const RecordedRun by_infinity(write("a.safetensors", -infinite, 0.0F)),
      by_number(write("b.safetensors", -1e9F, 0.0F)), otherwise(write("c.safetensors", -1e9F, 0.125F));
  const auto drift_between = [](const RecordedRun& a, const RecordedRun& b) {
    return compare_runs(judge_run_alone(a, options()), judge_run_alone(b, options()), options());
  };
  for (const RunsDrift& drift : {drift_between(by_infinity, by_number), drift_between(by_number, by_infinity)}) {
    CHECK(drift.verdict == DriftVerdict::expected);
    CHECK(contains(op_of(drift, "mask").reason, "12 elements are masked by other large numbers"));
  }
  CHECK(drift_between(by_infinity, otherwise).verdict == DriftVerdict::bug);
  // What is left of a row decides nothing where all of it is masked: there the mask's numbers count.
  const RecordedRun steep(write("d.safetensors", -20000.0F, 0.0F, -64.0F)),
      flat(write("e.safetensors", -20000.0F, 0.0F, -0.25F));
  CHECK(drift_between(steep, flat).verdict == DriftVerdict::bug);
}

TEST_CASE("What follows from an op that is not judged is no bug for what that op differs by") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, float factor) {
    RecordingWriter writer;
    const Matrix x = rows_of_input(4);
    Matrix y = x, z = x;
    for (float& value : y.values) value *= factor;
    for (std::size_t i = 0; i < z.size(); ++i) z.values[i] = std::exp(y.values[i]);
    for (const auto& [id, tensor] : {std::pair<const char*, const Matrix*>{"x", &x}, {"y", &y}, {"z", &z}})
      writer.value(id, StoredTensor::from(*tensor));
    writer.record("mine::op", {"x"}, {"y"}, {}, "mine");
    writer.record("aten::exp", {"y"}, {"z"}, {}, "act");
    writer.write(folder.file(name));
    return folder.file(name);
  };
  const RecordedRun a(write("a.safetensors", 1.0F)), b(write("b.safetensors", 1.00001F));
  const RunsDrift drift = compare_runs(judge_run_alone(a, options()), judge_run_alone(b, options()), options());
  CHECK(drift.verdict == DriftVerdict::undecided);
  CHECK(op_of(drift, "act").verdict == DriftVerdict::expected);
  CHECK(op_of(drift, "act").difference->largest > 1e-5);
}

TEST_CASE("Runs of other inputs or other models are refused") {
  const TemporaryFolder folder;
  const std::string a = folder.file("a.safetensors"), b = folder.file("b.safetensors"),
                    c = folder.file("c.safetensors");
  for (const bool is_other : {false, true}) {
    RecordingWriter writer;
    const Matrix x = random_matrix({4, 6}, is_other ? 8 : 7);
    Matrix y = x;
    for (float& value : y.values) value = std::exp(value);
    writer.value("x", StoredTensor::from(x));
    writer.value("y", StoredTensor::from(y));
    writer.record("aten::exp", {"x"}, {"y"});
    writer.write(is_other ? b : a);
  }
  RecordingWriter writer;
  const Matrix x = random_matrix({5, 7}, 9);
  writer.value("x", StoredTensor::from(x));
  writer.value("y", StoredTensor::from(x));
  writer.record("aten::relu", {"x"}, {"y"});
  writer.write(c);
  const auto refusal = [&](const std::string& other) -> std::string {
    const RecordedRun run_a(a), run_b(other);
    try {
      compare_runs(judge_run_alone(run_a, options()), judge_run_alone(run_b, options()), options());
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  CHECK(contains(refusal(b), "the runs are of different inputs or models: 'x' and 'x'"));
  CHECK(contains(refusal(c), "different models"));
}

TEST_CASE("The difference of two values counts rows, units and elements that are not finite") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor<float> a({2, 3}, {1, 2, 3, 4, 5, nan}), b({2, 3}, {1, 2, 3, 4, 5.5F, 6});
  const RunDifference difference = difference_of({StoredTensor::from(a), StoredTensor::from(b)});
  CHECK(difference.elements == 6);
  CHECK(difference.differing == 2);
  CHECK(difference.rows == 2);
  CHECK(difference.identical_rows == 1);
  CHECK(difference.largest == 0.5);
  CHECK(difference.worst == 4);
  CHECK(difference.worst_b == 5.5);
  CHECK(difference.ulps == 0.5 / 0x1p-21);
  CHECK(difference.not_finite_a == 1);
  CHECK(difference.not_finite_b == 0);
  CHECK(difference.mean == doctest::Approx(0.1));
  CHECK(difference_of({StoredTensor::from(a), StoredTensor::from(a)}).is_zero());
}

TEST_CASE("The standard error of a mean counts what columns have in common, and needs 32 rows and columns") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const auto difference = [&](std::int64_t rows, std::int64_t columns, double of_column, double of_all) {
    Tensor<double> a({rows, columns}), b({rows, columns});
    std::vector<double> common(static_cast<std::size_t>(columns));
    for (double& x : common) x = of_column * normal(random);
    for (std::size_t i = 0; i < b.size(); ++i)
      b.values[i] = normal(random) + common[i % static_cast<std::size_t>(columns)] + of_all;
    return difference_of({StoredTensor::from(a), StoredTensor::from(b)});
  };
  CHECK(difference(31, 100, 0.0, 1.0).mean_error == 0.0);
  CHECK(difference(100, 31, 0.0, 1.0).mean_error == 0.0);
  const RunDifference plain = difference(400, 64, 0.0, 0.0), common = difference(400, 64, 1.0, 0.0);
  CHECK(plain.mean_error == doctest::Approx(std::sqrt(2.0 / (400.0 * 64.0))).epsilon(0.2));
  CHECK(common.mean_error == doctest::Approx(1.0 / 8.0).epsilon(0.3));
  CHECK(std::abs(common.mean) < 4.0 * common.mean_error);
  const RunDifference biased = difference(400, 64, 0.0, 0.5);
  CHECK(biased.mean > 20.0 * biased.mean_error);
}

TEST_CASE("The report of a drift has its schema, a line and a case an op, and the exit status of the verdict") {
  Way fault;
  fault.weight_factor = 1.001F;
  DriftReport report;
  report.date = "2026-11-28T00:00:00Z";
  report.runs = {{"a", std::string(64, 'a'), {}, 4, {}}, {"b", std::string(64, 'b'), {}, 4, {"a problem"}}};
  report.drifts = {drift_of({}, {})};
  const std::string schema = std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/drift-1.json";
  CHECK(document_of(report).exit_status == 0);
  CHECK(contains(to_text(document_of(report)), "EXPECTED: all 3 values that both runs computed are the same"));
  CHECK(schema_errors(schema, nlohmann::json::parse(to_json(document_of(report)))) == "");
  report.drifts.front().undeclared = undeclared_of("A kernel.", "A kernel.");
  CHECK(contains(to_text(document_of(report)), "In both runs: A kernel."));
  CHECK(undeclared_of("A kernel.", "") == std::vector<std::string>{"In the first run: A kernel."});
  CHECK(undeclared_of("", "").empty());
  report.drifts = {drift_of({}, fault)};
  const Document document = document_of(report);
  CHECK(document.exit_status == 2);
  CHECK(document.records.rows.size() == 3);
  CHECK(document.cases.size() == 4);
  const nlohmann::json json = nlohmann::json::parse(to_json(document));
  CHECK(schema_errors(schema, json) == "");
  CHECK(json["drifts"][0]["culprit"] == "fc/aten::addmm");
  CHECK(contains(to_text(document), "BUG: at 'fc/aten::addmm'"));
  CHECK(contains(to_html(document), "the runs read other numbers"));
}

TEST_CASE("Of many values the report's text has what is not expected and the largest differences, JSON all") {
  DriftReport report;
  report.runs.resize(2);
  RunsDrift& drift = report.drifts.emplace_back();
  for (int i = 0; i < 500; ++i) {
    DriftOp op;
    op.name = "op" + std::to_string(i);
    op.difference = RunDifference();
    op.difference->elements = op.difference->differing = op.difference->rows = 1;
    op.difference->rms = op.difference->largest = i == 77 ? 1.0 : 1e-6;
    op.difference->scale = 1.0;
    op.verdict = i == 333 ? DriftVerdict::suspicious : DriftVerdict::expected;
    drift.ops.push_back(op);
    Decisions& choices = drift.decisions.emplace_back();
    choices.name = op.name;
    choices.rows = 2;
    choices.flips = i == 400 ? 1 : 0;
    choices.by_flip[MayFlip::cannot] = 1;
  }
  drift.verdict = DriftVerdict::suspicious;
  drift.culprit = 333;
  drift.first = 0;
  const Document document = document_of(report);
  const std::string text = to_text(document);
  for (const char* name : {" op0 ", " op77 ", " op333 "}) CHECK(contains(text, name));
  CHECK_FALSE(contains(text, " op450 "));
  CHECK(contains(text, "The table has 60 of 500 values"));
  CHECK(contains(text, "Choices by 'op400'"));
  CHECK(contains(text, "1 of 1000 rows differ"));
  CHECK(contains(text, "500 rows (T-141)"));
  CHECK_FALSE(contains(text, "Choices by 'op399'"));
  CHECK(document.fields["drifts"][0]["ops"].size() == 500);
  CHECK(document.cases.size() == 501);  // and the verdict
}

TEST_CASE("A mean difference is suspicious where it is many standard errors, and much of the differences") {
  LayerSummary honest;
  honest.status = Status::holds;
  OpEvidence evidence;
  evidence.a = evidence.b = &honest;
  evidence.is_same_op = evidence.adds_and_multiplies = true;
  DriftOp op;
  op.has_same_operands = true;
  op.a = op.b = Status::holds;
  RunDifference& difference = op.difference.emplace();
  difference.elements = difference.differing = 1000;
  difference.largest = 4.0;
  difference.rms = 1.0;
  const auto verdict = [&](double mean, double mean_error) {
    difference.mean = mean;
    difference.mean_error = mean_error;
    settle(op, evidence, 10);
    return op.verdict;
  };
  CHECK(verdict(-0.25, 0.03) == DriftVerdict::suspicious);
  CHECK(contains(op.reason, "8 standard errors from 0"));
  CHECK(verdict(-0.25, 0.07) == DriftVerdict::expected);  // less than 4.8 of them, the limit of ten ops
  CHECK(verdict(0.02, 0.001) == DriftVerdict::expected);  // as all rows meet the same weights
  evidence.adds_and_multiplies = false;
  CHECK(verdict(-0.25, 0.03) == DriftVerdict::expected);
}

TEST_CASE("What two runs differ by at most is said where all elements have a bound, not where the largest alone have") {
  Comparison run;
  OutputSummary output;
  output.name = "y";
  BoundSummary bound;
  bound.kind = BoundKind::adjoint_any_order;
  bound.max_bound = 0.25;
  bound.checked = 16;
  output.scope.bounds = {bound};
  run.outputs = {output};
  CHECK(any_runs_apart(run, "y", run, "y") == 0.5);
  CHECK_FALSE(any_runs_apart(run, "y", run, "z"));
  run.outputs[0].scope.bounds[0].follows_largest = true;
  CHECK_FALSE(any_runs_apart(run, "y", run, "y"));
}

TEST_CASE("Tolerances of all tensors hold for runs in other orders, also where an output has thousands of numbers" *
          doctest::test_suite("campaign")) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "rows"}, {3, ""}});
  const auto weights = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    Tensor<float> numbers({rows, columns});
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers.values[i] = static_cast<float>(std::sin(static_cast<double>(7 * i + 1)));
    return graph.add_constant(name, StoredTensor::from(numbers));
  };
  const ValueId hidden = graph.add_node("hidden", op::MatMul{}, {x, weights("w", 3, 40)});
  const ValueId bent = graph.add_node("bent", op::Tanh{}, {hidden});
  graph.outputs = {graph.add_node("wide", op::MatMul{}, {bent, weights("v", 40, 5000)})};
  Inputs inputs;
  inputs.tensors.emplace_back("x",
                              StoredTensor::from(Tensor<float>({2, 3}, {0.5F, -0.25F, 1.0F, 0.125F, 2.0F, -1.0F})));
  const auto run_in = [&](const char* order) {
    return cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order(order))).run(graph, inputs, {});
  };
  const Trace a = run_in("sequential"), b = run_in("pairwise+fma");
  std::vector<OutputTolerance> tolerances;
  CHECK(add_tensors(graph, a, {}, tolerances));
  REQUIRE(tolerances.size() == 3);
  double closest = 0.0;
  for (std::size_t node = 0; node < 3; ++node) {
    const OutputTolerance& one = tolerances[node];
    CHECK(one.name == graph.value(graph.nodes[node].output).name);
    CHECK(one.is_output == (node == 2));
    REQUIRE(one.proven);
    REQUIRE(one.by_chance);
    CHECK(*one.by_chance <= *one.proven);
    const std::vector<double> in_a = a.layers[node].output.to_double().values,
                              in_b = b.layers[node].output.to_double().values;
    for (std::size_t i = 0; i < in_a.size(); ++i) {
      CHECK(std::abs(in_a[i] - in_b[i]) <= *one.by_chance);
      closest = std::max(closest, std::abs(in_a[i] - in_b[i]) / *one.proven);
    }
  }
  CHECK(closest > 0.01);
  TensorBounds outputs;
  outputs.outputs_alone = true;
  std::vector<OutputTolerance> alone;
  CHECK(add_tensors(graph, a, outputs, alone));
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].proven == tolerances[2].proven);
  TensorBounds little;
  little.most_work = 1.0;
  std::vector<OutputTolerance> left_out;
  CHECK(add_tensors(graph, a, little, left_out));
  CHECK_FALSE(left_out[0].proven);
  CHECK(left_out[2].proven);
  CHECK(nlohmann::json::parse(text_of(left_out, ToleranceFile::torch)).size() == 1);
  const auto json = nlohmann::json::parse(text_of(left_out, ToleranceFile::json));
  CHECK(json["tensors"].size() == 2);
  CHECK(json["tensors"][0]["proven"].is_null());
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/tolerances-1.json", json) == "");
  outputs.progress = [](std::int64_t, std::int64_t) { return false; };
  CHECK_FALSE(add_tensors(graph, a, outputs, left_out = {}));
}

TEST_CASE("Tolerances of outputs are the sums of both runs' bounds, in the forms that other programs take") {
  Comparison a;
  OutputSummary output;
  output.name = "y";
  output.scope.scale = 3.0;
  BoundSummary bound;
  bound.kind = BoundKind::adjoint_any_order;
  bound.max_bound = 0.25;
  bound.checked = 4;
  output.scope.bounds = {bound};
  a.outputs = {output};
  Comparison b = a;
  b.outputs[0].scope.bounds[0].max_bound = 0.5;
  b.outputs[0].scope.bounds[0].guarantee = Guarantee::conditional;
  std::vector<OutputTolerance> tolerances = tolerances_of(a);
  REQUIRE(tolerances.size() == 1);
  CHECK(tolerances[0].proven == 0.5);  // two runs of one arithmetic
  CHECK(tolerances[0].guarantee == Guarantee::proven);
  CHECK_FALSE(tolerances[0].by_chance);
  widen(tolerances, tolerances_of(b));
  CHECK(tolerances[0].proven == 1.0);  // two runs like the second one
  CHECK(tolerances[0].guarantee == Guarantee::conditional);
  Comparison exact = a;
  exact.outputs[0].scope.bounds[0].max_bound = 0.0;
  CHECK(tolerances_of(exact)[0].proven == 0.0);
  exact.outputs[0].scope.bounds.clear();  // integers
  CHECK(tolerances_of(exact).empty());
  std::vector<OutputTolerance> renamed = tolerances_of(a);
  b.outputs[0].name = "z";
  widen(renamed, tolerances_of(b));
  CHECK_FALSE(renamed[0].proven);
  renamed = tolerances_of(a);
  widen(renamed, tolerances_of(b), {{"z", "y"}});
  CHECK(renamed[0].proven == 1.0);
  tolerances[0].by_chance = 0.5;
  CHECK(nlohmann::json::parse(text_of(tolerances, ToleranceFile::torch)) ==
        nlohmann::json({{"y", {{"rtol", 0.0}, {"atol", 0.5}}}}));
  CHECK(text_of(tolerances, ToleranceFile::polygraphy) == "--atol y:0.5 --rtol y:0.0\n");
  const auto json = nlohmann::json::parse(text_of(tolerances, ToleranceFile::json));
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/tolerances-1.json", json) == "");
  CHECK(json["outputs"][0]["proven"] == 1.0);
  CHECK(json["outputs"][0]["estimate"].is_null());
  tolerances[0].name = "out:0";
  CHECK_THROWS_WITH_AS(text_of(tolerances, ToleranceFile::polygraphy), doctest::Contains("a colon"), Unsupported);
  tolerances[0].proven.reset();
  const auto unknown = nlohmann::json::parse(text_of(tolerances, ToleranceFile::json));
  CHECK(unknown["outputs"][0]["guarantee"].is_null());
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/tolerances-1.json", unknown) == "");
  CHECK_THROWS_WITH_AS(text_of(tolerances, ToleranceFile::numpy), doctest::Contains("a bound is infinite"),
                       Unsupported);
  CHECK_THROWS_WITH_AS(text_of({}, ToleranceFile::numpy), doctest::Contains("no output has a bound"), Unsupported);
  CHECK_THROWS_WITH_AS(tolerance_file_of("jax"), doctest::Contains("torch, numpy, polygraphy, json"), InvalidArgument);
}

TEST_CASE("Sets of the largest numbers are compared, of equal numbers the first ones") {
  const Tensor<float> a({3, 4}, {1, 2, 3, 4, 1, 1, 1, 1, 9, 5, 5, 0}),
      b({3, 4}, {3.5F, 2, 3, 4, 1, 1, 1, 2, 9, 5, 6, 0});
  const Decisions decisions = decisions_of("y", {StoredTensor::from(a), StoredTensor::from(b)}, nullptr, nullptr, {2});
  CHECK(decisions.other_sets == 3);  // {2, 3} and {0, 3}; {0, 1} and {0, 3}; {0, 1} and {0, 2}
  CHECK(decisions.flips == 1);
}

TEST_CASE("T-141: where no run can choose otherwise none does, and the log-probability stays within its bound") {
  std::mt19937_64 random(141);
  const auto real = [&] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1.0; };
  const std::int64_t rows = 400, classes = 5;
  Tensor<float> z({rows, classes});
  for (float& x : z.values) x = static_cast<float>(2.0 * real());
  KnownNumbers of_a = known_as(z), of_b = known_as(z);
  for (KnownNumbers* known : {&of_a, &of_b})
    for (double& bound : known->any_run.values) bound = 0.2 * (1.0 + real());
  std::fill(of_a.six_sigmas.values.begin(), of_a.six_sigmas.values.end(), 0.05);
  of_b.six_sigmas = of_a.six_sigmas;
  const Decisions decisions = decisions_of("y", {StoredTensor::from(z), StoredTensor::from(z)}, &of_a, &of_b, {2});
  const std::int64_t cannot = decisions.by_flip.at(MayFlip::cannot);
  CHECK(cannot > rows / 4);
  CHECK(decisions.by_flip.at(MayFlip::not_by_chance) > rows / 10);
  CHECK(decisions.by_flip.at(MayFlip::may) > 0);
  REQUIRE(decisions.log_ratio_at_most);
  // Runs that are off by their bounds, each in turn the worst for one class: in long double.
  std::vector<bool> flips(static_cast<std::size_t>(rows), false);
  double largest_ratio = 0.0;
  const auto log_softmax = [&](const std::vector<long double>& row, std::size_t at) {
    long double sum = 0.0L;
    for (const long double x : row) sum += std::exp(x);
    return row[at] - std::log(sum);
  };
  for (std::size_t row = 0; row < 400; ++row) {
    const auto at = [&](std::size_t i) { return row * 5 + i; };
    std::size_t winner = 0;
    for (std::size_t i = 1; i < 5; ++i)
      if (z.values[at(i)] > z.values[at(winner)]) winner = i;
    for (const KnownNumbers* known : {&of_a, &of_b})
      for (std::size_t i = 0; i < 5; ++i) {
        const auto low = static_cast<long double>(z.values[at(winner)]) -
                         static_cast<long double>(known->any_run.values[at(winner)]);
        const auto high =
            static_cast<long double>(z.values[at(i)]) + static_cast<long double>(known->any_run.values[at(i)]);
        if (i != winner && high >= low) flips[row] = true;
      }
    std::vector<long double> x, y;
    for (std::size_t i = 0; i < 5; ++i) {
      const long double sign = i == winner ? 1.0L : -1.0L;
      x.push_back(static_cast<long double>(z.values[at(i)]) +
                  sign * static_cast<long double>(of_a.any_run.values[at(i)]));
      y.push_back(static_cast<long double>(z.values[at(i)]) -
                  sign * static_cast<long double>(of_b.any_run.values[at(i)]));
    }
    largest_ratio =
        std::max(largest_ratio, static_cast<double>(std::abs(log_softmax(x, winner) - log_softmax(y, winner))));
  }
  CHECK(std::count(flips.begin(), flips.end(), false) == cannot);  // proven where and only where no run flips
  CHECK(largest_ratio <= *decisions.log_ratio_at_most);
  CHECK_APPROACH("T-141", largest_ratio / *decisions.log_ratio_at_most, 0.4);
  of_b.any_run.values.assign(of_b.any_run.values.size(), HUGE_VAL);  // not known of one run
  const Decisions less = decisions_of("y", {StoredTensor::from(z), StoredTensor::from(z)}, &of_a, &of_b, {2});
  CHECK(less.by_flip.count(MayFlip::cannot) == 0);
  CHECK_FALSE(less.log_ratio_at_most);
}

TEST_CASE(
    "T-141: classes with nearly the same weights are told apart by bounds of the difference of two runs that round "
    "alike") {
  std::mt19937_64 random(1410);
  const auto real = [&] { return static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0); };
  const std::int64_t samples = 160, terms = 48, classes = 6;
  Matrix w({terms, classes}), x({samples, terms});
  for (std::int64_t k = 0; k < terms; ++k)
    for (std::int64_t j = 0; j < classes; ++j)
      w.values[at(k * classes + j)] = j % 2 == 0 ? real() : w.values[at(k * classes + j - 1)] + 3e-4F * real();
  for (float& value : x.values) value = real();
  Graph graph;
  const ValueId input = graph.add_input("x", ElementType::f32, {{-1, ""}, {terms, ""}});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {input, graph.add_constant("w", StoredTensor::from(w))})};
  Inputs given;
  given.tensors.emplace_back("x", StoredTensor::from(x));
  const auto run_in = [&](const char* order) {
    return cpu_evaluator(cpu_arithmetic("tf32", parse_summation_order(order))).run(graph, given);
  };
  DriftOptions asked = options();
  asked.judge.bounds.emplace_back(BoundKind::rounded_shadow);
  TracedRun a = judge_trace_alone(graph, run_in("sequential"), asked);
  TracedRun b = judge_trace_alone(graph, run_in("pairwise"), asked);
  // No run in another order, and none in float64 of the rounded numbers, is nearer to a flip than the gaps say.
  std::vector<Tensor<double>> runs;
  for (const char* order : {"sequential", "pairwise", "blocked:4", "blocked:16", "split-k:3"})
    runs.push_back(run_in(order).layers.front().output.to_double());
  double nearest = 0.0;
  const KnownNumbers& known = a.known.at("y");
  REQUIRE(known.gaps.size() > 40);
  for (const auto& [element, gap] : known.gaps) {
    double least = HUGE_VAL;
    for (const Tensor<double>& run : runs) least = std::min(least, run.values[gap.winner] - run.values[element]);
    CHECK(gap.least <= least);
    if (least > 0.0) nearest = std::max(nearest, gap.least / least);
  }
  CHECK(nearest > 0.95);
  const auto cannot = [](const TracedRun& one, const TracedRun& other) {
    const Decisions decisions = compare_traces(one, other).decisions.at(0);
    const auto found = decisions.by_flip.find(MayFlip::cannot);
    return found == decisions.by_flip.end() ? 0 : found->second;
  };
  const std::int64_t with_gaps = cannot(a, b);
  a.known.at("y").gaps.clear();
  CHECK(with_gaps > samples * 9 / 10);
  CHECK(cannot(a, b) < with_gaps / 2);
}

TEST_CASE("T-141: a gap counts for the winner that it was found for") {
  const Tensor<float> z({4, 3}, {9, 1, 1, 9, 1, 1, 9, 1, 1, 9, 1, 1});
  KnownNumbers known = known_as(z);
  std::fill(known.any_run.values.begin(), known.any_run.values.end(), 100.0);
  const auto cannot = [&](std::size_t winner) {
    for (std::size_t i = 0; i < 12; ++i)
      if (i % 3 != 0) known.gaps[i] = {i / 3 * 3 + winner, 1.0};
    const StoredTensor numbers = StoredTensor::from(z);
    const Decisions decisions = decisions_of("y", {numbers, numbers}, &known, &known, {1});
    const auto found = decisions.by_flip.find(MayFlip::cannot);
    return found == decisions.by_flip.end() ? 0 : found->second;
  };
  CHECK(cannot(0) == 4);
  CHECK(cannot(1) == 0);  // found for a class that is not chosen
}

TEST_CASE("Choices of two runs are compared row by row, and those of the exact network are proven") {
  const Tensor<float> a({4, 3}, {1, 2, 3, 5, 5, 0, 0, 2, 1.5F, 9, 0, 0});
  Tensor<float> b = a;
  b.values[8] = 2.5F;  // row 2: another choice
  b.values[0] = 1.25F;
  KnownNumbers known = known_as(a);
  for (std::size_t i = 0; i < 12; ++i)
    known.exact.values[i].radius = Magnitude(i < 3 ? 0.75 : 0.01);  // row 0: not certain
  const Decisions decisions = decisions_of("y", {StoredTensor::from(a), StoredTensor::from(b)}, &known, nullptr, {2});
  CHECK(decisions.rows == 4);
  CHECK(decisions.classes == 3);
  CHECK(decisions.flips == 1);
  CHECK(decisions.ties == 1);
  CHECK(decisions.certain == 1);  // row 3; row 1 is a tie, row 2 flips
  REQUIRE(decisions.flipped.size() == 1);
  CHECK(decisions.flipped[0].row == 2);
  CHECK(decisions.flipped[0].winner_a == 1);
  CHECK(decisions.flipped[0].winner_b == 2);
  CHECK(decisions.flipped[0].gap_a == 0.5);
  CHECK(decisions.nearest[0].row == 1);
  const double sigma = std::sqrt((1.0 + 0.0625) / 12.0), root = std::sqrt(2.0);
  const auto phi = [&](double gap) { return 0.5 * std::erfc(gap / (sigma * root) / root); };
  CHECK(decisions.estimate_of_flips == doctest::Approx(phi(1.0) + phi(0.0) + phi(0.5) + phi(9.0)));
  const auto certain_if_the_next_is_within = [&](double radius) {
    known.exact.values[9] = exact_ball(3.0);
    known.exact.values[10] = {2.0, 0.0, Magnitude(radius)};
    return decisions_of("y", {StoredTensor::from(a), StoredTensor::from(b)}, &known, nullptr, {2}).certain.value();
  };
  CHECK(certain_if_the_next_is_within(1.0) == 0);
  CHECK(certain_if_the_next_is_within(1.0 - 0x1p-51) == 1);  // up to the number next below 3
  CHECK(decisions.largest_log_ratio > 0.1);
  CHECK(decisions.largest_divergence > decisions.mean_divergence);
  const AlignedNumbers same{StoredTensor::from(a), StoredTensor::from(a)};
  CHECK(decisions_of("y", same, nullptr, nullptr, {2}).estimate_of_flips == 0.0);
  CHECK_FALSE(decisions_of("y", same, nullptr, nullptr, {2}).certain);
  // Without bounds the differences seen are the estimate: six of them are 2.5.
  CHECK(decisions.by_flip == std::map<MayFlip, std::int64_t>{{MayFlip::not_by_chance, 1}, {MayFlip::may, 3}});
  CHECK(contains(decisions.why_no_bounds, "not known"));
  const Decisions of_same = decisions_of("y", same, nullptr, nullptr, {2});
  CHECK(of_same.by_flip == std::map<MayFlip, std::int64_t>{{MayFlip::unknown, 4}});
  CHECK_FALSE(decisions.log_ratio_at_most);
  // Row 0 keeps {1, 2}, row 1 the first two of 5, 5, 0, row 2 {1, 2}, row 3 {0, 1} as of 0 and 0 the first counts.
  CHECK(decisions.top == 2);
  CHECK(decisions.other_sets == 0);
  CHECK(decisions_of("y", same, nullptr, nullptr, {3}).top == 0);
  REQUIRE(decisions.flipped[0].largest_b.size() == 3);
  CHECK(decisions.flipped[0].largest_b[0].index == 2);
  CHECK(decisions.flipped[0].largest_b[0].number == 2.5);
  CHECK(decisions.flipped[0].largest_a[2].index == 0);
}

TEST_CASE("T-141: every row has the errors of its gap, and log-probabilities of the class that was chosen") {
  const Tensor<float> a({2, 3}, {1, 2, 3, 5, 4, 0}), b({2, 3}, {1, 2.25F, 3, 5, 4, 0.5F});
  KnownNumbers of_a = known_as(a), of_b = known_as(a);
  of_a.exact.values[2] = exact_ball(2.875);
  of_b.exact.values[2] = exact_ball(2.875);
  for (KnownNumbers* known : {&of_a, &of_b}) std::fill(known->any_run.values.begin(), known->any_run.values.end(), 0.5);
  of_a.gaps[1] = {2, 0.625};  // the exact gap is 0.875
  std::fill(of_a.six_sigmas.values.begin(), of_a.six_sigmas.values.end(), HUGE_VAL);
  of_b.six_sigmas = of_a.six_sigmas;
  const std::vector<std::int64_t> chosen = {0, 1};
  const AlignedNumbers numbers{StoredTensor::from(a), StoredTensor::from(b)};
  const Decisions decisions = decisions_of("y", numbers, &of_a, &of_b, {2, std::nullopt, chosen});
  REQUIRE(decisions.by_row.size() == 2);
  const RowDecision& row = decisions.by_row[0];
  CHECK(row.runner_up == 1);
  CHECK(row.errors[0] == 0.125);          // 1 - 0.875
  CHECK(row.errors[1] == 0.125);          // 0.75 - 0.875
  CHECK(row.any_run[0].value() == 0.25);  // by the gap
  CHECK(row.any_run[1].value() == 1.0);   // by both numbers
  CHECK_FALSE(row.six_sigmas[0]);
  CHECK(row.chosen == 0);
  const double log_a = 1.0 - std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)),
               log_b = 1.0 - std::log(std::exp(1.0) + std::exp(2.25) + std::exp(3.0));
  CHECK(row.log_probability[0] == doctest::Approx(log_a));
  CHECK(row.log_probability[1] == doctest::Approx(log_b));
  CHECK(row.log_errors[0] == 0.125);  // of number 2; that of number 0 is 0
  CHECK(row.log_errors[1] == 0.25);
  CHECK(row.log_ratio_at_most.value() >= 2.0);
  CHECK(decisions.largest_log_ratio ==
        doctest::Approx(std::max(
            log_a - log_b, std::abs(decisions.by_row[1].log_probability[1] - decisions.by_row[1].log_probability[0]))));
  CHECK(decisions.has_chosen);
  const std::vector<std::int64_t> few = {0}, far = {0, 3};
  CHECK_THROWS_WITH_AS(decisions_of("y", numbers, nullptr, nullptr, {2, std::nullopt, few}),
                       doctest::Contains("one for every row"), InvalidArgument);
  CHECK_THROWS_WITH_AS(decisions_of("y", numbers, nullptr, nullptr, {2, std::nullopt, far}),
                       doctest::Contains("has classes 0 to 2"), InvalidArgument);
}

TEST_CASE(
    "T-182: choices are held against their numbers; others on the same numbers are another rule between equal ones") {
  const TemporaryFolder folder;
  int runs = 0;
  const auto run_with = [&](bool is_moved, std::int64_t choice, std::int64_t second = 3) {
    RecordingWriter writer;
    Matrix x = rows_of_input(4);
    for (std::int64_t row = 0; row < 4; ++row) x.values[at(row * width + row + 1)] = 3.0F;
    x.values[7] = 3.0F;  // row 0: as large as its number 1
    Matrix y = x;
    for (float& value : y.values) value = std::exp(value);
    if (is_moved) y.values[3] = std::nextafter(y.values[3], 9.0F);
    writer.value("x", StoredTensor::from(x));
    writer.value("y", StoredTensor::from(y));
    writer.value("i", StoredTensor::from(Tensor<std::int64_t>({4}, {choice, 2, 3, 4})));
    writer.value("row", StoredTensor::from(Matrix({width}, {y.values.begin(), y.values.begin() + width})));
    writer.value("v", StoredTensor::from(Matrix({2}, {y.values[7], y.values[1]})));
    writer.value("j", StoredTensor::from(Tensor<std::int64_t>({2}, {7, second == 3 ? 1 : second})));
    writer.record("aten::exp", {"x"}, {"y"}, {}, "e");
    writer.record("aten::argmax", {"y"}, {"i"}, {{"dim", -1}}, "choice");
    writer.record("aten::topk", {"row"}, {"v", "j"}, {{"k", 2}}, "best");
    const std::string file = folder.file(std::to_string(runs++) + ".safetensors");
    writer.write(file);
    return RecordedRun(file);
  };
  const RecordedRun first = run_with(false, 1), other_rule = run_with(false, 7), moved_run = run_with(true, 7),
                    wrong_run = run_with(false, 5), none = run_with(false, width), twice = run_with(false, 1, 7);
  const auto drift = [&](const RecordedRun& a, const RecordedRun& b) {
    return compare_runs(judge_run_alone(a, options()), judge_run_alone(b, options()), options());
  };
  CHECK_EXACT("T-182", !wrong_choice(first, 1) && !wrong_choice(other_rule, 1) && !wrong_choice(first, 2));
  CHECK(!wrong_choice(first, 0));
  const RunsDrift same = drift(first, other_rule);
  CHECK(same.verdict == DriftVerdict::bug);
  CHECK(contains(op_of(same, "choice").reason, "by another rule"));
  const RunsDrift moved = drift(first, moved_run);
  CHECK(moved.verdict == DriftVerdict::expected);
  CHECK(contains(op_of(moved, "choice").reason, "1 of 4 choices differ, as the numbers"));
  const std::optional<WrongChoice> wrong = wrong_choice(wrong_run, 1);
  REQUIRE(wrong);
  CHECK(wrong->wrong == 1);
  CHECK(wrong->rows == 4);
  CHECK(wrong->chosen == 5);
  CHECK((wrong->better == 1 || wrong->better == 7));
  CHECK(std::isnan(wrong_choice(none, 1).value().number));
  CHECK(wrong_choice(twice, 2).value().chosen == 7);
  // A run with a wrong choice is wrong alone, and next to itself.
  CHECK(judge_run_alone(wrong_run, options()).judgement.comparison.verdict == Status::violated);
  const RunsDrift itself = drift(wrong_run, wrong_run);
  CHECK(itself.verdict == DriftVerdict::bug);
  CHECK(contains(op_of(itself, "choice").reason, "in the first run the recorded choice is not the largest number"));
  CHECK(contains(op_of(drift(first, wrong_run), "choice").reason, "in the second run the recorded choice"));
}

TEST_CASE("Only values that choices and softmax alone read are taken for logits") {
  const TemporaryFolder folder;
  RecordingWriter writer;
  const Matrix x = rows_of_input(4);
  for (const char* id : {"x", "hidden", "out", "logits", "p"}) writer.value(id, StoredTensor::from(x));
  writer.derived("view", ElementType::f32, {2, 2, width});
  writer.value("i", StoredTensor::from(Tensor<std::int64_t>({4}, {1, 2, 3, 4})));
  writer.record("aten::exp", {"x"}, {"hidden"});
  writer.record("aten::view", {"hidden"}, {"view"});
  writer.record("aten::other", {"view"}, {"out"});
  writer.record("aten::exp", {"x"}, {"logits"});
  writer.record("aten::_softmax", {"logits"}, {"p"});
  writer.record("aten::multinomial", {"p"}, {"i"});
  writer.write(folder.file("run.safetensors"));
  const RecordedRun run(folder.file("run.safetensors"));
  const ChosenFrom chosen(run);
  CHECK_FALSE(chosen.are_chosen_from("hidden"));
  CHECK(chosen.are_chosen_from("out"));
  CHECK(chosen.are_chosen_from("logits"));
  CHECK_FALSE(chosen.are_chosen_from("p"));  // its logits count
}

TEST_CASE("Elements that are not finite in one run alone are a bug, however many the other run has") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor<float> a({3}, {1, nan, 3}), b({3}, {nan, 2, 3});
  DriftOp op;
  op.difference = difference_of({StoredTensor::from(a), StoredTensor::from(b)});
  op.a = op.b = Status::holds;
  CHECK_FALSE(op.difference->is_finite_in_both());
  settle(op, {}, 1);
  CHECK(op.verdict == DriftVerdict::bug);
  CHECK(contains(op.reason, "1 elements are not finite"));
}

TEST_CASE(
    "A value from outside with NaN in one run, with other numbers, or with another part recorded, is not the same") {
  const auto drift_with = [](const std::function<void(RecordingWriter&, Matrix)>& write_bias) {
    const TemporaryFolder folder;
    std::vector<std::string> files = {folder.file("a.safetensors"), folder.file("b.safetensors")};
    const Matrix x = rows_of_input(4);
    for (const std::string& file : files) {
      RecordingWriter writer;
      const Matrix bias = random_matrix({width}, 5);
      Matrix y = x;
      for (std::size_t i = 0; i < y.size(); ++i) y.values[i] += bias.values[i % at(width)];
      writer.value("x", StoredTensor::from(x));
      writer.value("y", StoredTensor::from(y));
      if (file == files.front()) writer.value("bias", StoredTensor::from(bias));
      if (file != files.front()) write_bias(writer, bias);
      writer.record("aten::add", {"x", "bias"}, {"y"}, {}, "sum");
      writer.write(file);
    }
    const RecordedRun run_a(files[0]), run_b(files[1]);
    return compare_runs(judge_run_alone(run_a, options()), judge_run_alone(run_b, options()), options());
  };
  const RunsDrift same =
      drift_with([](RecordingWriter& writer, const Matrix& bias) { writer.value("bias", StoredTensor::from(bias)); });
  CHECK(same.verdict == DriftVerdict::expected);
  const RunsDrift with_nan = drift_with([](RecordingWriter& writer, Matrix bias) {
    bias.values[3] = std::numeric_limits<float>::quiet_NaN();
    writer.value("bias", StoredTensor::from(bias));
  });
  REQUIRE(with_nan.sources.size() == 1);
  CHECK_FALSE(with_nan.sources.front().is_drifted);
  CHECK(with_nan.verdict == DriftVerdict::bug);
  const RunsDrift in_part = drift_with([](RecordingWriter& writer, const Matrix& bias) {
    std::vector<std::int64_t> all(at(width));
    for (std::int64_t i = 0; i < width; ++i) all[at(i)] = i;
    writer.elements("bias", StoredTensor::from(bias), all);
  });
  CHECK_FALSE(in_part.ops.front().has_same_operands);
  CHECK(in_part.verdict == DriftVerdict::expected);  // the results are the same
  DriftOp op;
  op.difference = difference_of({StoredTensor::from(Matrix({1}, {1})), StoredTensor::from(Matrix({1}, {2}))});
  op.a = op.b = Status::holds;
  OpEvidence evidence;
  evidence.is_same_op = true;
  settle(op, evidence, 1);
  CHECK(op.verdict == DriftVerdict::expected);
  evidence.unknown_numbers = "'bias' is not known";
  settle(op, evidence, 1);
  CHECK(op.verdict == DriftVerdict::undecided);
  CHECK(op.reason == "'bias' is not known");
  op.as_b = Status::holds;
  settle(op, evidence, 1);
  CHECK(op.verdict == DriftVerdict::expected);
}

TEST_CASE("A weight that is far off is another number, also where the runs have other batches") {
  Way fault;
  fault.rows = 24;
  fault.weight_factor = 1e4F;
  const RunsDrift drift = drift_of({}, fault);
  CHECK(drift.rows);
  REQUIRE(drift.sources.size() == 1);
  CHECK(drift.sources.front().difference->differing == 1);
  CHECK(drift.verdict == DriftVerdict::bug);
  CHECK(culprit_of(drift) == "fc");
  CHECK(contains(op_of(drift, "fc").reason, "1 of 768 elements of 'w' differ"));
}
