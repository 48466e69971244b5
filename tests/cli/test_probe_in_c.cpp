#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "driftbound/c/probe.h"
#include "driftbound/trace/arithmetic.hpp"
#include "support/json_schema.hpp"
#include "support/run_program.hpp"
#include "support/text.hpp"

// Kernels written here, whose orders are known, through the functions for C; and next to what the program says.

using namespace driftbound;

namespace {

/// What kernels of these tests do, and what they saw.
struct Kernel {
  std::int64_t block = 0;  ///< of a chain of fused products; 0: one chain, products rounded
  std::int64_t calls = 0, fails_at = -1;
  void (*fault)(float* a, float* b, float* c) = nullptr;
  std::thread::id thread = {};
};

float chain(const Kernel& kernel, std::int64_t first, std::int64_t last, const float* a, const float* b,
            std::int64_t step) {
  volatile float sum = a[first] * b[first * step];
  for (std::int64_t t = first + 1; t < last; ++t) {
    volatile float product = a[t] * b[t * step];
    const float before = sum;
    sum = kernel.block > 0 ? std::fma(a[t], b[t * step], before) : before + product;
  }
  return sum;
}

int multiply(void* context, std::int64_t m, std::int64_t k, std::int64_t n, const float* a, const float* b, float* c) {
  auto& kernel = *static_cast<Kernel*>(context);
  kernel.thread = std::this_thread::get_id();
  if (kernel.calls++ == kernel.fails_at) return 7;
  const std::int64_t block = kernel.block > 0 ? kernel.block : k;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      volatile float sum = chain(kernel, 0, std::min(block, k), a + i * k, b + j, n);
      for (std::int64_t first = block; first < k; first += block)
        sum = sum + chain(kernel, first, std::min(first + block, k), a + i * k, b + j, n);
      c[i * n + j] = sum;
    }
  if (kernel.fault != nullptr) kernel.fault(const_cast<float*>(a), const_cast<float*>(b), c);
  return 0;
}

int add_up(void* context, std::int64_t m, std::int64_t k, const float* a, float* c) {
  auto& kernel = *static_cast<Kernel*>(context);
  const float one = 1.0F;
  for (std::int64_t i = 0; i < m; ++i) c[i] = chain(kernel, 0, k, a + i * k, &one, 0);
  if (kernel.fault != nullptr) kernel.fault(const_cast<float*>(a), nullptr, c);
  return 0;
}

struct AnswerInC {
  const driftbound_probe_answer* answer = nullptr;
  driftbound_status status = DRIFTBOUND_FAILED;

  explicit AnswerInC(const driftbound_probe_request& request) : status(driftbound_probe(&request, &answer)) {}
  AnswerInC(const AnswerInC&) = delete;
  AnswerInC& operator=(const AnswerInC&) = delete;
  ~AnswerInC() { driftbound_probe_free(answer); }
};

driftbound_probe_request request_for(Kernel& kernel) {
  driftbound_probe_request request = driftbound_probe_defaults();
  request.multiply = multiply;
  request.context = &kernel;
  request.m = 16;
  request.k = 40;
  request.n = 3;
  return request;
}

/// What the message says of a kernel that is refused.
std::string refusal(const driftbound_probe_request& request) {
  const AnswerInC in_c(request);
  CHECK(in_c.status == DRIFTBOUND_BAD_INPUT);
  CHECK(in_c.answer == nullptr);
  return driftbound_message();
}

std::string refusal_of(void (*fault)(float*, float*, float*)) {
  Kernel kernel;
  kernel.fault = fault;
  return refusal(request_for(kernel));
}

}  // namespace

TEST_CASE("a kernel of C has the order it was written in, as the program says of the same order") {
  Kernel kernel{8};
  driftbound_probe_request request = request_for(kernel);
  request.name = "blocks of 8";
  const std::int64_t batch[] = {1, 16};
  request.batch = batch;
  request.batch_count = 2;
  const AnswerInC in_c(request);
  INFO(driftbound_message());
  REQUIRE(in_c.status == DRIFTBOUND_OK);
  CHECK(in_c.answer->verdict == DRIFTBOUND_PROBE_CONFIRMED);
  REQUIRE(in_c.answer->shape_count == 2);
  const driftbound_probed_shape& shape = in_c.answer->shapes[1];
  CHECK((shape.m == 16 && shape.k == 40 && shape.n == 3));
  CHECK(std::string(shape.order) == "blocked:8+fma");
  CHECK(shape.height == 7 + 4);
  CHECK(shape.classes == 1);
  CHECK(in_c.answer->shapes[0].calls + shape.calls == kernel.calls);
  CHECK(kernel.thread == std::this_thread::get_id());
  CHECK(contains(shape.svg, "<svg"));
  CHECK(shape.no_arithmetic == nullptr);
  const ArithmeticModel model = arithmetic_from_json(shape.arithmetic);
  CHECK(to_string(model.order) == "blocked:8+fma");
  CHECK(model.name == "blocks of 8");
  CHECK(model.evidence == Evidence::measured);
  CHECK(contains(shape.words, "5 blocks, 8 consecutive terms in each"));
  CHECK(contains(in_c.answer->summary, std::string("blocks of 8: FOUND, ") + shape.words));
  CHECK(contains(in_c.answer->text, "order              blocked:8+fma"));

  const auto json = nlohmann::json::parse(in_c.answer->json);
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/probe-1.json", json) == "");
  CHECK(json["kernel"] == "blocks of 8");
  const ProgramResult program =
      run_program("probe --backend cpu --order blocked:8+fma --shape 1,40,3 --batch 1,16 --json -");
  REQUIRE(program.status == 0);
  const auto by_program = nlohmann::json::parse(program.out);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(json["shapes"][i]["findings"]["classes"] == by_program["shapes"][i]["findings"]["classes"]);
}

TEST_CASE("an order that is expected and not found differs, in C as in the program") {
  Kernel kernel;
  driftbound_probe_request request = request_for(kernel);
  request.expect = "sequential";
  const AnswerInC as_expected(request);
  CHECK(as_expected.status == DRIFTBOUND_OK);
  request.expect = "";
  CHECK(contains(refusal(request), "--expect is empty"));
  request.expect = "pairwise";
  const AnswerInC other(request);
  CHECK(other.status == DRIFTBOUND_NOT_CONFIRMED);
  REQUIRE(other.answer != nullptr);
  CHECK(other.answer->verdict == DRIFTBOUND_PROBE_DIFFERS);
  CHECK(std::string(other.answer->shapes[0].order) == "sequential");
  CHECK(contains(other.answer->summary, "DIFFERS"));
}

TEST_CASE("sums of rows in C, and repeated calls") {
  Kernel kernel;
  driftbound_probe_request request = request_for(kernel);
  request.multiply = nullptr;
  request.add_up = add_up;
  const AnswerInC sums(request);
  INFO(driftbound_message());
  REQUIRE(sums.status == DRIFTBOUND_OK);
  CHECK(std::string(sums.answer->shapes[0].order) == "sequential");
  CHECK(sums.answer->shapes[0].n == 1);

  request.determinism = 5;
  const AnswerInC same(request);
  REQUIRE(same.status == DRIFTBOUND_OK);
  CHECK(same.answer->shapes[0].calls == 5);
  CHECK(same.answer->shapes[0].differing_calls == 0);
  CHECK(same.answer->shapes[0].order == nullptr);
  CHECK(same.answer->shapes[0].svg == nullptr);
  CHECK(same.answer->shapes[0].arithmetic == nullptr);
  CHECK(contains(same.answer->shapes[0].no_arithmetic, "--determinism finds no arithmetic"));
  kernel.fault = [](float*, float*, float* c) {
    static int calls = 0;
    if (++calls == 3) c[1] += 1.0F;
  };
  const AnswerInC other(request);
  CHECK(other.status == DRIFTBOUND_NOT_CONFIRMED);
  REQUIRE(other.answer != nullptr);
  CHECK(other.answer->verdict == DRIFTBOUND_PROBE_NOT_DETERMINISTIC);
  CHECK(other.answer->shapes[0].differing_calls == 1);
}

TEST_CASE("what a kernel of C does wrong is said, and nothing is thrown through it") {
  Kernel failing;
  failing.fails_at = 2;
  const std::string message = refusal(request_for(failing));
  CHECK(contains(message, "the kernel failed (call 3, [16, 40] x [40, 3]): it returned 7"));
  CHECK(failing.calls == 3);
  CHECK(contains(refusal_of([](float*, float*, float*) { throw std::runtime_error("no device"); }),
                 "it threw an exception: no device"));
  CHECK(contains(refusal_of([](float*, float*, float*) { throw 42; }), "that is no std::exception"));
  CHECK(contains(refusal_of([](float* a, float*, float*) { a[3] += 1.0F; }), "it changed A"));
  CHECK(contains(refusal_of([](float*, float* b, float*) { b[3] += 1.0F; }), "it changed B"));
  CHECK(contains(refusal_of([](float*, float*, float* c) { c[5] = std::nanf(""); }),
                 "element [1, 2] of the result is NaN"));
  CHECK(contains(refusal_of([](float*, float*, float* c) { c[5] = std::numeric_limits<float>::infinity(); }),
                 "element [1, 2] of the result is infinite"));
  Kernel broken;
  broken.fault = [](float*, float*, float* c) { c[5] = std::nanf(""); };
  driftbound_probe_request repeated = request_for(broken);
  repeated.determinism = 3;
  CHECK(contains(refusal(repeated), "element [1, 2] of the result is NaN"));
  const std::string environment = refusal_of([](float*, float*, float*) { std::fesetround(FE_UPWARD); });
  std::fesetround(FE_TONEAREST);
  CHECK(contains(environment, "it changed the floating-point environment of its thread"));

  driftbound_probe_request idle = driftbound_probe_defaults();
  idle.multiply = [](void*, std::int64_t, std::int64_t, std::int64_t, const float*, const float*, float*) { return 0; };
  CHECK(contains(refusal(idle), "it wrote no number to element 0 of C"));
  idle.multiply = [](void*, std::int64_t m, std::int64_t k, std::int64_t n, const float* a, const float* b, float* c) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t t = 0; t < k; ++t) c[i * n + j] += a[i * k + t] * b[t * n + j];
    return 0;
  };
  CHECK(contains(refusal(idle), "or added to what is there"));
}

TEST_CASE("mistakes in a request of C have a status and a message") {
  Kernel kernel;
  const auto with = [&](void (*change)(driftbound_probe_request&)) {
    driftbound_probe_request request = request_for(kernel);
    change(request);
    return refusal(request);
  };
  CHECK(contains(refusal(driftbound_probe_defaults()), "name one kernel"));
  CHECK(contains(with([](auto& r) { r.add_up = add_up; }), "name one kernel"));
  CHECK(contains(with([](auto& r) { r.m = 0; }), "every extent is 1 or more"));
  CHECK(contains(with([](auto& r) { r.k = -3; }), "every extent is 1 or more"));
  CHECK(contains(with([](auto& r) { r.n = std::int64_t{1} << 40; }), "more than 2^31 numbers"));
  CHECK(contains(with([](auto& r) { r.batch_count = 1; }), "`batch` is NULL"));
  CHECK(contains(with([](auto& r) { r.expect = "zigzag"; }), "zigzag"));
  CHECK(contains(with([](auto& r) { r.expect = "unknown"; }), "name an order that says which sums are formed"));
  CHECK(contains(with([](auto& r) { r.determinism = 1; }), "--determinism is 1"));
  CHECK(contains(with([](auto& r) { r.determinism = -2; }), "--determinism is -2"));
  CHECK(contains(with([](auto& r) { r.determinism = 2, r.expect = "pairwise"; }), "--determinism and --expect"));
  CHECK(contains(with([](auto& r) { r.calls = 0; }), "--calls is 0"));
  CHECK(contains(with([](auto& r) { r.seconds = std::nan(""); }), "--seconds: give a number above 0"));
  CHECK(kernel.calls == 0);
  const driftbound_probe_request request = request_for(kernel);
  CHECK(driftbound_probe(&request, nullptr) == DRIFTBOUND_BAD_INPUT);
  CHECK(contains(driftbound_message(), "probe: the place for the answer is NULL"));
  const driftbound_probe_answer* answer = nullptr;
  CHECK(driftbound_probe(nullptr, &answer) == DRIFTBOUND_BAD_INPUT);
  CHECK(contains(driftbound_message(), "probe: the request is NULL"));
  driftbound_probe_free(nullptr);
}
