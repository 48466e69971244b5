#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/comparison.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::analysis {

/// What two honest runs of a network may differ by in a tensor.
struct OutputTolerance {
  std::string name;
  double largest = 0.0;          ///< magnitude of a value, exact where the tensor was compared with the exact network
  std::optional<double> proven;  ///< no two runs differ by more, whatever the orders of their sums; empty: no bound
  Guarantee guarantee = Guarantee::proven;  ///< of `proven`: proven or conditional
  std::optional<double>
      by_chance;  ///< two runs differ by more with twice the failure probability at most (T-74); empty: no bound
  std::optional<double> estimate;  ///< twelve standard deviations of sums in random order (T-75): an estimate
  bool is_output = true;           ///< of the network; else a tensor on the way
};

/// Twice what any run of the arithmetic of this one is off by in each output (T-71, T-137). Outputs without bounds, such as
/// integers, are left out.
std::vector<OutputTolerance> tolerances_of(const Comparison& run);

/// Of which tensors, and how.
struct TensorBounds {
  bool outputs_alone = false;
  double failure_probability = 1e-9;  ///< of all tensors together
  int threads = 1;
  /// Work for one tensor on the way, in multiplications of the sweeps of its elements: tensors that need more have no bound.
  double most_work = 0x1p28;
  std::function<bool(std::int64_t, std::int64_t)> progress;  ///< elements done and in all; false: end the work
};

/// Adds what tolerances_of() does not know: outputs with elements that were not followed, and, unless outputs are asked for
/// alone, all tensors on the way. Each is bounded as an output of the nodes that it depends on, some elements and samples
/// at a time, so that memory does not grow with the tensor.
/// Source:    docs/theory.md T-71, T-74
/// Returns:   false where `progress` ended the work
bool add_tensors(const Graph& graph, const Trace& trace, const TensorBounds& how, std::vector<OutputTolerance>& all);

/// The larger tolerance of each tensor: so that it holds for any two runs of the arithmetics of both.
/// `names`: those of tensors that `all` has under other ones, by the name in `more`
void widen(std::vector<OutputTolerance>& all, const std::vector<OutputTolerance>& more,
           const std::map<std::string, std::string>& names = {});

/// Formats of files of tolerances.
enum class ToleranceFile { torch, numpy, polygraphy, json };

/// Throws:    InvalidArgument listing the names
ToleranceFile tolerance_file_of(std::string_view name);

/// torch and numpy: {"y": {"rtol": 0.0, "atol": 1e-4}}, arguments of torch.testing.assert_close and
/// numpy.testing.assert_allclose. polygraphy: "--atol y:1e-4 --rtol y:0.0", arguments of its command. json: all numbers.
/// The tolerance is the proven one, or the one at chance where that is smaller. Tensors on the way without a bound are left
/// out, and null in json.
/// Throws:    Unsupported naming an output that has no bound
std::string text_of(const std::vector<OutputTolerance>& tolerances, ToleranceFile file);

}  // namespace driftbound::analysis
