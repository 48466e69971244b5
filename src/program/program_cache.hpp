#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "program/program.hpp"

namespace driftbound {

/// Programs of one graph, kept for the last few shapes of its inputs. Thread-safe.
class ProgramCache {
public:
  /// The graph compiled for these inputs; always of the same graph.
  /// Throws:    ShapeMismatch
  std::shared_ptr<const Program> program(const Graph& graph, const std::vector<Shape>& input_shapes,
                                         std::optional<std::int64_t> rows);
  /// Program::with_rows(); null where that is empty.
  std::shared_ptr<const Program> with_rows(const Program& program, std::int64_t rows);

private:
  struct OfShapes {
    std::vector<Shape> input_shapes;
    std::optional<std::int64_t> rows;
    std::shared_ptr<const Program> program;
  };
  struct OfRows {
    std::uint64_t identity = 0;  ///< of the program that was asked
    std::int64_t rows = 0;
    std::shared_ptr<const Program> program;
  };

  std::mutex mutex_;
  std::vector<OfShapes> of_shapes_;
  std::vector<OfRows> of_rows_;
};

}  // namespace driftbound
