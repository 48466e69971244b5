#pragma once

#include <cstdint>
#include <memory>

#include "driftbound/evaluate/kernel_search.hpp"

namespace driftbound {

/// Whether the op makes rows of rows by a sum, or numbers: Softmax, masked or not, LogSoftmax, ReduceLogSumExp, and norms of
/// rows.
bool has_row_kernels(const Op& op);

/// The search of KernelSearch for softmax and norms: the order of the sums of a row, the function that makes their terms,
/// and the steps that make the results of them, all from the results alone.
/// Source:    docs/explain.md
class RowSearch {
public:
  RowSearch(std::size_t node, std::int64_t most_work);
  ~RowSearch();

  /// As KernelSearch::add().
  bool add(const Graph& graph, const Trace& evaluation);
  KernelFinding finding() const;

private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace driftbound
