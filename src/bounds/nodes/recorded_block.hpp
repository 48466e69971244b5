#pragma once

#include <vector>

#include "bounds/matrices/coarse_product.hpp"
#include "driftbound/model/tensor.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound::bounds {

/// One block of samples of a run.
struct RecordedBlock {
  std::vector<const Tensor<double>*> layers;  ///< by node of the graph
  std::vector<Tensor<double>> given, used;    ///< by input: what the exact network and what the run were given
  std::vector<std::vector<double>>
      input_error;                              ///< by input: how far any run's may be from the one given; may be empty
  std::vector<const Tensor<Ball>*> exact = {};  ///< by node: f of its recorded operands; empty: not known
  std::vector<const CoarseProducts*> sums = {};  ///< by node: of recorded operands; null, or empty: not known
  /// By node of the graph, the largest finite magnitude in it.
  std::vector<double> largest_values() const;
};

/// Enclosure of computed - shadow.
Interval deviation_at(double computed, double shadow);

}  // namespace driftbound::bounds
