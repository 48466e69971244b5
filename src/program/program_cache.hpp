#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "program/program.hpp"

namespace driftbound {

/// A cache of compiled programs of one graph. It keeps the last 8 programs by input shapes and the last 8 results of
/// with_rows(). Thread-safe.
class ProgramCache {
public:
  /// Returns the graph compiled for these input shapes. Every call must pass the same graph, as it is not part of the
  /// key.
  /// Throws:    ShapeMismatch
  std::shared_ptr<const Program> program(const Graph& graph, const std::vector<Shape>& input_shapes,
                                         std::optional<std::int64_t> rows);
  /// Returns the result of Program::with_rows(); null if that is empty.
  std::shared_ptr<const Program> with_rows(const Program& program, std::int64_t rows);

private:
  struct OfShapes {
    std::vector<Shape> input_shapes;
    std::optional<std::int64_t> rows;
    std::shared_ptr<const Program> program;
  };
  struct OfRows {
    std::uint64_t identity = 0;  ///< of the program on which with_rows() was called
    std::int64_t rows = 0;
    std::shared_ptr<const Program> program;
  };

  std::mutex mutex_;
  std::vector<OfShapes> of_shapes_;
  std::vector<OfRows> of_rows_;
};

}  // namespace driftbound
