#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "driftbound/c/tolerance.h"
#include "driftbound/model/npy_header.hpp"
#include "support/run_program.hpp"
#include "support/text.hpp"

// The functions for C next to the program: the same numbers, and the same refusals.

using namespace driftbound;
using driftbound::test::TemporaryFolder;

namespace {

struct AnswerInC {
  const driftbound_tolerance_answer* answer = nullptr;
  driftbound_status status = DRIFTBOUND_FAILED;

  explicit AnswerInC(const driftbound_tolerance_request& request) : status(driftbound_tolerance(&request, &answer)) {}
  AnswerInC(const AnswerInC&) = delete;
  AnswerInC& operator=(const AnswerInC&) = delete;
  ~AnswerInC() { driftbound_tolerance_free(answer); }
};

driftbound_tolerance_request request_for(const char* op) {
  driftbound_tolerance_request request = driftbound_tolerance_defaults();
  request.op = op;
  return request;
}

/// An array that the program reads from a file, and C from memory.
struct ArrayInC {
  std::vector<float> numbers;
  std::vector<std::int64_t> shape;

  ArrayInC(std::vector<std::int64_t> extents, double step) : shape(std::move(extents)) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    for (std::int64_t i = 0; i < count; ++i)
      numbers.push_back(static_cast<float>(std::sin(step * static_cast<double>(i + 1))));
  }
  driftbound_array in_c() const { return {numbers.data(), DRIFTBOUND_FLOAT32, shape.data(), shape.size()}; }
  std::string npy() const {
    std::string text = npy_header("<f4", shape);
    return text.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  }
};

/// An infinite number is text in JSON.
double number_in(const nlohmann::json& value) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  return value.is_string() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

bool is_same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

void check_same(const driftbound_tolerance_request& request, const std::string& options) {
  CAPTURE(options);
  const ProgramResult program = run_program("tolerance " + std::string(request.op) + " " + options + " --json -");
  const AnswerInC in_c(request);
  INFO(program.err);
  REQUIRE(program.status == static_cast<int>(in_c.status));
  REQUIRE(in_c.answer != nullptr);
  const nlohmann::json json = nlohmann::json::parse(program.out);
  CHECK(json["formula"] == in_c.answer->formula);
  CHECK(json["operands"] == in_c.answer->operands);
  REQUIRE(json["parts"].size() == in_c.answer->part_count);
  CHECK(json["parts"][0]["assumptions"].size() == in_c.answer->assumption_count);
  for (std::size_t i = 0; i < in_c.answer->part_count; ++i) {
    const nlohmann::json& expected = json["parts"][i];
    const driftbound_tolerance_part& part = in_c.answer->parts[i];
    CHECK(expected["data"] == part.data);
    CHECK(expected["kernels"] == part.kernels);
    CHECK(expected["device"] == (part.device == nullptr ? nlohmann::json() : nlohmann::json(part.device)));
    CHECK(expected["guarantee"] == part.guarantee);
    CHECK(is_same(number_in(expected["proven"]), part.proven));
    CHECK(is_same(number_in(expected["by_chance"]), part.by_chance));
    CHECK(is_same(number_in(expected["estimate"]), part.estimate));
    CHECK(is_same(number_in(expected["largest_result"]), part.largest_result));
    CHECK(expected["shape"].get<std::vector<std::int64_t>>() ==
          std::vector<std::int64_t>(part.shape, part.shape + part.axes));
    double largest = 0.0;
    for (std::size_t j = 0; j < part.elements; ++j) largest = std::fmax(largest, part.proven_of[j]);
    CHECK(largest == part.proven);
  }
}

void check_refused_in_c(const driftbound_tolerance_request& request, const std::string& why) {
  CAPTURE(why);
  const AnswerInC in_c(request);
  CHECK(in_c.status == DRIFTBOUND_BAD_INPUT);
  CHECK(in_c.answer == nullptr);
  CHECK_MESSAGE(contains(driftbound_message(), why), driftbound_message());
}

}  // namespace

TEST_CASE("tolerances in C are those of the program, for operands that are made" * doctest::test_suite("campaign")) {
  using Change = std::function<void(driftbound_tolerance_request&)>;
  struct Question {
    const char* op;
    Change change;
    const char* options;
  };
  static const double epsilon = 0.125, scale = -0.5;
  const std::vector<Question> questions = {
      {"gemm", [](auto& r) { r.k = 300; }, "--k 300"},
      {"gemm", [](auto& r) { r.k = 64, r.bias = 1, r.in = r.out = "bf16"; }, "--k 64 --bias --in bf16 --out bf16"},
      {"gemm", [](auto& r) { r.k = 64, r.order = "blocked:8+fma"; }, "--k 64 --order blocked:8+fma"},
      {"conv", [](auto& r) { r.k = 64, r.split_k = 4, r.in = "tf32"; }, "--k 64 --split-k 4 --in tf32"},
      {"gemm", [](auto& r) { r.k = 128, r.in = "mxfp8"; }, "--k 128 --in mxfp8"},
      {"gemm", [](auto& r) { r.k = 64, r.in = "fp8_e4m3", r.device = "h100"; }, "--k 64 --in fp8_e4m3 --device h100"},
      {"gemm", [](auto& r) { r.k = 64, r.magnitude = 100.0, r.out = "fp16"; }, "--k 64 --magnitude 100 --out fp16"},
      {"all-reduce", [](auto& r) { r.k = 8, r.acc = "bf16"; }, "--k 8 --acc bf16"},
      {"softmax", [](auto& r) { r.k = 40, r.seed = 7, r.functions = "glibc"; }, "--k 40 --seed 7 --functions glibc"},
      {"attention", [](auto& r) { r.k = 8, r.keys = 20, r.causal = 1, r.scale = &scale; },
       "--k 8 --keys 20 --causal --scale -0.5"},
      {"layernorm", [](auto& r) { r.k = 40, r.failure_probability = 1e-3; }, "--k 40 --failure-probability 1e-3"},
      {"rmsnorm", [](auto& r) { r.k = 40, r.epsilon = &epsilon, r.threads = 2; }, "--k 40 --epsilon 0.125 --threads 2"},
      {"gelu", [](auto& r) { r.k = 16, r.magnitude = 3.0; }, "--k 16 --magnitude 3"},
      {"silu-and-mul", [](auto& r) { r.k = 16, r.out = "bf16", r.stored_inside = 1; },
       "--k 16 --out bf16 --stored-inside"},
      {"rotary", [](auto& r) { r.k = 16; }, "--k 16"},
  };
  for (const Question& question : questions) {
    driftbound_tolerance_request request = request_for(question.op);
    question.change(request);
    check_same(request, question.options);
  }
}

TEST_CASE("tolerances in C are those of the program for data, and data are not changed") {
  const TemporaryFolder folder;
  const ArrayInC a({3, 20}, 0.7), b({20, 2}, 1.3);
  folder.write("a.npy", a.npy());
  folder.write("b.npy", b.npy());
  const std::vector<float> before = a.numbers;
  const driftbound_array data[] = {a.in_c(), b.in_c()};
  driftbound_tolerance_request request = request_for("gemm");
  request.data = data;
  request.data_count = 2;
  check_same(request, "--data " + folder.file("a.npy") + " " + folder.file("b.npy"));
  CHECK(a.numbers == before);
  const AnswerInC in_c(request);
  REQUIRE(in_c.status == DRIFTBOUND_OK);
  double exact = 0.0;
  for (std::size_t i = 0; i < 20; ++i)
    exact += static_cast<double>(a.numbers[i]) * static_cast<double>(b.numbers[2 * i]);
  CHECK(std::abs(in_c.answer->parts[0].exact[0] - exact) <= 1e-14);
}

TEST_CASE("a mask of attention in C is booleans, or numbers that are added to the scores") {
  const ArrayInC q({1, 1, 2, 4}, 0.3), k({1, 1, 3, 4}, 0.5), v({1, 1, 3, 4}, 0.9);
  const std::int64_t shape[] = {2, 3};
  const unsigned char shown[] = {1, 0, 1, 1, 1, 0};
  const float infinity = std::numeric_limits<float>::infinity();
  const float added[] = {0.0F, -infinity, 0.0F, 0.0F, 0.0F, -infinity}, biased[] = {0.0F, -infinity, 9.0F, 0, 0, 0};
  const auto first_result = [&](const void* numbers, driftbound_type type, std::size_t count) {
    const driftbound_array data[] = {q.in_c(), k.in_c(), v.in_c(), {numbers, type, shape, 2}};
    driftbound_tolerance_request request = request_for("attention");
    request.data = data;
    request.data_count = count;
    const AnswerInC in_c(request);
    INFO(driftbound_message());
    REQUIRE(in_c.status == DRIFTBOUND_OK);
    return in_c.answer->parts[0].exact[0];
  };
  const double masked = first_result(shown, DRIFTBOUND_BOOL, 4);
  CHECK(masked == first_result(added, DRIFTBOUND_FLOAT32, 4));
  CHECK(masked != first_result(nullptr, DRIFTBOUND_BOOL, 3));
  // With 9 added to its score the last key has nearly all of the weight.
  CHECK(std::abs(first_result(biased, DRIFTBOUND_FLOAT32, 4) - static_cast<double>(v.numbers[8])) < 1e-3);
}

TEST_CASE("mistakes in C have a status and a message, and NaN is refused") {
  const double nan = std::nan("");
  const auto gemm = [](const std::function<void(driftbound_tolerance_request&)>& change) {
    driftbound_tolerance_request request = request_for("gemm");
    request.k = 4;
    change(request);
    return request;
  };
  check_refused_in_c(driftbound_tolerance_defaults(), "`op` is NULL: name one of gemm");
  check_refused_in_c(request_for("gem"), "there is no op 'gem'");
  check_refused_in_c(request_for("gemm"), "give --k");
  check_refused_in_c(gemm([](auto& r) { r.k = -4; }), "--k is -4");
  check_refused_in_c(gemm([&](auto& r) { r.magnitude = nan; }), "--magnitude: give a number above 0");
  check_refused_in_c(gemm([&](auto& r) { r.failure_probability = nan; }), "--failure-probability");
  check_refused_in_c(gemm([&](auto& r) { r.scale = &nan; }), "gemm has no scale");
  check_refused_in_c(gemm([](auto& r) { r.in = "fp12"; }), "--in fp12: choose among");
  check_refused_in_c(gemm([](auto& r) { r.order = "zigzag"; }), "zigzag");
  check_refused_in_c(gemm([](auto& r) { r.order = "pairwise", r.split_k = 2; }), "leave one of them out");
  check_refused_in_c(gemm([](auto& r) { r.split_k = -1; }), "--split-k is -1");
  check_refused_in_c(gemm([](auto& r) { r.threads = 0; }), "--threads: give a number from 1 on");
  check_refused_in_c(gemm([](auto& r) { r.functions = "none such"; }), "none such");
  check_refused_in_c(gemm([](auto& r) { r.data_count = 2; }), "`data` is NULL");
  check_refused_in_c(gemm([](auto& r) { r.device = "h1000"; }), "no simulated device");
  const AnswerInC without_unit(gemm([](auto& r) { r.in = "bf16", r.device = "v100"; }));
  CHECK(without_unit.status == DRIFTBOUND_NOT_AVAILABLE);
  CHECK(without_unit.answer == nullptr);
  driftbound_tolerance_request norm = request_for("rmsnorm");
  norm.k = 4;
  norm.epsilon = &nan;
  check_refused_in_c(norm, "--epsilon: give a finite number above 0");
  driftbound_tolerance_request attention = request_for("attention");
  attention.k = attention.keys = 4;
  attention.scale = &nan;
  check_refused_in_c(attention, "--scale: give a finite number that is not 0");
  const double zero = 0.0;
  attention.scale = &zero;
  check_refused_in_c(attention, "--scale: give a finite number that is not 0");
}

TEST_CASE("mistakes in arrays of C have a status and a message") {
  const float numbers[] = {1.0F, 2.0F, std::nanf(""), 1e30F};
  const std::int64_t shape[] = {2, 2}, negative[] = {2, -2};
  const auto gelu = [](driftbound_array array) {
    driftbound_tolerance_request request = request_for("gelu");
    request.data = &array;
    request.data_count = 1;
    request.in = "bf16";
    const AnswerInC in_c(request);
    CHECK(in_c.status == DRIFTBOUND_BAD_INPUT);
    CHECK(in_c.answer == nullptr);
    return std::string(driftbound_message());
  };
  CHECK(contains(gelu({numbers, DRIFTBOUND_FLOAT32, shape, 2}), "finite floating-point numbers"));
  CHECK(contains(gelu({nullptr, DRIFTBOUND_FLOAT32, shape, 2}), "its numbers are NULL"));
  CHECK(contains(gelu({numbers, DRIFTBOUND_FLOAT32, nullptr, 2}), "its shape is NULL"));
  CHECK(gelu({numbers, DRIFTBOUND_FLOAT32, negative, 2}) != "");
  CHECK(contains(gelu({numbers, DRIFTBOUND_BOOL, shape, 2}), "finite floating-point numbers"));
  CHECK(contains(gelu({numbers, static_cast<driftbound_type>(7), shape, 2}), "none of driftbound_type"));
  driftbound_tolerance_request fp16 = request_for("gelu");
  const std::int64_t one[] = {1};
  const driftbound_array large = {numbers + 3, DRIFTBOUND_FLOAT32, one, 1};
  fp16.in = "fp16";
  fp16.data = &large;
  fp16.data_count = 1;
  check_refused_in_c(fp16, "above the largest one of fp16");
  const driftbound_tolerance_request request = request_for("gelu");
  CHECK(driftbound_tolerance(&request, nullptr) == DRIFTBOUND_BAD_INPUT);
  const driftbound_tolerance_answer* answer = nullptr;
  CHECK(driftbound_tolerance(nullptr, &answer) == DRIFTBOUND_BAD_INPUT);
  CHECK(contains(driftbound_message(), "the request is NULL"));
  driftbound_tolerance_free(nullptr);
}
