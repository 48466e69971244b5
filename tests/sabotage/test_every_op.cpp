#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "driftbound/model/op_groups.hpp"
#include "evaluate/every_op.hpp"
#include "faults/theorems.hpp"
#include "sabotage/faults.hpp"
#include "sabotage/op_samples.hpp"
#include "sabotage/op_trajectories.hpp"

// Every op of the library, composites with their bodies: a fault in a rule of its rounding must be caught on its own
// runs, and one in a rule of its propagation on operands that are off; of primitive ops also one in a rule of their
// remainder, of two trajectories and of boxes, on trajectories of the op itself.

using namespace checks;
using driftbound::tests::every_op;
using driftbound::tests::OpCase;

namespace {

/// What is done to operands, so that sums, jumps, roundings to few digits and small numbers all occur.
enum class Flavour { plain, near_halves, tiny, large, halves };
constexpr std::array<Flavour, 4> flavours = {Flavour::plain, Flavour::near_halves, Flavour::tiny, Flavour::large};

double flavoured(double x, Flavour flavour) {
  const double half = std::round(2.0 * x) / 2.0;
  if (flavour == Flavour::near_halves && half != 0.0) return half * (1.0 + 0x1p-13);
  if (flavour == Flavour::halves && half != 0.0) return half;
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

struct NamedTheorems {
  std::string name;
  Theorems theorems;
};

std::vector<NamedTheorems> faulty_theorems(const std::vector<BoundFault>& faults) {
  std::vector<NamedTheorems> all;
  for (const BoundFault& fault : faults) all.push_back({fault.name, with_fault(fault.inject)});
  return all;
}

/// Whether faults of either kind were caught on the runs of one op.
struct Caught {
  bool rounding = false, propagation = false;
  bool both() const { return rounding && propagation; }
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

/// In the rounding of the op itself, or, where its operands are off and so far nothing differs, in what it hands on.
bool is_caught_by(const OpSample& sample, bool passes_cast, const Bounds& theorems) {
  const Bounds faulty = bounds_of(sample);
  const LayerBounds& last = faulty.layers.back();
  const bool is_local = violations_of(last.local, sample, sample.local) > 0;
  if (!passes_cast) return is_local;
  return !is_local && same_bounds_before_the_last(theorems, faulty) &&
         violations_of(last.accumulated, sample, sample.exact) > 0;
}

/// The op on these operands, once as it is, once stored narrowly, once on operands that are off.
void sabotage(const Op& op, const std::vector<Tensor<double>>& operands, const std::vector<NamedTheorems>& faults,
              Caught& caught) {
  for (const SampleKind kind : {SampleKind{false, false}, SampleKind{false, true}, SampleKind{true, false}}) {
    bool& is_caught = kind.passes_cast ? caught.propagation : caught.rounding;
    if (is_caught) continue;
    const OpSample sample = sample_of(op, operands, kind);
    const Bounds theorems = bounds_of(sample);
    REQUIRE(violations_of(theorems.layers.back().local, sample, sample.local) == 0);
    REQUIRE(violations_of(theorems.layers.back().accumulated, sample, sample.exact) == 0);
    is_caught = std::any_of(faults.begin(), faults.end(), [&](const NamedTheorems& fault) {
      const ScopedTheorems in_force(fault.theorems);
      return is_caught_by(sample, kind.passes_cast, theorems);
    });
  }
}

using Draw = std::vector<OpCase>;

Caught caught_on(std::span<const Draw> draws, std::size_t alternative, const std::vector<NamedTheorems>& faults) {
  Caught caught;
  for (const Flavour flavour : flavours) {
    for (const Draw& cases : draws) {
      for (const OpCase& one : cases)
        if (one.op.index() == alternative && !caught.both())
          sabotage(one.op, operands_of(one, flavour), faults, caught);
    }
  }
  return caught;
}

}  // namespace

TEST_CASE("for every op a fault in its rounding and one in its propagation are caught on its own runs") {
  constexpr std::size_t draws_where_nothing_is_found = 4;
  std::mt19937_64 random(59);
  std::vector<Draw> draws(20);
  std::generate(draws.begin(), draws.end(), [&] { return every_op(random); });
  const std::vector<NamedTheorems> faults = faulty_theorems(bound_faults());
  for (std::size_t alternative = 0; alternative < std::variant_size_v<OpAlternatives>; ++alternative) {
    const auto found = std::find_if(draws[0].begin(), draws[0].end(),
                                    [&](const OpCase& one) { return one.op.index() == alternative; });
    REQUIRE(found != draws[0].end());
    CAPTURE(name_of(found->op));
    const bool is_always_exact = std::visit(  // -1, 0 and 1 are in every format, integers are stored as they are
        []<class T>(const T&) { return OneOf<T, op::Sign, op::ArgMax, op::Truncate> || Comparison<T>; }, found->op);
    const std::span<const Draw> all = draws;
    const Caught caught =
        caught_on(is_always_exact ? all.first(draws_where_nothing_is_found) : all, alternative, faults);
    CHECK(caught.rounding == !is_always_exact);
    CHECK(caught.propagation);
  }
}

namespace {

template <bounds::UnaryPropagation Theorems::*Radius, bounds::UnaryExpansion Theorems::*Expansion>
void overlook_jumps(Theorems& faulty) {
  faulty.*Radius = [](const bounds::Point&) { return Magnitude(); };
  faulty.*Expansion = [](const bounds::Point&) { return bounds::Linear{}; };
}

/// What the remainders of ops rest on besides the rules for expansions.
std::vector<BoundFault> overlooked_remainders() {
  return {
      {"a comparison is decided",
       [](auto& r) { r.propagate_greater = [](double, Magnitude, double, Magnitude) { return Magnitude(); }; },
       {}},
      {"a comparison with equality is decided",
       [](auto& r) { r.propagate_greater_or_equal = [](double, Magnitude, double, Magnitude) { return Magnitude(); }; },
       {}},
      {"equality is decided",
       [](auto& r) { r.propagate_equal = [](double, Magnitude, double, Magnitude) { return Magnitude(); }; },
       {}},
      {"half the remainder of a Relu, many at once",
       [](auto& r) {
         r.rows.relu = [](const double* x, const double* e, double* slope, double* q, double* m, std::size_t n) {
           const bounds::ReluFlags flags = bounds::fastest_row_kernels().relu(x, e, slope, q, m, n);
           for (std::size_t i = 0; i < n && e != nullptr; ++i) q[i] *= 0.5;
           return flags;
         };
       },
       {}},
      {"floor has no jumps", overlook_jumps<&Theorems::propagate_floor, &Theorems::linear_floor>, {}},
      {"ceil has no jumps", overlook_jumps<&Theorems::propagate_ceil, &Theorems::linear_ceil>, {}},
      {"round has no jumps", overlook_jumps<&Theorems::propagate_round, &Theorems::linear_round>, {}},
      {"sign has no jumps", overlook_jumps<&Theorems::propagate_sign, &Theorems::linear_sign>, {}},
      {"a choice is decided", [](auto& r) { r.decides_choice = [](double, Magnitude) { return true; }; }, {}},
      {"products of moves vanish", [](auto& r) { r.crossed = [](double, double) { return Magnitude(); }; }, {}}};
}

std::vector<BoundFault> joined(std::vector<BoundFault> faults, const std::vector<BoundFault>& more) {
  faults.insert(faults.end(), more.begin(), more.end());
  return faults;
}

/// Whether one of the faults is caught where inputs of the op are off, or off anywhere in a box.
bool is_caught(const std::vector<OpCase>& cases, std::size_t alternative, const std::vector<NamedTheorems>& faults,
               bool in_box) {
  std::mt19937_64 random(60);
  for (const OpCase& one : cases) {
    if (one.op.index() != alternative) continue;
    for (const Flavour flavour : {Flavour::plain, Flavour::halves}) {
      for (const double size : {0x1p-10, 0x1p-4, 0x1p-1, 1.0}) {
        const OpTrajectories moves(one.op, operands_of(one, flavour), in_box ? 0.5 * size : 0.0, size, random);
        REQUIRE(moves.violations() == 0);
        for (const NamedTheorems& fault : faults) {
          const ScopedTheorems in_force(fault.theorems);
          if (moves.violations() > 0) return true;
        }
      }
    }
  }
  return false;
}

}  // namespace

TEST_CASE("for every primitive op faults in its remainder, between trajectories and over boxes are caught on its own") {
  std::mt19937_64 random(61);
  std::vector<OpCase> cases;
  for (int draw = 0; draw < 6; ++draw) {
    for (OpCase& one : tests::every_primitive(random)) cases.push_back(std::move(one));
  }
  const std::vector<NamedTheorems> remainders = faulty_theorems(joined(linear_faults(), overlooked_remainders())),
                                   between = faulty_theorems(trajectory_faults()),
                                   in_boxes = faulty_theorems(joined(box_faults(), overlooked_remainders()));
  std::set<std::size_t> seen;
  for (const OpCase& one : cases) {
    const std::size_t alternative = one.op.index();
    if (!seen.insert(alternative).second) continue;
    CAPTURE(name_of(one.op));
    const bool has_remainder = !std::visit(
        []<class T>(const T&) { return Selection<T> || OneOf<T, op::Add, op::Sub, op::Neg, op::Cast, op::ReduceSum>; },
        one.op);
    // What is 0 or infinite shows no fault in how it is added up.
    const bool is_nothing_or_all =
        std::visit([]<class T>(const T&) { return OneOf<T, op::Floor, op::Ceil, op::Round>; }, one.op);
    if (!is_nothing_or_all) CHECK(is_caught(cases, alternative, between, false));
    CHECK(is_caught(cases, alternative, remainders, false) == has_remainder);
    if (has_remainder) CHECK(is_caught(cases, alternative, in_boxes, true));
  }
  CHECK(seen.size() > 40);
}
