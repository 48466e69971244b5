#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "analysis/report_parts.hpp"
#include "analysis/scope_accumulator.hpp"
#include "driftbound/num/errors.hpp"
#include "tests/analysis/hand_made.hpp"

using namespace driftbound;
using namespace driftbound::analysis;

namespace {

void shift_exact(HandMade& made, std::size_t element, double by) {
  Ball& exact = made.local.layers[0].values[element];
  exact = exact_ball(exact.hi + by);
}

/// 1,500 elements with errors of a tenth to a half of their bound: after the first 512 a bound is held against many at
/// once.
struct ManyElements {
  static constexpr std::size_t size = 1500;
  std::vector<double> computed, bounds;
  std::vector<Ball> exact;
  BoundResult bound = HandMade::make_bound(BoundKind::componentwise, Guarantee::proven);

  ManyElements() : computed(size, 1.0), bounds(size, 0x1p-20), exact(size) {
    for (std::size_t i = 0; i < size; ++i) exact[i] = exact_ball(1.0 + (i % 7 == 0 ? 0.5 : 0.125) * 0x1p-20);
  }

  ScopeSummary summary(std::size_t at_once) const {
    ScopeAccumulator accumulator;
    for (std::size_t first = 0; first < size; first += at_once) {
      const std::size_t count = std::min(at_once, size - first);
      accumulator.add(std::span(computed).subspan(first, count), std::span(exact).subspan(first, count),
                      {{&bound, std::span(bounds).subspan(first, count), {}}}, static_cast<std::int64_t>(first), 1);
    }
    return accumulator.finish();
  }
};

void check_same(const ScopeSummary& x, const ScopeSummary& y) {
  const BoundSummary &a = x.bounds.at(0), &b = y.bounds.at(0);
  CHECK(a.checked == b.checked);
  CHECK(a.violations == b.violations);
  CHECK(a.undecided == b.undecided);
  CHECK(a.not_certifiable == b.not_certifiable);
  CHECK(a.max_utilisation == b.max_utilisation);
  CHECK(a.max_bound == b.max_bound);
  CHECK(x.elements == y.elements);
  CHECK(x.non_finite == y.non_finite);
  CHECK(x.max_error == y.max_error);
}

}  // namespace

TEST_CASE("computed values equal to the exact ones hold with utilisation 0") {
  const Comparison comparison = HandMade().compare();
  CHECK(comparison.verdict == Status::holds);
  const ScopeSummary& local = comparison.layers.at(0).local;
  CHECK(local.max_error == 0.0);
  CHECK(local.bit_exact == 1.0);
  CHECK(local.bounds.at(0).checked == 6);
  CHECK(local.bounds.at(0).max_utilisation == 0.0);
  CHECK(exit_status(comparison, {FailOn::approach}) == 0);
}

TEST_CASE("an error above the bound is a violation at the element where it happened") {
  HandMade made;
  shift_exact(made, 3, 1.5);
  const Comparison comparison = made.compare();
  CHECK(comparison.verdict == Status::violated);
  const ScopeSummary& local = comparison.layers.at(0).local;
  CHECK(local.bounds.at(0).violations == 1);
  CHECK(local.bounds.at(0).max_utilisation == 1.5);
  REQUIRE(local.worst);
  CHECK(local.worst->sample == 1);
  CHECK(local.worst->element == 1);
  CHECK(exit_status(comparison, {FailOn::violation}) == 2);
  CHECK(exit_status(comparison, {FailOn::never}) == 0);
}

TEST_CASE("a violated heuristic is counted and leaves the verdict alone") {
  HandMade made;
  shift_exact(made, 0, 0.25);
  made.bounds.layers[0].local[1].values.values[0] = 0.125;
  const Comparison comparison = made.compare();
  CHECK(comparison.verdict == Status::holds);
  CHECK(comparison.layers[0].local.bounds[1].violations == 1);
}

TEST_CASE("a probabilistic bound that is exceeded is improbable, and blocks add up what it fails with") {
  HandMade made;
  BoundResult shadow = HandMade::make_bound(BoundKind::shadow, Guarantee::probabilistic);
  shadow.failure_probability = 0x1p-30;
  shadow.values.values[2] = 0.125;
  made.bounds.layers[0].accumulated.push_back(shadow);
  shift_exact(made, 2, 0.25);
  made.accumulated = made.local;
  Comparer comparer(made.graph, {}, 0.5);
  for (const std::int64_t first : {0, 3})
    comparer.add(made.layout, made.trace, &made.accumulated, made.local, made.bounds, first);
  const Comparison comparison = comparer.finish();
  CHECK(comparison.verdict == Status::improbable);
  const BoundSummary* summary = find_bound(comparison.outputs.at(0).scope, BoundKind::shadow);
  REQUIRE(summary != nullptr);
  CHECK(summary->violations == 2);
  CHECK(summary->failure_probability == 0x1p-29);
  CHECK(!find_bound(comparison.outputs.at(0).scope, BoundKind::forward)->failure_probability.has_value());
}

TEST_CASE("a radius that straddles the bound is undecided, never a holding verdict") {
  HandMade made;
  shift_exact(made, 2, 1.0);
  made.local.layers[0].values[2].radius = Magnitude(0.25);
  const Comparison comparison = made.compare();
  CHECK(comparison.verdict == Status::undecided);
  CHECK(comparison.layers[0].local.bounds[0].undecided == 1);
  CHECK(exit_status(comparison, {FailOn::violation}) == 1);
}

TEST_CASE("an infinite bound on a layer's own errors or an unbounded local reference is undecided") {
  const double infinity = std::numeric_limits<double>::infinity();
  HandMade no_bound;
  no_bound.bounds.layers[0].local[0].values.values[5] = infinity;
  CHECK(no_bound.compare().verdict == Status::undecided);
  CHECK(no_bound.compare().layers[0].local.decided == 5);
  REQUIRE(no_bound.compare().layers[0].local.first_open);
  CHECK(no_bound.compare().layers[0].local.first_open->sample == 2);
  std::fill(no_bound.bounds.layers[0].local[0].values.values.begin(),
            no_bound.bounds.layers[0].local[0].values.values.end(), infinity);
  const Comparison none = no_bound.compare();
  REQUIRE(none.layers[0].local.worst);
  CHECK(none.layers[0].local.worst->bound == infinity);
  HandMade no_reference;
  no_reference.local.layers[0].values[1].radius = Magnitude::infinite();
  CHECK(no_reference.compare().verdict == Status::undecided);
}

TEST_CASE("a value that one bound decides holds, though another is infinite there") {
  HandMade made;
  made.bounds.layers[0].local.push_back(HandMade::make_bound(BoundKind::order_aware, Guarantee::proven));
  made.bounds.layers[0].local[0].values.values.assign(6, std::numeric_limits<double>::infinity());
  const Comparison comparison = made.compare();
  CHECK(comparison.verdict == Status::holds);
  CHECK(comparison.layers[0].checked == 6);
  CHECK(find_bound(comparison.layers[0].local, BoundKind::componentwise)->infinite == 6);
  made.bounds.layers[0].local.back().values.values[3] = std::numeric_limits<double>::infinity();
  made.bounds.layers[0].local[0].values.values[3] = 1.0;
  CHECK(made.compare().verdict == Status::holds);  // each by its own bound
  made.bounds.layers[0].local[0].values.values[3] = std::numeric_limits<double>::infinity();
  CHECK(made.compare().verdict == Status::undecided);
}

TEST_CASE("infinite bounds from the input on leave a question open, and only --require makes it count") {
  HandMade made;
  made.bounds.layers[0].accumulated[0].values.values[5] = std::numeric_limits<double>::infinity();
  made.bounds.infinite.push_back({Question::this_run, 0, 2, 1, "its divisor lies between -1 and 2"});
  const Comparison comparison = made.compare();
  CHECK(comparison.verdict == Status::holds);
  REQUIRE(comparison.open_questions.size() == 1);
  CHECK(comparison.open_questions[0].question == Question::this_run);
  CHECK(comparison.open_questions[0].values == 1);
  CHECK(comparison.open_questions[0].layer == "layer");
  CHECK(exit_status(comparison, {}) == 0);
  CHECK(exit_status(comparison, {FailOn::violation, {Question::this_run}}) == 1);
  CHECK(exit_status(comparison, {FailOn::violation, {Question::any_run}}) == 1);  // no bound of any run was computed
  CHECK(exit_status(comparison, {FailOn::never, {Question::this_run}}) == 0);
  Report report = made.report();
  const std::string text = open_question_text(report, Question::this_run);
  CHECK(text.find("from 'layer' on: its divisor lies between -1 and 2") != std::string::npos);
  made.bounds.layers[0].accumulated.push_back(HandMade::make_bound(BoundKind::shadow, Guarantee::proven));
  CHECK(made.compare().open_questions.empty());  // the error itself is known
}

TEST_CASE("an error above a bound from the input on violates, whatever the layers do") {
  HandMade made;
  made.accumulated.layers[0].values[2] = exact_ball(6.0);
  CHECK(made.compare().verdict == Status::violated);
}

TEST_CASE("where the reference covers the computed value no share of the bound is made up") {
  HandMade made;
  made.local.layers[0].values[2] = {3.0, 1e-30, Magnitude(2e-30)};
  made.bounds.layers[0].local[0].values.values[2] = 1e-300;
  const Comparison comparison = made.compare();
  CHECK(comparison.layers[0].local.bounds[0].max_utilisation <= 1.0);
  CHECK(comparison.layers[0].local.max_error == 0.0);
  CHECK(comparison.verdict == Status::undecided);
}

TEST_CASE("a run by other steps that exceeds bounds of any run alone is undecided, not violated") {
  HandMade made;
  made.add_second_layer(op::Gelu{});
  made.trace.provenance.program = "another program";
  BoundResult any_run = HandMade::make_bound(BoundKind::adjoint_any_order, Guarantee::proven);
  any_run.question = Question::any_run;
  made.bounds.layers[1].accumulated.push_back(any_run);
  for (std::size_t i = 0; i < 6; ++i) made.accumulated.layers[1].values[i].hi += 0.5;
  made.bounds.layers[1].accumulated.back().values.values.assign(6, 0.25);
  const Comparison comparison = made.compare();
  CHECK(comparison.verdict < Status::violated);
  CHECK(find_bound(comparison.outputs.at(1).scope, BoundKind::adjoint_any_order)->by_other_steps == 6);
  made.trace.provenance.program = "driftbound 0.1";
  CHECK(made.compare().verdict == Status::violated);
}

TEST_CASE("a bound that is NaN never passes") {
  HandMade made;
  made.bounds.layers[0].local[0].values.values[4] = std::numeric_limits<double>::quiet_NaN();
  const Comparison comparison = made.compare();
  CHECK(comparison.verdict != Status::holds);
  CHECK(comparison.layers[0].local.bounds[0].undecided == 1);
}

TEST_CASE("what is no number, infinite or above its bound is noticed among many elements, wherever it is") {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const ManyElements clear;
  const BoundSummary of_clear = clear.summary(ManyElements::size).bounds.at(0);
  CHECK(of_clear.violations + of_clear.undecided == 0);
  CHECK(of_clear.max_utilisation == 0.5);
  for (const std::size_t at : {512u, 700u, 1023u, 1024u, 1499u}) {
    CAPTURE(at);
    ManyElements no_bound, infinite_bound, no_number, no_radius, above;
    no_bound.bounds[at] = nan;
    infinite_bound.bounds[at] = infinity;
    no_number.computed[at] = nan;
    no_radius.exact[at].radius = Magnitude::infinite();
    above.exact[at] = exact_ball(1.0 + 0x1p-20 + 0x1p-50);
    for (const ManyElements* elements : {&no_bound, &infinite_bound, &no_number, &no_radius, &above}) {
      const ScopeSummary summary = elements->summary(ManyElements::size);
      check_same(summary, elements->summary(1));
      check_same(summary, elements->summary(6));
    }
    CHECK(no_bound.summary(ManyElements::size).bounds.at(0).undecided == 1);
    CHECK(infinite_bound.summary(ManyElements::size).bounds.at(0).undecided == 1);
    CHECK(no_number.summary(ManyElements::size).non_finite == 1);
    CHECK(no_radius.summary(ManyElements::size).bounds.at(0).undecided == 1);
    CHECK(above.summary(ManyElements::size).bounds.at(0).violations == 1);
  }
}

TEST_CASE("bounds that come after samples without any are refused") {
  const ManyElements elements;
  ScopeAccumulator accumulator;
  accumulator.add(elements.computed, elements.exact, {}, 0, 1);
  CHECK_THROWS_AS(accumulator.add(elements.computed, elements.exact, {{&elements.bound, elements.bounds, {}}}, 1500, 1),
                  InvalidArgument);
}

TEST_CASE("values that are not finite make the layer void and are counted") {
  const Comparison comparison = HandMade({1, std::numeric_limits<float>::quiet_NaN(), 3, 4, 5, 6}).compare();
  CHECK(comparison.verdict == Status::invalid);
  CHECK(comparison.layers[0].non_finite == 1);
  CHECK(comparison.layers[0].local.bounds[0].checked == 5);
  CHECK(exit_status(comparison, {FailOn::violation}) == 1);
}

TEST_CASE("a bound used to the threshold is approached") {
  HandMade made;
  shift_exact(made, 0, 0.75);
  CHECK(made.compare(0.5).verdict == Status::approaches);
  CHECK(made.compare(0.8).verdict == Status::holds);
  CHECK(exit_status(made.compare(0.5), {FailOn::violation}) == 0);
  CHECK(exit_status(made.compare(0.5), {FailOn::approach}) == 1);
  CHECK(made.compare().closest->utilisation == 0.75);
}

TEST_CASE("the difference of two outputs adds their bounds and judges the exact difference") {
  HandMade made;
  made.accumulated.layers[0].values[1] = exact_ball(2.5);  // computed 2: error -0.5
  made.accumulated.layers[0].values[0] = exact_ball(0.5);  // computed 1: error +0.5
  const Comparison comparison = made.compare(2.0, {"layer[1]-layer[0]"});
  const OutputSummary& scalar = comparison.outputs.at(1);
  CHECK(scalar.name == "layer[1]-layer[0]");
  CHECK(scalar.scope.max_error == 1.0);
  CHECK(scalar.scope.bounds.at(0).max_bound == 2.0);
}

TEST_CASE("the difference of nearly equal large outputs loses nothing") {
  HandMade made({0x1p24F, 1.0F, 3, 4, 5, 6});
  const Comparison comparison = made.compare(2.0, {"layer[1]-layer[0]"});
  CHECK(comparison.outputs.at(1).scope.max_error == 0.0);
}

TEST_CASE("scalars that do not exist are refused with the outputs there are") {
  CHECK_THROWS_WITH_AS(
      HandMade().compare(0.5, {"logits[0]"}),
      "--scalar 'logits[0]': there is no output 'logits'; write OUTPUT[INDEX] or OUTPUT[INDEX]-OUTPUT[INDEX], "
      "outputs are: layer",
      InvalidArgument);
  CHECK_THROWS_AS(HandMade().compare(0.5, {"layer[2]"}), InvalidArgument);
  CHECK_THROWS_AS(HandMade().compare(0.5, {"layer[x]"}), InvalidArgument);
}

TEST_CASE("medians and quantiles are order statistics") {
  HandMade made;
  const Comparison comparison = made.compare();
  REQUIRE(comparison.layers[0].kappa);
  CHECK(comparison.layers[0].kappa->median == 4.0);
  CHECK(comparison.layers[0].kappa->max == 6.0);
  CHECK(comparison.layers[0].kappa->p99 == 6.0);
}

TEST_CASE("quantiles of a histogram are those of the sorted numbers, to a 64th, in whatever parts these come") {
  std::mt19937_64 random(17);
  for (const std::size_t count : {1U, 2U, 7U, 1000U, 20'000U}) {
    std::vector<double> numbers(count);
    for (double& x : numbers) x = std::exp(8.0 * std::normal_distribution<double>()(random));
    if (count > 2) numbers[1] = 0.0;
    if (count > 100) numbers[5] = numbers[6] = std::numeric_limits<double>::infinity();
    LogHistogram whole, backwards, parts;
    LogHistogram some[3];
    for (const double x : numbers) whole.add(x);
    for (std::size_t i = count; i-- > 0;) backwards.add(numbers[i]);
    for (std::size_t i = 0; i < count; ++i) some[random() % 3].add(numbers[i]);
    for (const LogHistogram& one : some) parts.add(one);
    std::sort(numbers.begin(), numbers.end());
    for (const double p : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(count - 1)));
      const double found = whole.quantile(p).value();
      CHECK(found <= numbers[rank]);
      if (std::isfinite(numbers[rank])) CHECK(found >= numbers[rank] * 64.0 / 65.0);
      if (std::isinf(numbers[rank])) CHECK(std::isinf(found));
      CHECK(backwards.quantile(p) == found);
      CHECK(parts.quantile(p) == found);
    }
    CHECK(whole.count() == static_cast<std::int64_t>(count));
  }
  LogHistogram odd;
  CHECK_FALSE(odd.median().has_value());
  odd.add(std::numeric_limits<double>::quiet_NaN());
  CHECK(std::isinf(odd.median().value()));
}

TEST_CASE("the condition number of a difference weighs those of its operands by their sizes") {
  const Comparison comparison = HandMade().compare(0.5, {"layer[1]-layer[0]", "layer[1]"});
  const OutputSummary &difference = comparison.outputs.at(1), &alone = comparison.outputs.at(2);
  REQUIRE(difference.kappa);
  CHECK(difference.kappa->median == (4.0 * 4.0 + 3.0 * 3.0) / (4.0 - 3.0));
  CHECK(difference.kappa->max == (6.0 * 6.0 + 5.0 * 5.0) / (6.0 - 5.0));
  REQUIRE(alone.kappa);
  CHECK(alone.kappa->median == 4.0);
  CHECK(alone.kappa->max == 6.0);
}

TEST_CASE("the difference of a proven and a conditional output is conditional, whichever comes first") {
  HandMade made;
  made.add_second_layer(op::Tanh{});
  made.bounds.layers[1].accumulated[0].guarantee = Guarantee::conditional;
  made.bounds.layers[1].accumulated[0].condition = "tanh is accurate";
  for (const char* scalar : {"layer[0]-second[0]", "second[0]-layer[0]"}) {
    const BoundSummary forward = made.compare(0.5, {scalar}).outputs.at(2).scope.bounds.at(0);
    CHECK(forward.guarantee == Guarantee::conditional);
    CHECK(forward.condition == "tanh is accurate");
  }
}

TEST_CASE("a bound that one of two outputs lacks leaves their difference undecided") {
  HandMade made;
  made.add_second_layer(op::Relu{});
  made.bounds.layers[1].accumulated.clear();
  CHECK(made.compare(0.5, {"layer[0]-second[0]"}).outputs.at(2).status == Status::undecided);
}

TEST_CASE("nothing checked is undecided, not holding") {
  HandMade made;
  made.bounds.layers[0].local.erase(made.bounds.layers[0].local.begin());
  made.bounds.layers[0].accumulated.erase(made.bounds.layers[0].accumulated.begin());
  CHECK(made.compare().verdict == Status::undecided);
}

TEST_CASE("a layer that no bound was held against is not checked, and worsens no verdict") {
  HandMade made;
  made.add_second_layer(op::Relu{});
  made.bounds.layers[1].local.clear();
  made.bounds.layers[1].accumulated = {HandMade::make_bound(BoundKind::shadow, Guarantee::proven)};
  made.bounds.layers[1].accumulated[0].values.values.assign(6, 1e3);
  const Comparison comparison = made.compare();
  CHECK(comparison.verdict == Status::holds);
  CHECK(comparison.layers[0].status == Status::holds);
  CHECK(comparison.layers[0].checked == 6);
  CHECK(comparison.layers[1].status == Status::not_checked);
  CHECK(comparison.layers[1].compared == 6);
  CHECK(comparison.layers[1].checked == 0);
  CHECK(comparison.outputs[0].status == Status::holds);
  CHECK(comparison.outputs[1].status == Status::not_checked);
  CHECK(made.compare(0.0).layers[1].status == Status::not_checked);
  Report report{{}, comparison};
  CHECK(headline(report).find("holds on 6 of 12 outputs of 2 layers (3 samples); 1 layer not checked.") !=
        std::string::npos);
  made.trace.layers[1].output = StoredTensor::from(Tensor<float>({3, 2}, {1, 2, 1e30f, 4, 5, 6}));
  CHECK(made.compare().layers[1].status == Status::violated);
}

TEST_CASE("a scalar that alone is held against a bound is something that holds") {
  HandMade made;
  made.bounds.layers[0].local.clear();
  made.bounds.layers[0].accumulated.clear();
  REQUIRE(made.compare().verdict == Status::undecided);
  made.bounds.targets.resize(1);
  made.bounds.targets[0].bounds = {HandMade::make_bound(BoundKind::adjoint_any_order, Guarantee::proven)};
  made.bounds.targets[0].bounds[0].values = Tensor<double>({3}, {1e3, 1e3, 1e3});
  const Comparison comparison = made.compare(0.5, {"layer[1]-layer[0]"});
  CHECK(comparison.verdict == Status::holds);
  const std::string said = headline(Report{{}, comparison});
  CAPTURE(said);
  CHECK(said.find("holds on 0 of 6 outputs of 1 layer (3 samples), and on 1 of 2 end-to-end numbers; 1 layer not "
                  "checked.") != std::string::npos);
}

TEST_CASE("a copy that is held against a bound of 0 is checked") {
  HandMade made;
  made.bounds.layers[0].local[0].values.values.assign(6, 0.0);
  made.bounds.layers[0].accumulated.clear();
  CHECK(made.compare().layers[0].status == Status::holds);
  CHECK(made.compare().layers[0].checked == 6);
}

TEST_CASE("replay decides all of its values, or none where one is open") {
  HandMade made;
  made.bounds.layers[0].local.clear();
  made.bounds.layers[0].accumulated = {HandMade::make_bound(BoundKind::replay, Guarantee::conditional)};
  made.bounds.layers[0].accumulated[0].question = Question::any_run;
  CHECK(made.compare().verdict == Status::holds);
  CHECK(made.compare().layers[0].checked == 6);
  CHECK_FALSE(made.compare().closest);
  for (const double open : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    made.bounds.layers[0].accumulated[0].values.values[2] = open;
    CHECK(made.compare().verdict == Status::undecided);
    CHECK(made.compare(0.0).verdict == Status::undecided);
  }
}

TEST_CASE("a scalar is measured in units of the format in which its output is stored") {
  HandMade made;
  made.trace.layers[0].output = StoredTensor::from(Tensor<double>({3, 2}, {1, 2, 3, 4, 5, 6}));
  for (Ball& ball : made.accumulated.layers[0].values) ball.hi += 0x1p-48;
  const Comparison comparison = made.compare(0.5, {"layer[0]"});
  CHECK(comparison.outputs[0].scope.max_ulps == 16.0);
  CHECK(comparison.outputs[1].scope.max_ulps == 16.0);
}

TEST_CASE("an output that is an input of the model is not checked, and no value is missing there") {
  HandMade made;
  made.graph.outputs.push_back(made.graph.inputs[0]);
  const Comparison comparison = made.compare();
  CHECK(comparison.outputs[1].status == Status::not_checked);
  CHECK(comparison.verdict == Status::holds);
  Report report = made.report();
  CHECK(to_text(document_of(report)).find("an input of the model") != std::string::npos);
  for (const std::string& text : {to_text(document_of(report)), to_html(document_of(report))})
    CHECK(text.find("no finite value") == std::string::npos);
  CHECK(to_junit(document_of(report)).find("skipped=\"1\"") != std::string::npos);
}

TEST_CASE("of two bounds without end the one that more values have is the smaller one, and none if nothing has") {
  HandMade made;
  const double infinite = std::numeric_limits<double>::infinity();
  BoundResult any_order = HandMade::make_bound(BoundKind::adjoint_any_order, Guarantee::proven),
              rounded = HandMade::make_bound(BoundKind::rounded_shadow, Guarantee::proven);
  any_order.question = rounded.question = Question::any_run;
  any_order.values.values.assign(6, infinite);
  rounded.values.values[3] = infinite;
  made.bounds.layers[0].accumulated = {any_order, rounded};
  const auto is_smallest = [&](BoundKind kind) {
    return find_bound(made.compare().outputs[0].scope, kind)->is_smallest;
  };
  CHECK(is_smallest(BoundKind::rounded_shadow) == true);
  CHECK(is_smallest(BoundKind::adjoint_any_order) == false);
  made.bounds.layers[0].accumulated[0].values.values = made.bounds.layers[0].accumulated[1].values.values;
  CHECK(is_smallest(BoundKind::rounded_shadow) == false);
  CHECK(is_smallest(BoundKind::adjoint_any_order) == false);
  for (BoundResult& bound : made.bounds.layers[0].accumulated) bound.values.values.assign(6, infinite);
  CHECK(is_smallest(BoundKind::rounded_shadow) == false);
  CHECK(is_smallest(BoundKind::adjoint_any_order) == false);
}

TEST_CASE("above a bound of 0 the worst value is the one with the largest error") {
  HandMade made;
  for (BoundResult& bound : made.bounds.layers[0].local) bound.values.values.assign(6, 0.0);
  const std::vector<double> errors = {0.0, 0.5, 0.25, 2.0, 1.0, 1.5};
  for (std::size_t i = 0; i < 6; ++i) made.local.layers[0].values[i].hi += errors[i];
  const BoundSummary componentwise = made.compare().layers[0].local.bounds[0];
  CHECK(componentwise.violations == 5);
  REQUIRE(componentwise.worst);
  CHECK(componentwise.worst->error == 2.0);
  CHECK(componentwise.worst->sample == 1);
}
