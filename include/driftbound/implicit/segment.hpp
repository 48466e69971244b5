#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "driftbound/bounds/target.hpp"
#include "driftbound/evaluate/evaluator.hpp"  // Interrupted
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound {

// Zeros of g(t) = target(a + t (b - a)) - iso, 0 <= t <= 1, of the exact network. The segment is the set of real points
// a + t (b - a), t real, with a and b as they are given: no point of it is rounded, and a double t is that real number.

/// How g passes a zero, as t grows.
enum class Crossing { rising, falling, touching, unknown };
std::string_view name_of(Crossing crossing);

/// A zero that exists, the only one in its interval.
struct SegmentZero {
  Interval t;
  /// rising: from - to +, falling: from + to -, touching: one sign on both sides, unknown: one side is not resolved
  Crossing crossing = Crossing::unknown;
};

/// A piece of which it is not known how many zeros it has.
struct UnresolvedPiece {
  Interval t;
  Sign at_lower = Sign::undecided, at_upper = Sign::undecided;  ///< of g at the ends, exactly there
  bool exists = false;       ///< there is a zero: g is continuous and its signs at the ends differ
  bool at_most_one = false;  ///< g is strictly monotone
};

struct SegmentOptions {
  double iso = 0.0;
  double narrowest = 0x1p-44;          ///< pieces of [0, 1] that are no wider are not cut any more
  std::int64_t most_pieces = 1 << 16;  ///< enclosures; what is not resolved by then is reported as that
  int max_bits = 4096;                 ///< of signs at single points
  int threads = 1;
  /// Called between pieces of the work, from the calling thread, with the enclosures so far; returning false ends it.
  std::function<bool(std::int64_t)> progress = {};
};

/// Every zero of g on [0, 1] lies in one of `zeros`, `stretches` and `unresolved`, which are ascending. An interval of
/// `zeros` may share an end with an unresolved piece, whose zeros are others.
struct SegmentZeros {
  std::vector<SegmentZero> zeros;
  std::vector<Interval> stretches;  ///< g is exactly 0 everywhere
  std::vector<UnresolvedPiece> unresolved;
  std::int64_t pieces = 0;  ///< enclosures of g over pieces
  std::int64_t points = 0;  ///< values of g at single points

  /// Whether the list of zeros is complete.
  bool is_complete() const { return stretches.empty() && unresolved.empty(); }
};

/// All zeros on a segment: pieces of it are cut until g has no zero there or is strictly monotone, by enclosures of its
/// values and of its difference quotients; signs at the ends of monotone pieces are certified (SignField), and what
/// they enclose is narrowed to a few units in the last place of t.
/// Shapes:    a, b: one sample, inputs in the order of the graph, row-major
/// Guarantee: proven
/// Tightness: zeros to two or three neighbouring doubles t. Unresolved stay zeros where g touches 0 or has the slope 0,
///            g that is 0 by cancellation, and jumps through 0
/// Throws:    InvalidArgument for ends with another number of elements than a sample, not finite, equal, or of one
///            element and reversed (of several, t counts from a, whichever way b lies); for a target that the graph
///            does not have; for options out of range. Unsupported for inputs that hold no floats and for open shapes;
///            UnsoundEnvironment; Interrupted where `progress` asks for it
/// Source:    docs/theory.md T-120 to T-123
SegmentZeros zeros_on_segment(const Graph& graph, const Target& target, std::span<const double> a,
                              std::span<const double> b, const SegmentOptions& options = {});

/// The same for what a sign field decides: its scalar, iso value, threads and limit of precision.
SegmentZeros zeros_on_segment(const SignField& field, std::span<const double> a, std::span<const double> b,
                              SegmentOptions options = {});

/// What samples of a computed function show of the zeros.
struct SampledZeros {
  std::int64_t computed = 0;     ///< zeros that the samples show
  std::int64_t matched = 0;      ///< computed ones with a certified zero of their own ("true")
  std::int64_t spurious = 0;     ///< computed ones without ("false")
  std::int64_t undecidable = 0;  ///< computed ones without whose gap meets a stretch or an unresolved piece
  std::int64_t missed = 0;       ///< certified zeros without a computed one of their own
};

/// A computed zero is two neighbours in `t` whose values have opposite signs, its gap being the interval between them,
/// or a longest run of values that are 0, its gap reaching to the neighbours on both sides. Gaps are widened by
/// `within` on both sides. A computed zero and a certified one may be paired where the gap and the zero's interval
/// meet; as many pairs as possible are made, each zero being in one at most. matched + spurious + undecidable =
/// computed, matched + missed = number of certified zeros.
/// Shapes:    values: one a sample
/// Throws:    InvalidArgument for sizes that differ, t that does not ascend strictly or leaves [0, 1], values that are
///            NaN, `within` that is negative or NaN
SampledZeros compare_with_sampled(const SegmentZeros& zeros, std::span<const double> t, std::span<const double> values,
                                  double within = 0.0);

}  // namespace driftbound
