#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "driftbound/model/op_groups.hpp"
#include "evaluate/every_op.hpp"
#include "sabotage/faults.hpp"
#include "sabotage/op_samples.hpp"

// Every op of the library, composites with their bodies: a fault in a rule of its rounding must be caught on its own
// runs, and one in a rule of its propagation on operands that are off.

using namespace checks;
using driftbound::tests::every_op;
using driftbound::tests::OpCase;

namespace {

/// What is done to operands, so that sums, jumps, roundings to few digits and small numbers all occur.
enum class Flavour { plain, near_halves, tiny, large };
constexpr std::array<Flavour, 4> flavours = {Flavour::plain, Flavour::near_halves, Flavour::tiny, Flavour::large};

double flavoured(double x, Flavour flavour) {
  const double half = std::round(2.0 * x) / 2.0;
  if (flavour == Flavour::near_halves && half != 0.0) return half * (1.0 + 0x1p-13);
  if (flavour == Flavour::tiny) return x * 0x1p-27;
  if (flavour == Flavour::large) return x * 300.0;
  return x;
}

std::vector<Tensor<double>> operands_of(const OpCase& one, Flavour flavour) {
  std::vector<Tensor<double>> operands = one.operands;
  for (Tensor<double>& operand : operands) {
    for (double& x : operand.values) x = static_cast<double>(static_cast<float>(flavoured(x, flavour)));
  }
  return operands;
}

struct NamedRules {
  std::string name;
  bounds::Rules rules;
};

std::vector<NamedRules> faulty_rules() {
  std::vector<NamedRules> all;
  for (const BoundFault& fault : bound_faults()) {
    all.push_back({fault.name, bounds::default_rules()});
    fault.inject(all.back().rules);
  }
  return all;
}

/// The faults that were caught on the runs of one op.
struct Caught {
  std::set<std::string> rounding, propagation;
  bool both() const { return !rounding.empty() && !propagation.empty(); }
};

bool same_bounds_before_the_last(const Bounds& a, const Bounds& b) {
  for (std::size_t layer = 0; layer + 1 < a.layers.size(); ++layer) {
    for (std::size_t i = 0; i < a.layers[layer].local.size(); ++i) {
      if (a.layers[layer].local[i].values.values != b.layers[layer].local[i].values.values) return false;
    }
    for (std::size_t i = 0; i < a.layers[layer].accumulated.size(); ++i) {
      if (a.layers[layer].accumulated[i].values.values != b.layers[layer].accumulated[i].values.values) return false;
    }
  }
  return true;
}

/// The op on these operands, once as it is, once stored narrowly, once on operands that are off.
void sabotage(const Op& op, const std::vector<Tensor<double>>& operands, const std::vector<NamedRules>& faults,
              Caught& caught) {
  for (const SampleKind kind : {SampleKind{false, false}, SampleKind{false, true}, SampleKind{true, false}}) {
    const OpSample sample = sample_of(op, operands, kind);
    const Bounds theorems = bounds_of(sample, bounds::default_rules());
    REQUIRE(violations_of(theorems.layers.back().local, sample, sample.local) == 0);
    REQUIRE(violations_of(theorems.layers.back().accumulated, sample, sample.exact) == 0);
    for (const NamedRules& fault : faults) {
      const Bounds faulty = bounds_of(sample, fault.rules);
      const LayerBounds& last = faulty.layers.back();
      const bool is_local = violations_of(last.local, sample, sample.local) > 0;
      if (is_local && !kind.passes_cast) caught.rounding.insert(fault.name);
      if (is_local || !kind.passes_cast || !same_bounds_before_the_last(theorems, faulty)) continue;
      if (violations_of(last.accumulated, sample, sample.exact) > 0) caught.propagation.insert(fault.name);
    }
  }
}

Caught caught_on(const std::vector<OpCase>& cases, std::size_t alternative, const std::vector<NamedRules>& faults) {
  Caught caught;
  for (const Flavour flavour : flavours) {
    for (const OpCase& one : cases) {
      if (one.op.index() == alternative && !caught.both()) sabotage(one.op, operands_of(one, flavour), faults, caught);
    }
  }
  return caught;
}

}  // namespace

TEST_CASE("for every op a fault in its rounding and one in its propagation are caught on its own runs") {
  std::mt19937_64 random(59);
  std::vector<OpCase> cases;
  for (int draw = 0; draw < 20; ++draw) {
    for (OpCase& one : every_op(random)) cases.push_back(std::move(one));
  }
  const std::vector<NamedRules> faults = faulty_rules();
  for (std::size_t alternative = 0; alternative < std::variant_size_v<OpAlternatives>; ++alternative) {
    const auto found =
        std::find_if(cases.begin(), cases.end(), [&](const OpCase& one) { return one.op.index() == alternative; });
    REQUIRE(found != cases.end());
    CAPTURE(name_of(found->op));
    const Caught caught = caught_on(cases, alternative, faults);
    const bool is_always_exact = std::visit(  // -1, 0 and 1 are in every format
        []<class T>(const T&) { return std::same_as<T, op::Sign> || Comparison<T>; }, found->op);
    CHECK(caught.rounding.empty() == is_always_exact);
    CHECK_FALSE(caught.propagation.empty());
  }
}
