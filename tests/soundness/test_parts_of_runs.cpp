#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/judge.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "soundness/random.hpp"
#include "soundness/random_networks.hpp"
#include "soundness/random_ops.hpp"

// Runs that are judged part by part, or layer by layer, are judged as whole ones.

using namespace driftbound;
using namespace driftbound::analysis;
using namespace driftbound::soundness;

namespace {

const std::vector<BoundRequest> of_single_layers = {BoundKind::componentwise, BoundKind::partial_sums,
                                                    BoundKind::order_aware, BoundKind::running};

std::vector<Case> cases() {
  std::vector<Case> all;
  Random random(23);
  for (const Family family : all_families()) all.push_back(random_case(family, random.bits()));
  for (const OpFamily family : all_op_families()) all.push_back(random_op_case(family, random.bits()));
  return all;
}

JudgeOptions options_with(std::vector<BoundRequest> bounds) {
  JudgeOptions options;
  options.bounds = std::move(bounds);
  return options;
}

void check_same(const ScopeSummary& one, const ScopeSummary& other) {
  CHECK(one.elements == other.elements);
  CHECK(one.non_finite == other.non_finite);
  CHECK(one.max_error == doctest::Approx(other.max_error).epsilon(1e-9));
  for (const BoundSummary& bound : other.bounds) {
    const BoundSummary* const same = find_bound(one, bound.kind);
    REQUIRE(same != nullptr);
    CHECK(same->max_bound == bound.max_bound);
    CHECK(same->checked == bound.checked);
    CHECK(same->violations == bound.violations);
    CHECK(same->undecided == bound.undecided);
    CHECK(same->infinite == bound.infinite);
  }
}

}  // namespace

TEST_CASE("layers that are judged alone have the errors and bounds that they have in the whole network") {
  std::size_t layers = 0;
  for (const Case& one : cases()) {
    CAPTURE(one.graph.name);
    const Trace trace = evaluate(one);
    const Comparison alone = judge(one.graph, trace, options_with(of_single_layers)).comparison;
    std::vector<BoundRequest> more = of_single_layers;
    more.emplace_back(BoundKind::forward);
    const Comparison whole = judge(one.graph, trace, options_with(more)).comparison;
    REQUIRE(alone.layers.size() == whole.layers.size());
    CHECK(alone.samples == whole.samples);
    CHECK(alone.outputs.empty());
    for (std::size_t i = 0; i < alone.layers.size(); ++i) {
      CAPTURE(alone.layers[i].name);
      CHECK(alone.layers[i].name == whole.layers[i].name);
      CHECK(alone.layers[i].op == whole.layers[i].op);
      CHECK(alone.layers[i].accumulated.elements == 0);
      check_same(alone.layers[i].local, whole.layers[i].local);
      ++layers;
    }
  }
  CHECK(layers > 50);
}

TEST_CASE("a fault in one layer is named when layers are judged alone") {
  Random random(29);
  Case one = random_case(Family::gaussian, random.bits());
  while (!batch_layout(one.graph).batched || one.graph.nodes.size() < 3 || one.samples < 2)
    one = random_case(Family::gaussian, random.bits());
  Trace trace = evaluate(one);
  std::size_t wrong = 0;
  const std::vector<bool> varies = depends_on_input(one.graph);
  while (!varies[one.graph.nodes[wrong].output]) ++wrong;
  Tensor<double> numbers = trace.layers[wrong].output.to_double();
  numbers.values.back() += 1.0 + std::abs(numbers.values.back());
  trace.layers[wrong].output = StoredTensor::from(numbers);
  const Comparison alone = judge(one.graph, trace, options_with(of_single_layers)).comparison;
  CHECK(alone.verdict == Status::violated);
  CHECK(alone.layers[wrong].status == Status::violated);
  const BoundSummary* const bound = find_bound(alone.layers[wrong].local, BoundKind::componentwise);
  CHECK(bound->violations == 1);
  CHECK(bound->worst->sample == one.samples - 1);
}

TEST_CASE("a run that is made part by part is judged as one that is kept") {
  for (const Case& one : cases()) {
    CAPTURE(one.graph.name);
    const Trace trace = evaluate(one);
    const BatchLayout layout = batch_layout(one.graph);
    Trace about = trace;
    about.layers.clear();
    std::vector<std::int64_t> asked;
    const RunInParts run{&about,
                         [&](std::int64_t first, std::int64_t count) {
                           asked.push_back(first);
                           const Inputs data = slice(one.graph, layout, one.inputs, first, count);
                           const Trace part = cpu_evaluator(one.arithmetic).run(one.graph, data);
                           return slice(one.graph, layout, part, 0, count);
                         },
                         2};
    for (const std::vector<BoundRequest>& bounds : {of_single_layers, {BoundKind::componentwise, BoundKind::forward}}) {
      JudgeOptions options = options_with(bounds);
      options.block = 2;
      const Comparison in_parts = judge(one.graph, run, options).comparison;
      const Comparison whole = judge(one.graph, trace, options).comparison;
      REQUIRE(in_parts.layers.size() == whole.layers.size());
      CHECK(in_parts.verdict == whole.verdict);
      for (std::size_t i = 0; i < whole.layers.size(); ++i) {
        check_same(in_parts.layers[i].local, whole.layers[i].local);
        check_same(in_parts.layers[i].accumulated, whole.layers[i].accumulated);
      }
    }
    CHECK(*std::max_element(asked.begin(), asked.end()) <= one.samples - 1);
  }
}
