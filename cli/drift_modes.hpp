#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/drift_report.hpp"
#include "analysis/drift_tolerances.hpp"
#include "analysis/leak.hpp"
#include "cli/common.hpp"
#include "cli/outputs.hpp"
#include "driftbound/trace/recorded_graph.hpp"

// The modes of `drift`: recorded runs, runs of a model, and whether rows leak. Each has a file of its own.

namespace driftbound::cli {

using Tolerances = std::vector<analysis::OutputTolerance>;

struct DriftSettings {
  std::string command;
  std::vector<std::string> files;
  InputOptions inputs;
  RunSettings run;
  std::vector<std::string> orders, arithmetics, backends;
  std::vector<std::int64_t> batches;
  std::vector<std::string> promote;  ///< layers to compute otherwise
  std::string scalar;        ///< the number whose error is measured then; empty: the first element of the first output
  std::vector<int> threads;  ///< of runs to make; the first is also that of judging
  std::vector<std::string> tolerances;    ///< format and file; empty: none are written
  std::string tolerances_of = "tensors";  ///< or "outputs"
  Outputs outputs;
  std::string chosen;  ///< file of the classes chosen, by row; empty: the first run's choices
  std::string memory;  ///< empty: half of what is free
  double failure_probability = 1e-9;
  int max_precision = 4096;
  bool flips = false, leak = false;
  bool explain_kernels = false, no_explain_kernels = false;  ///< neither: where it is cheap
  std::int64_t audit = 0, top = analysis::DriftOptions().top;

  bool makes_runs() const {
    return !orders.empty() || !arithmetics.empty() || !batches.empty() || !backends.empty() || !promote.empty() ||
           threads.size() > 1;
  }
  bool is_of_recordings() const { return !files.empty() && is_recorded_run(files.front()); }
};

/// Widens tolerances by those of a run, of all tensors that are asked for; none are where no file is. Returns false where
/// the work was interrupted.
/// `names`: those that `tolerances` has for tensors of this run, where they are others
bool widen_by(const Graph& graph, const Trace& trace, const analysis::Comparison& judged, const std::string& name,
              const DriftSettings& settings, Tolerances& tolerances,
              const std::map<std::string, std::string>& names = {});

/// Compares recordings op by op. Returns false where the work was interrupted.
bool compare_recordings(const DriftSettings& settings, const analysis::DriftOptions& options,
                        analysis::DriftReport& report, Tolerances& tolerances);

/// Compares traces of a model, or runs of it that are made here. Returns false where the work was interrupted.
bool compare_runs_of_model(DriftSettings settings, const analysis::DriftOptions& options, analysis::DriftReport& report,
                           Tolerances& tolerances);

/// Whether rows of a batch answer to each other, in the run of a model.
analysis::LeakReport find_leaks(DriftSettings settings);

}  // namespace driftbound::cli
