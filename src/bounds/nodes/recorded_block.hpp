#pragma once

#include <vector>

#include "bounds/matrices/coarse_product.hpp"
#include "driftbound/model/tensor.hpp"
#include "driftbound/num/ball.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound::bounds {

/// The recorded values of one block of samples of a run.
struct RecordedBlock {
  std::vector<const Tensor<double>*> layers;     ///< by node of the graph: its recorded output
  std::vector<Tensor<double>> given, used;       ///< by input: the input of the exact network, and of the recorded run
  std::vector<std::vector<double>> input_error;  ///< by input: bounds of |input of any run - given|; empty: 0
  std::vector<const Tensor<Ball>*> exact = {};   ///< by node: enclosure of f(recorded operands); empty: unknown
  std::vector<const Tensor<Ball>*> network =
      {};                                        ///< by node: enclosure of the exact network at `given`; empty: unknown
  std::vector<const CoarseProducts*> sums = {};  ///< by node: ProductBounds::sums; null, or an empty vector: unknown
};

/// Returns an enclosure of computed - shadow.
Interval deviation_at(double computed, double shadow);

}  // namespace driftbound::bounds
