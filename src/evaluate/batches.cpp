#include "evaluate/batches.hpp"

#include <algorithm>
#include <string>

namespace driftbound {
namespace {

/// Rows of axis 0, one after the other.
StoredTensor chosen_rows(const StoredTensor& tensor, const std::vector<std::int64_t>& rows) {
  Shape shape = tensor.shape();
  const std::size_t width = tensor.bytes().size() / static_cast<std::size_t>(shape[0]);
  std::vector<std::byte> bytes;
  bytes.reserve(width * rows.size());
  for (const std::int64_t row : rows) {
    const auto from = tensor.bytes().subspan(static_cast<std::size_t>(row) * width, width);
    bytes.insert(bytes.end(), from.begin(), from.end());
  }
  shape[0] = static_cast<std::int64_t>(rows.size());
  return StoredTensor(tensor.type(), std::move(shape), std::move(bytes));
}

}  // namespace

Batches::Batches(const Graph& graph, const Inputs& inputs, const RunOptions& options)
    : graph_(graph), options_(options), given_(inputs) {
  if (options.threads < 1) throw InvalidArgument("a run needs at least one thread");
  if (options.batch < 0) throw InvalidArgument("a run needs at least one sample a batch (0: all)");
  validate(graph);
  layout_ = batch_layout(graph);
  samples_ = sample_count(graph, layout_, inputs);
  check_rows();
  Trace as_given;
  as_given.inputs = inputs;
  used_ = used_inputs(graph, as_given);
  check_shapes();
  batch_ = options.batch == 0 ? samples_ : std::min(options.batch, samples_);
  if (!layout_.batched) batch_ = 1;
}

std::int64_t Batches::recorded_samples() const {
  return options_.rows.empty() ? samples_ : static_cast<std::int64_t>(options_.rows.size());
}

Inputs Batches::recorded_inputs() const {
  if (recorded_samples() == samples_) return given_;
  Inputs chosen = given_;
  for (auto& [name, tensor] : chosen.tensors) {
    const auto is_it = [&, &key = name](ValueId id) { return graph_.value(id).name == key; };
    const bool is_input = std::any_of(graph_.inputs.begin(), graph_.inputs.end(), is_it);
    const bool has_samples = !tensor.shape().empty() && tensor.shape().front() == samples_;  // given integers
    if (is_input || has_samples) tensor = chosen_rows(tensor, options_.rows);
  }
  return chosen;
}

std::vector<RowRange> Batches::recorded(std::int64_t first, std::int64_t count) const {
  if (options_.rows.empty()) return {{0, count}};
  std::vector<RowRange> ranges;
  const auto begin = std::lower_bound(options_.rows.begin(), options_.rows.end(), first);
  const auto end = std::lower_bound(begin, options_.rows.end(), first + count);
  for (auto row = begin; row != end; ++row) {
    const std::int64_t at = *row - first;
    if (!ranges.empty() && ranges.back().first + ranges.back().count == at) {
      ++ranges.back().count;
    } else {
      ranges.push_back({at, 1});
    }
  }
  return ranges;
}

void Batches::check_rows() const {
  const std::vector<std::int64_t>& rows = options_.rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= samples_) {
      throw InvalidArgument("no row " + std::to_string(rows[i]) + " to record: there are " + std::to_string(samples_) +
                            " samples, counted from 0");
    }
    if (i > 0 && rows[i] <= rows[i - 1]) {
      throw InvalidArgument("rows to record must ascend: " + std::to_string(rows[i]) + " follows " +
                            std::to_string(rows[i - 1]));
    }
  }
}

void Batches::check_shapes() const {
  const Inputs first = slice(graph_, layout_, used_, 0, layout_.batched ? samples_ : 1);
  std::vector<Shape> shapes;
  for (const ValueId id : graph_.inputs) shapes.push_back(first.at(graph_.value(id).name).shape());
  infer_shapes(graph_, shapes);
}

void Batches::report_progress(std::int64_t done) const {
  if (!options_.progress || options_.progress(done, samples_)) return;
  throw Interrupted("the run was stopped after " + std::to_string(done) + " of " + std::to_string(samples_) +
                    " samples");
}

}  // namespace driftbound
