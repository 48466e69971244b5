#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/comparison.hpp"

namespace driftbound::analysis {

/// What two honest runs of a network may differ by in an output.
struct OutputTolerance {
  std::string name;
  double largest = 0.0;          ///< magnitude of an exact value
  std::optional<double> proven;  ///< no two runs differ by more, whatever the orders of their sums; empty: no bound
  Guarantee guarantee = Guarantee::proven;  ///< of `proven`: proven or conditional
  std::optional<double>
      by_chance;  ///< two runs differ by more with twice the failure probability at most (T-74); empty: no bound
  std::optional<double> estimate;  ///< twelve standard deviations of sums in random order (T-75): an estimate
};

/// Twice what any run of the arithmetic of this one is off by in each output (T-71, T-137). Outputs without bounds, such as
/// integers, are left out.
std::vector<OutputTolerance> tolerances_of(const Comparison& run);

/// The larger tolerance of each output: so that it holds for any two runs of the arithmetics of both.
void widen(std::vector<OutputTolerance>& all, const std::vector<OutputTolerance>& more);

/// Formats of files of tolerances.
enum class ToleranceFile { torch, numpy, polygraphy, json };

/// Throws:    InvalidArgument listing the names
ToleranceFile tolerance_file_of(std::string_view name);

/// torch and numpy: {"y": {"rtol": 0.0, "atol": 1e-4}}, arguments of torch.testing.assert_close and
/// numpy.testing.assert_allclose. polygraphy: "--atol y:1e-4 --rtol y:0.0", arguments of its command. json: all numbers.
/// The tolerance is the proven one, or the one at chance where that is smaller.
/// Throws:    Unsupported naming an output that has no bound
std::string text_of(const std::vector<OutputTolerance>& tolerances, ToleranceFile file);

}  // namespace driftbound::analysis
