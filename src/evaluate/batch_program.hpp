#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "driftbound/model/inputs.hpp"
#include "evaluate/batches.hpp"
#include "program/program.hpp"

namespace driftbound {

/// A graph compiled for the batch at hand. Batches of one size share a program.
class BatchProgram {
public:
  BatchProgram(const Graph& graph, const Batches& batches) : graph_(graph), batched_(batches.batched()) {}

  /// Compiles the graph for this batch, unless it is. Returns whether there is a new program.
  bool compile(const Inputs& batch, std::int64_t samples) {
    std::vector<Shape> shapes;
    for (const ValueId id : graph_.inputs) shapes.push_back(batch.at(graph_.value(id).name).shape());
    if (program_ && program_->input_shapes() == shapes) return false;
    program_ = std::make_unique<const Program>(graph_, shapes, batched_ ? std::optional(samples) : std::nullopt);
    return true;
  }

  const Program& operator*() const { return *program_; }

private:
  const Graph& graph_;
  bool batched_;
  std::unique_ptr<const Program> program_;
};

}  // namespace driftbound
