#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"

namespace driftbound {

/// Consecutive samples, counted from the first of a batch.
struct RowRange {
  std::int64_t first = 0, count = 0;
};

/// A run cut into batches: what every evaluator does before and between its computations.
class Batches {
public:
  /// Throws:    InvalidArgument (options), ShapeMismatch naming the node where shapes do not fit
  Batches(const Graph& graph, const Inputs& inputs, const RunOptions& options);

  bool batched() const { return layout_.batched; }
  std::int64_t samples() const { return samples_; }
  std::int64_t batch() const { return batch_; }  ///< samples evaluated together
  std::int64_t recorded_samples() const;
  /// The inputs as given, at the samples to record alone.
  Inputs recorded_inputs() const;
  /// Which of the samples [first, first + count) are recorded, relative to `first`.
  std::vector<RowRange> recorded(std::int64_t first, std::int64_t count) const;

  /// f(inputs of the batch, as used; first sample; samples) for one batch after the other.
  /// Throws:    Interrupted
  template <class F>
  void for_each(F f) const {
    for (std::int64_t first = 0, last = 0; first < samples_; first = last) {
      last = first + batch_ < samples_ ? first + batch_ : samples_;
      f(slice(graph_, layout_, used_, first, last - first), first, last - first);
      report_progress(last);
    }
  }

private:
  void check_rows() const;
  void check_shapes() const;
  void report_progress(std::int64_t done) const;

  const Graph& graph_;
  const RunOptions& options_;
  BatchLayout layout_;
  Inputs given_, used_;
  std::int64_t samples_ = 0, batch_ = 0;
};

}  // namespace driftbound
