#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "driftbound/model/graph.hpp"

namespace driftbound::analysis {

/// One element of a graph output, by row-major index within one sample.
struct OutputElement {
  std::size_t output = 0;  ///< position in Graph::outputs
  std::int64_t element = 0;
};

/// A number of interest: an output element, or the difference of two, evaluated exactly on the
/// computed outputs ('logits[1]-logits[0]').
struct Scalar {
  std::string text;
  OutputElement positive;
  std::optional<OutputElement> negative;
};

/// Parses 'NAME[INDEX]' or 'NAME[INDEX]-NAME[INDEX]'; NAME alone is NAME[0].
/// Throws:    InvalidArgument naming the outputs there are
Scalar parse_scalar(const Graph& graph, std::string_view text);

}  // namespace driftbound::analysis
