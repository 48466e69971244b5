#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace driftbound {

// Targets: the scalars for which end-to-end bounds are computed.

/// One element of a graph output.
struct OutputElement {
  std::size_t output = 0;    ///< position in Graph::outputs
  std::int64_t element = 0;  ///< row-major index within one sample
};

/// The scalar whose error is bounded: an output element, or the difference positive - negative of two.
struct Target {
  OutputElement positive;
  std::optional<OutputElement> negative;
};

}  // namespace driftbound
