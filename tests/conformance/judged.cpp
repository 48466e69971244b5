#include "conformance/judged.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/judge.hpp"
#include "driftbound/num/format.hpp"

namespace conformance {
namespace {

using analysis::Status;

struct Verdict {
  Status status = Status::undecided;
  bool is_finite = true;

  bool passes() const { return status == Status::holds || status == Status::approaches; }
};

Verdict verdict_of(const Backend& backend, const OpCase& one) {
  const Graph graph = tests::graph_of(one.op, one.operands);
  const Trace trace = backend.run(graph, tests::inputs_of(one.operands), {});
  Verdict verdict;
  verdict.status = analysis::judge(graph, trace, {}).comparison.verdict;
  const std::vector<double> y = trace.layers.at(0).output.to_double().values;
  verdict.is_finite = std::all_of(y.begin(), y.end(), [](double x) { return std::isfinite(x); });
  return verdict;
}

}  // namespace

void check_within_bounds(const Backend& backend) {
  CAPTURE(backend.name);
  std::mt19937_64 random(74);
  for (const OpCase& one : tests::every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const Verdict verdict = verdict_of(backend, one);
    CAPTURE(std::string(analysis::name_of(verdict.status)));
    CHECK(verdict.is_finite);
    CHECK(verdict.passes());
  }
}

void check_extremes(const Backend& backend) {
  CAPTURE(backend.name);
  const Format& numbers = format(backend.arithmetic.accumulator);
  const std::vector<double> extremes = {0.0,
                                        -0.0,
                                        numbers.smallest_subnormal,
                                        -3.0 * numbers.smallest_subnormal,
                                        numbers.smallest_normal,
                                        -numbers.smallest_normal,
                                        numbers.largest,
                                        -numbers.largest,
                                        std::sqrt(numbers.largest),
                                        0.5};
  std::mt19937_64 random(75);
  int passed = 0;
  for (OpCase one : tests::every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    for (Tensor<double>& operand : one.operands)
      for (double& x : operand.values)
        if (random() % 2 == 0) x = extremes[random() % extremes.size()];
    const Verdict verdict = verdict_of(backend, one);
    CHECK(verdict.status != Status::violated);
    if (!verdict.is_finite) CHECK(!verdict.passes());
    passed += verdict.passes() ? 1 : 0;
  }
  CHECK(passed > 20);
}

void check_nothing_passes_by_nan(const Backend& backend) {
  CAPTURE(backend.name);
  std::mt19937_64 random(76);
  int not_finite = 0;
  for (OpCase one : tests::every_op(random)) {
    CAPTURE(std::string(name_of(one.op)));
    const double infinity = std::numeric_limits<double>::infinity();
    one.operands[0].values[0] = not_finite % 2 == 0 ? std::nan("") : infinity;
    const Verdict verdict = verdict_of(backend, one);
    if (verdict.is_finite) continue;
    ++not_finite;
    CHECK(!verdict.passes());
  }
  CHECK(not_finite > 50);
}

void check_judged(const Backend& backend) {
  check_within_bounds(backend);
  check_extremes(backend);
  check_nothing_passes_by_nan(backend);
}

}  // namespace conformance
