#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// How precise the reference must be, and how far it may climb.
struct PrecisionPolicy {
  int initial_bits = 0;              ///< 0: as T-36 has it, from the cheapest rung that may do; else at least 64
  int max_bits = 4096;               ///< at least 64; 106 with initial_bits = 0: double-double alone
  double error_ratio = 0x1p-30;      ///< radius <= error_ratio * |computed - mid| ...
  double relative_radius = 0x1p-60;  ///< ... or <= relative_radius * |mid| where there is no error (or no trace) ...
  double of_rounding = 0x1p-30;      ///< ... or <= of_rounding * what rounding to the recorded type changes at most
  int threads = 1;
  /// Accumulated references alone: graph outputs decide how far to climb and are kept; layers that are none are empty.
  /// Radii of 2^-44 of a number or more then come from float64 where that has them.
  bool outputs_only = false;
};

/// Certified values of one evaluation: the exact value of every element lies in its ball. Elements whose
/// exact value does not exist (NaN or infinity in the data, division by exactly 0) have a ball that is the whole line.
struct Reference {
  std::vector<Tensor<Ball>> layers;  ///< per node, row-major over the node's shape
  /// Elements whose radius met the policy, by precision in bits (53: double, 106: double-double).
  std::map<int, std::int64_t> rungs;
  std::int64_t undecided = 0;  ///< elements whose radius did not, at max_bits or at any precision
  std::int64_t valueless = 0;  ///< of these, elements without a value (0 / 0, log(-1)) or beyond all doubles …
  std::int64_t too_fine = 0;   ///< … and such as are known to more digits than hi + lo can hold
  int max_bits_used = 0;
};

/// Accumulated reference of one evaluation: the exact network on the inputs as given (double data of a
/// float32 model is not rounded first). `computed`, if given, is what the precision is measured against
/// (the trace of the same evaluation).
/// Domain:    any number of samples of a batched model, one sample of any other
/// Guarantee: proven: the exact value of every node's every element lies in its ball, whatever the precision
/// Tightness: the radius meets the policy for all elements but the undecided ones
/// Source:    docs/theory.md T-30 to T-36, T-82, T-127
/// Throws:    UnsoundEnvironment, ShapeMismatch, InvalidArgument (policy; a trace of another graph), Unsupported
///            (an integer constant beyond 2^53). A division by a ball that holds 0 gives an infinite radius, not an
///            error
Reference certified_reference(const Graph& graph, const Inputs& inputs, const PrecisionPolicy& policy = {},
                              const Trace* computed = nullptr);

/// Local reference: every node's exact function on the inputs that the run recorded for it.
/// Domain:    the trace of one evaluation, as above
/// Guarantee: proven, Tightness, Source and Throws: as certified_reference
Reference local_reference(const Graph& graph, const Trace& trace, const PrecisionPolicy& policy = {});

/// References of many evaluations of one graph, which must outlive it: what they have in common is kept (weights packed
/// for products, norms). Thread-safe.
class ReferenceMaker {
public:
  /// Upper bound of the largest singular value of a constant of two axes.
  using SpectralNorm = std::function<Magnitude(ValueId)>;

  /// `norm`: asked where such a bound is needed, in place of one that is found here and may be larger; empty: nobody
  /// knows better. Bounder::spectral_norm has what bounds of the graph need anyway.
  /// Throws:    UnsoundEnvironment
  explicit ReferenceMaker(const Graph& graph, SpectralNorm norm = {});
  ~ReferenceMaker();
  ReferenceMaker(ReferenceMaker&&) noexcept;
  ReferenceMaker& operator=(ReferenceMaker&&) noexcept;

  /// As certified_reference. `local`, if given: the local reference of `computed`, with which products of rows that are
  /// near what the run recorded take less time.
  Reference accumulated(const Inputs& inputs, const PrecisionPolicy& policy = {}, const Trace* computed = nullptr,
                        const Reference* local = nullptr) const;
  /// As local_reference.
  Reference local(const Trace& trace, const PrecisionPolicy& policy = {}) const;

private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace driftbound
