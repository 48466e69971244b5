#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "analysis/drift.hpp"
#include "analysis/drift_report.hpp"
#include "analysis/drift_tolerances.hpp"
#include "analysis/drift_verdict.hpp"
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
      float sum = 0.0F;
      for (std::int64_t step = 0; step < width; ++step) {
        const std::int64_t k = way.backwards ? width - 1 - step : step;
        sum += way.read(x.values[at(i * width + k)]) * w.values[at(j * width + k)];
      }
      y.values[at(i * w.shape[0] + j)] = sum;
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

RunsDrift drift_of(const Way& a, const Way& b) {
  const TemporaryFolder folder;
  write_run(folder.file("a.safetensors"), a);
  write_run(folder.file("b.safetensors"), b);
  const RecordedRun run_a(folder.file("a.safetensors")), run_b(folder.file("b.safetensors"));
  return compare_runs(judge_run_alone(run_a, options()), judge_run_alone(run_b, options()), options());
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

TEST_CASE("Faults are bugs at the op that has them") {
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

TEST_CASE("Weights that are rounded to another format are suspicious, as no bound is exceeded") {
  const TemporaryFolder folder;
  const std::string a = folder.file("a.safetensors"), b = folder.file("b.safetensors");
  for (const bool is_rounded : {false, true}) {
    RecordingWriter writer;
    const Matrix x = rows_of_input(4);
    Matrix s = random_matrix({width}, 5), y(x.shape);
    for (float& value : s.values)
      if (is_rounded)
        value =
            static_cast<float>(round_to(static_cast<double>(value), format(FormatId::bf16), Rounding::nearest_even));
    for (std::size_t i = 0; i < y.size(); ++i) y.values[i] = x.values[i] * s.values[i % at(width)];
    writer.value("x", StoredTensor::from(x));
    writer.value("s", StoredTensor::from(s));
    writer.value("y", StoredTensor::from(y));
    writer.record("aten::mul", {"x", "s"}, {"y"}, {}, "scale");
    writer.write(is_rounded ? b : a);
  }
  const RecordedRun run_a(a), run_b(b);
  const RunsDrift drift = compare_runs(judge_run_alone(run_a, options()), judge_run_alone(run_b, options()), options());
  CHECK(drift.verdict == DriftVerdict::suspicious);
  CHECK(contains(drift.ops.at(0).reason, "reads 's' rounded to bf16"));
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
  CHECK_THROWS_WITH_AS(text_of(tolerances, ToleranceFile::numpy), doctest::Contains("more than 4096"), Unsupported);
  CHECK_THROWS_WITH_AS(text_of({}, ToleranceFile::numpy), doctest::Contains("no output has a bound"), Unsupported);
  CHECK_THROWS_WITH_AS(tolerance_file_of("jax"), doctest::Contains("torch, numpy, polygraphy, json"), InvalidArgument);
}

TEST_CASE("Sets of the largest numbers are compared, of equal numbers the first ones") {
  const Tensor<float> a({3, 4}, {1, 2, 3, 4, 1, 1, 1, 1, 9, 5, 5, 0}),
      b({3, 4}, {3.5F, 2, 3, 4, 1, 1, 1, 2, 9, 5, 6, 0});
  const Decisions decisions = decisions_of("y", {StoredTensor::from(a), StoredTensor::from(b)}, nullptr, nullptr, 2);
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
  const Decisions decisions = decisions_of("y", {StoredTensor::from(z), StoredTensor::from(z)}, &of_a, &of_b, 2);
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
  const Decisions less = decisions_of("y", {StoredTensor::from(z), StoredTensor::from(z)}, &of_a, &of_b, 2);
  CHECK(less.by_flip.count(MayFlip::cannot) == 0);
  CHECK_FALSE(less.log_ratio_at_most);
}

TEST_CASE("Choices of two runs are compared row by row, and those of the exact network are proven") {
  const Tensor<float> a({4, 3}, {1, 2, 3, 5, 5, 0, 0, 2, 1.5F, 9, 0, 0});
  Tensor<float> b = a;
  b.values[8] = 2.5F;  // row 2: another choice
  b.values[0] = 1.25F;
  KnownNumbers known = known_as(a);
  for (std::size_t i = 0; i < 12; ++i)
    known.exact.values[i].radius = Magnitude(i < 3 ? 0.75 : 0.01);  // row 0: not certain
  const Decisions decisions = decisions_of("y", {StoredTensor::from(a), StoredTensor::from(b)}, &known, nullptr, 2);
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
    return decisions_of("y", {StoredTensor::from(a), StoredTensor::from(b)}, &known, nullptr, 2).certain.value();
  };
  CHECK(certain_if_the_next_is_within(1.0) == 0);
  CHECK(certain_if_the_next_is_within(1.0 - 0x1p-51) == 1);  // up to the number next below 3
  CHECK(decisions.largest_log_ratio > 0.1);
  CHECK(decisions.largest_divergence > decisions.mean_divergence);
  const AlignedNumbers same{StoredTensor::from(a), StoredTensor::from(a)};
  CHECK(decisions_of("y", same, nullptr, nullptr, 2).estimate_of_flips == 0.0);
  CHECK_FALSE(decisions_of("y", same, nullptr, nullptr, 2).certain);
  CHECK(decisions.by_flip == std::map<MayFlip, std::int64_t>{{MayFlip::unknown, 4}});
  CHECK_FALSE(decisions.log_ratio_at_most);
  // Row 0 keeps {1, 2}, row 1 the first two of 5, 5, 0, row 2 {1, 2}, row 3 {0, 1} as of 0 and 0 the first counts.
  CHECK(decisions.top == 2);
  CHECK(decisions.other_sets == 0);
  CHECK(decisions_of("y", same, nullptr, nullptr, 3).top == 0);
  REQUIRE(decisions.flipped[0].largest_b.size() == 3);
  CHECK(decisions.flipped[0].largest_b[0].index == 2);
  CHECK(decisions.flipped[0].largest_b[0].number == 2.5);
  CHECK(decisions.flipped[0].largest_a[2].index == 0);
}

TEST_CASE("Choices that differ on the same numbers are another rule, and those on other numbers follow them") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& file, bool is_moved, std::int64_t choice) {
    RecordingWriter writer;
    const Matrix x = rows_of_input(4);
    Matrix y = x;
    for (float& value : y.values) value = std::exp(value);
    if (is_moved) y.values[3] = std::nextafter(y.values[3], 9.0F);
    writer.value("x", StoredTensor::from(x));
    writer.value("y", StoredTensor::from(y));
    writer.value("i", StoredTensor::from(Tensor<std::int64_t>({4}, {choice, 2, 3, 4})));
    writer.record("aten::exp", {"x"}, {"y"}, {}, "e");
    writer.record("aten::argmax", {"y"}, {"i"}, {{"dim", -1}}, "choice");
    writer.write(file);
  };
  const std::string a = folder.file("a.safetensors"), b = folder.file("b.safetensors"),
                    c = folder.file("c.safetensors");
  write(a, false, 1);
  write(b, false, 7);
  write(c, true, 7);
  const RecordedRun run_a(a), run_b(b), run_c(c);
  const JudgedRun of_a = judge_run_alone(run_a, options());
  const RunsDrift same = compare_runs(of_a, judge_run_alone(run_b, options()), options());
  CHECK(same.verdict == DriftVerdict::bug);
  CHECK(contains(op_of(same, "choice").reason, "by another rule"));
  const RunsDrift moved = compare_runs(of_a, judge_run_alone(run_c, options()), options());
  CHECK(moved.verdict == DriftVerdict::expected);
  CHECK(contains(op_of(moved, "choice").reason, "1 of 4 choices differ, as the numbers"));
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
