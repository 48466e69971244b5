#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace driftbound {

/// One element of a graph output, by row-major index within one sample.
struct OutputElement {
  std::size_t output = 0;  ///< position in Graph::outputs
  std::int64_t element = 0;
};

/// A number of interest: an output element, or the difference of two.
struct Target {
  OutputElement positive;
  std::optional<OutputElement> negative;
};

}  // namespace driftbound
